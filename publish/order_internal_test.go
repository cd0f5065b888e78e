package publish

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

func makeTable(t *testing.T, doc string) *table.Table {
	t.Helper()
	routes, err := table.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// named is a candidate that a server names.
func named(t *table.Table) Candidate {
	return Candidate{Table: t, Names: []string{t.Digest().String()}, Sent: t.Digest(), Read: table.Read{At: time.Now()}}
}

// withFile makes a Publisher with a last-known-good file.
func withFile(t *testing.T, path string, sink Sink) *Publisher {
	t.Helper()
	g, err := New(Config{Sink: sink, File: FileConfig{Name: "last_known_good", Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDiskThatHangsDelaysNothing: only the end of a process waits for a write, for a limited time. Of the tables that come meanwhile the
// last one is written.
func TestDiskThatHangsDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/table.eskip"
		g := withFile(t, path, Each(func(*table.Table) {}))
		hangs := make(chan struct{})
		g.file.put = func(path string, write func(io.Writer) error) error {
			<-hangs
			return durable.WriteFile(path, write)
		}
		var last *table.Table
		for i, doc := range []string{`a: * -> <shunt>;`, `b: * -> <shunt>; a: * -> <shunt>;`, `a: * -> <loopback>; b: * -> <shunt>;`} {
			last = makeTable(t, doc)
			begin := time.Now()
			g.Begin().Offer(named(last))
			if d := time.Since(begin); d != 0 {
				t.Errorf("offer %d took %v", i, d)
			}
			if s := g.Served(); s.Table != last || len(s.Names) != 1 {
				t.Errorf("offer %d: %v is served under the names %q", i, s.Table, s.Names)
			}
		}
		begin := time.Now()
		if g.Flush(); time.Since(begin) != fileWait {
			t.Errorf("the end took %v, want %v", time.Since(begin), fileWait)
		}
		close(hangs)
		g.Flush()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := table.ReadFile(bytes.NewReader(data))
		if err != nil || got.Digest() != last.Digest() {
			t.Errorf("the file has %v (%v)", got, err)
		}
	})
}

// TestFailedWriteLeavesTheOldFile: after a failed write the old file remains, and a restart asks under the name of the table in
// it.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	first, second := makeTable(t, `a: * -> <shunt>;`), makeTable(t, `a: * -> <loopback>;`)
	path := t.TempDir() + "/table.eskip"
	g := withFile(t, path, Each(func(*table.Table) {}))
	g.Begin().Offer(named(first))
	g.Flush()
	g.file.put = func(path string, write func(io.Writer) error) error {
		return durable.WriteFile(path, func(w io.Writer) error {
			return write(&shortWriter{w, 300})
		})
	}
	g.Begin().Offer(named(second))
	g.Flush()
	if got := g.Table(); got != second {
		t.Errorf("the table is\n%s", got.Text())
	}
	g = withFile(t, path, Each(func(*table.Table) {}))
	g.Boot(1<<20, func(t *table.Table) []string { return []string{"of " + t.Digest().String()} })
	s := g.Served()
	if s == nil || s.Table.Digest() != first.Digest() || !s.Stale {
		t.Fatalf("booted with %+v", s)
	}
	if want := []string{"of " + first.Digest().String()}; !slices.Equal(s.Names, want) {
		t.Errorf("the names are %q, want %q", s.Names, want)
	}
}

// shortWriter imitates a disk that becomes full.
type shortWriter struct {
	w    io.Writer
	room int
}

func (s *shortWriter) Write(p []byte) (int, error) {
	if len(p) > s.room {
		return 0, errors.New("no space left on device")
	}
	s.room -= len(p)
	return s.w.Write(p)
}

func TestAWriteThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "gone")
		if err := os.WriteFile(folder, nil, 0o600); err != nil { // no folder can be created there
			t.Fatal(err)
		}
		path := filepath.Join(folder, "table.eskip")
		g, err := New(Config{Sink: Each(func(*table.Table) {}), File: FileConfig{Name: "last_known_good", Path: path}})
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		g.file.put = func(path string, write func(io.Writer) error) error {
			writes++
			return durable.WriteFile(path, write)
		}
		g.Begin().Offer(named(makeTable(t, `a: * -> <shunt>;`)))
		synctest.Wait()
		if s := g.File(); s.Error == "" {
			t.Error("the write did not fail")
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		g.Tend() // too early
		synctest.Wait()
		if writes > 0 {
			t.Error("a write was made at once after one that failed")
		}
		for range 10 {
			time.Sleep(fileRetry)
			g.Tend()
			synctest.Wait()
		}
		if s := g.File(); writes != 1 || s.Error != "" || s.Written.IsZero() {
			t.Errorf("%d writes, status %+v: want one write without error", writes, s)
		}
	})
}
