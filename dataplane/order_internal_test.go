package dataplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// oneTable is a RoundTripper that always sends a table.
type oneTable struct {
	mu sync.Mutex
	t  *table.Table
}

func (o *oneTable) set(t *table.Table) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.t = t
}

func (o *oneTable) RoundTrip(*http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Etag", `"`+o.t.Digest().String()+`"`)
	_, _ = w.Write(o.t.Text())
	return w.Result(), nil
}

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

// TestMemoryThenDiskThenETag holds the order of a commit.
func TestMemoryThenDiskThenETag(t *testing.T) {
	var c *Client
	var steps []string
	transport := &oneTable{}
	transport.set(makeTable(t, `a: * -> <shunt>;`))
	path := t.TempDir() + "/lkg"
	c, err := New(Config{
		URLs: []string{"http://a"}, LKGPath: path, Transport: transport,
		Publish: func(*table.Table, Applied) {
			if c.Current() == nil {
				steps = append(steps, "publish")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.lkg.write = func(path string, write func(io.Writer) error) error {
		if a := c.cur.Load(); a != nil && len(a.etags) == 0 {
			steps = append(steps, "write while the table is current and not named")
		}
		return durable.WriteFile(path, write)
	}
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := c.cur.Load(); a != nil && len(a.etags) == 1 {
		steps = append(steps, "named")
	}
	if want := []string{"publish", "write while the table is current and not named", "named"}; !slices.Equal(steps, want) {
		t.Errorf("the steps were %q, want %q", steps, want)
	}
}

// TestDiskThatHangsDelaysNothing: the write is waited for, but not for ever, and of the tables in between the last is
// written.
func TestDiskThatHangsDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := makeTable(t, `a: * -> <shunt>;`), makeTable(t, `b: * -> <shunt>; a: * -> <shunt>;`), makeTable(t, `a: * -> <loopback>;`)
		transport := &oneTable{}
		transport.set(first)
		c, err := New(Config{URLs: []string{"http://a"}, LKGPath: t.TempDir() + "/lkg", Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		hangs := make(chan struct{})
		c.lkg.write = func(path string, write func(io.Writer) error) error {
			<-hangs
			return durable.WriteFile(path, write)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(fileWait + time.Second)
		transport.set(second)
		time.Sleep(2 * fileWait)
		transport.set(third)
		time.Sleep(2 * fileWait)
		synctest.Wait()
		if got := c.Current(); got.Digest() != third.Digest() {
			t.Errorf("the table is\n%s", got.Text())
		}
		if a := c.cur.Load(); len(a.etags) != 1 {
			t.Errorf("the table is named %q", a.etags)
		}
		close(hangs)
		synctest.Wait()
		data, err := os.ReadFile(c.cfg.LKGPath)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := table.ParseFile(data)
		if err != nil || got.Digest() != third.Digest() {
			t.Errorf("the file has %v (%v)", got, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestFailedWriteLeavesTheOldFile, under whose own name a restart asks.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	first, second := makeTable(t, `a: * -> <shunt>;`), makeTable(t, `a: * -> <loopback>;`)
	transport := &oneTable{}
	transport.set(first)
	cfg := Config{URLs: []string{"http://a"}, LKGPath: t.TempDir() + "/lkg", Transport: transport}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.lkg.write = func(path string, write func(io.Writer) error) error {
		return durable.WriteFile(path, func(w io.Writer) error {
			return write(&shortWriter{w, 300})
		})
	}
	transport.set(second)
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Current(); got.Digest() != second.Digest() {
		t.Errorf("the table is\n%s", got.Text())
	}
	if c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	got := c.Boot()
	if got.Digest() != first.Digest() {
		t.Fatalf("booted with %v", got)
	}
	if names := c.view().names(); !slices.Equal(names, namesOf(first)) {
		t.Errorf("the next request names %q", names)
	}
}

// shortWriter is a disk that becomes full.
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
