package publish_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// filePublisher makes a Publisher with one file.
func filePublisher(t *testing.T, cfg publish.FileConfig) *publish.Publisher {
	t.Helper()
	cfg.Name = "last_known_good"
	g, err := publish.New(publish.Config{Sink: publish.Each(func(*table.Table) {}), File: cfg})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A mistyped path must not destroy a file that is not ours, whether or not the Publisher restored a table from it.
func TestAFileOfSomebodyElseIsKept(t *testing.T) {
	const foreign = "the only copy\n"
	for _, boots := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "table.eskip")
		for _, file := range []string{path, path + ".state"} {
			if err := os.WriteFile(file, []byte(foreign), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := filePublisher(t, publish.FileConfig{Path: path})
		if boots {
			g.Boot(1<<20, nil)
			if g.Served() != nil {
				t.Errorf("served is\n%s", g.Table().Text())
			}
		}
		for n := range 3 {
			g.Begin().Offer(offered(tableOf(t, n+1, 10)))
		}
		g.Flush()
		for _, file := range []string{path + ".bad", path + ".state.bad"} {
			if got, err := os.ReadFile(file); err != nil || string(got) != foreign {
				t.Errorf("boots %v: %s has %q, %v", boots, file, got, err)
			}
		}
		f := g.File()
		if f.Unusable == "" || f.KeptAs != path+".bad" || f.Path != path || f.Error != "" || f.Written.IsZero() {
			t.Errorf("boots %v: the status is %+v", boots, f)
		}
		again := filePublisher(t, publish.FileConfig{Path: path})
		again.Boot(1<<20, nil)
		if again.Served() == nil || again.Table().Len() != 3 || !again.Served().Stale || again.File().Unusable != "" {
			t.Errorf("boots %v: after a restart: %+v", boots, again.Served())
		}
	}
}

// A plain file for a proxy is always replaced: its format cannot be told from a file of somebody else.
func TestAPlainFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes")
	if err := os.WriteFile(path, []byte("old: * -> <shunt>;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := filePublisher(t, publish.FileConfig{Path: path, Plain: true})
	tab := tableOf(t, 2, 10)
	g.Begin().Offer(offered(tab))
	g.Flush()
	if got, err := os.ReadFile(path); err != nil || string(got) != string(tab.Text())+"\n" {
		t.Errorf("the file has (%v)\n%s", err, got)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("in the folder is %v, %v", files, err)
	}
}

// A file whose text does not match its digest was edited, and is not a table that was ever served.
func TestAFileThatWasEditedIsNotServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	g := filePublisher(t, publish.FileConfig{Path: path})
	g.Begin().Offer(offered(tableOf(t, 2, 10)))
	g.Flush()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(whole), "10.0.0.1", "10.0.0.2", 1)
	for _, text := range []string{edited, string(whole[:len(whole)-10])} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g := filePublisher(t, publish.FileConfig{Path: path})
		g.Boot(1<<20, nil)
		if g.Served() != nil || g.File().Unusable == "" {
			t.Errorf("served is %+v of\n%s", g.Served(), text)
		}
	}
}

// A valid file of ours is replaced and not set aside, even by a Publisher that has not restored a table from it.
func TestAFileOfOursIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	for n := range 2 {
		g := filePublisher(t, publish.FileConfig{Path: path})
		g.Begin().Offer(offered(tableOf(t, n+1, 10)))
		g.Flush()
		if f := g.File(); f.Unusable != "" || f.KeptAs != "" || f.Written.IsZero() {
			t.Errorf("the status is %+v", f)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("in the folder is %v, %v", files, err)
	}
}

// TestFileWaitsForProof: it keeps the table before, and the time when that was last shown, until the next one is proven. A restart then
// has that table.
func TestFileWaitsForProof(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	proven := tableOf(t, 10, 10)
	wait := func(d table.Digest) bool { return d != proven.Digest() }
	g := filePublisher(t, publish.FileConfig{Path: path, Unproven: wait})
	restarted := func() *publish.Served {
		g.Flush()
		again := filePublisher(t, publish.FileConfig{Path: path})
		again.Boot(1<<20, nil)
		return again.Served()
	}
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	offer := func(of *table.Table, read time.Time) {
		t.Helper()
		if r := g.Begin().Offer(publish.Candidate{Table: of, Sent: of.Digest(), Read: table.Read{At: read}}).Result; r == publish.Held {
			t.Fatal("the table is held")
		}
	}
	offer(proven, at)
	next := tableOf(t, 11, 11)
	offer(next, at.Add(time.Minute))
	offer(next.WithRevision(12), at.Add(2*time.Minute)) // the same table, confirmed
	if s := restarted(); s == nil || s.Table.Len() != 10 || !s.Read.At.Equal(at) {
		t.Errorf("before the proof the file has %+v", s)
	}
	offer(proven.WithRevision(13), at.Add(3*time.Minute)) // back to it
	if s := restarted(); s == nil || s.Table.Revision() != 13 || !s.Read.At.Equal(at.Add(3*time.Minute)) {
		t.Errorf("after it was served again the file has %+v", s)
	}
	g.Prove(publish.Candidate{Table: next, Origin: "proof", Read: table.Read{At: at.Add(2 * time.Minute)}})
	if s := restarted(); s == nil || s.Table.Len() != 11 || s.Origin != "proof" || !s.Read.At.Equal(at.Add(2*time.Minute)) {
		t.Errorf("after the proof the file has %+v", s)
	}
}
