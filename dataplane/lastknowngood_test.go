package dataplane_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestTableOutlivesServersAndRestart(t *testing.T) {
	w := newWorld(t, 1)
	tab := newTable(t, 10, "a", "b")
	w.servers[0].set(tab)
	mustPoll(t, w.client())
	w.servers[0].status(http.StatusBadGateway)

	c := w.client()
	got := c.Boot()
	if got == nil || got.Digest() != tab.Digest() || got.Revision() != 10 {
		t.Fatalf("booted with %v", got)
	}
	holds(t, c, tab)
	s := c.Status()
	if !s.Applied.Stale || s.Applied.Origin != "http://a/routes" || !s.Applied.Confirmed.IsZero() || s.AgeSeconds <= 0 {
		t.Errorf("status is %+v, age %v", s.Applied, s.AgeSeconds)
	}
	if len(w.published) != 1 {
		t.Errorf("%d tables published, want only that of the first process", len(w.published))
	}
	failPoll(t, c, dataplane.ReasonStatus)
	holds(t, c, tab)
	if got := w.metric("dataplane_table_stale"); got != 1 {
		t.Errorf("the metric says that stale is %v", got)
	}

	w.servers[0].set(tab)
	mustPoll(t, c)
	want := etagOf(tab, "+zstd") + ", " + etagOf(tab, "+gzip")
	if got := w.servers[0].last(t).Header.Get("If-None-Match"); got != want {
		t.Errorf("the first request names %s, want %s", got, want)
	}
	if s := c.Status(); s.Applied.Stale || s.Applied.Confirmed.IsZero() || s.Applied.ETag != etagOf(tab, "+zstd") {
		t.Errorf("status is %+v", s.Applied)
	}
	if len(w.published) != 1 || len(w.confirmed) != 1 || w.metric("dataplane_table_stale") != 0 {
		t.Errorf("%d tables published, %d confirmed", len(w.published), len(w.confirmed))
	}
	mustPoll(t, c)
	if got, want := w.servers[0].last(t).Header.Get("If-None-Match"), etagOf(tab, "+zstd"); got != want {
		t.Errorf("the second request names %s, want %s", got, want)
	}
}

func TestRestartDoesNotGoBackInTime(t *testing.T) {
	w := newWorld(t, 1)
	newer := newTable(t, 10, "a", "b")
	w.servers[0].set(newer)
	mustPoll(t, w.client())
	c := w.client()
	c.Boot()
	w.servers[0].set(newTable(t, 9, "a", "b"))
	mustPoll(t, c)
	holds(t, c, newer)
}

func TestLastKnownGoodFileIsAnEskipDocumentForItsOwnerAlone(t *testing.T) {
	w := newWorld(t, 1)
	tab := newTable(t, 10, "a", "b")
	w.servers[0].set(tab)
	mustPoll(t, w.client())
	data := readFile(t, fileOf(w.cfg))
	routes, err := eskip.Parse(string(data))
	if err != nil || len(routes) != 2 {
		t.Errorf("%d routes (%v) in\n%s", len(routes), err, data)
	}
	header, _, _ := strings.Cut(string(data), "\na: ")
	for _, want := range []string{"version 1", tab.Digest().String(), `"revision":10`, `"time":"2`, "http://a/routes"} {
		if !strings.Contains(header, want) {
			t.Errorf("the header has no %q:\n%s", want, header)
		}
	}
	for _, path := range []string{fileOf(w.cfg)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v (%v)", path, info.Mode(), err)
		}
	}
}

// TestTornLastKnownGoodFileIsSetAside truncates the file at every byte.
func TestTornLastKnownGoodFileIsSetAside(t *testing.T) {
	w := newWorld(t, 1)
	tab := newTable(t, 10, "a", "b")
	w.servers[0].set(tab)
	mustPoll(t, w.client())
	whole := readFile(t, fileOf(w.cfg))
	dir := t.TempDir()
	for n := range whole {
		w.cfg.StateDir = dir
		if err := os.WriteFile(fileOf(w.cfg), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		setAside(t, w, whole[:n])
	}
}

// setAside boots and expects the file to be moved away, with its content.
func setAside(t *testing.T, w *world, content []byte) {
	t.Helper()
	before := w.log.count(publish.LogFileSetAside)
	c := w.client()
	if got := c.Boot(); got != nil {
		t.Fatalf("booted with %v from\n%s", got, content)
	}
	holds(t, c, nil)
	aside := fileOf(w.cfg) + ".bad"
	if got := readFile(t, aside); !bytes.Equal(got, content) {
		t.Fatalf("kept is\n%s\nwant\n%s", got, content)
	}
	if _, err := os.Lstat(fileOf(w.cfg)); !os.IsNotExist(err) {
		t.Fatalf("the file is still there (%v)", err)
	}
	if got := w.log.count(publish.LogFileSetAside) - before; got != 1 {
		t.Fatalf("said %d times that the file is set aside", got)
	}
	if err := os.Remove(aside); err != nil {
		t.Fatal(err)
	}
}

// foreign is what may be found in place of the last-known-good file.
func foreign(t *testing.T) map[string][]byte {
	tab := newTable(t, 10, "a", "b")
	file := marshal(t, tab, table.FileMeta{Origin: "somewhere"})
	return map[string][]byte{
		"empty":           {},
		"plain eskip":     tab.Text(),
		"binary":          {0, 1, 2, 3},
		"another version": bytes.Replace(file, []byte("version 1"), []byte("version 2"), 1),
		"edited by hand":  bytes.Replace(file, []byte("/a"), []byte("/x"), 1),
		"edited header":   bytes.Replace(file, []byte(`"revision":10`), []byte(`"revision":99`), 1),
		"appended to":     append(bytes.Clone(file), "c: * -> <shunt>;\n"...),
		"zeros at end":    append(bytes.Clone(file[:len(file)-10]), make([]byte, 10)...),
		"ends proxies":    marshal(t, parseTable(t, endsProxies, 10), table.FileMeta{Origin: "somewhere"}),
		"too large":       append(bytes.Clone(file), make([]byte, 200_000)...),
	}
}

// foreignWorld is a world with one server, in which a file of somebody else lies where the last-known-good file belongs.
func foreignWorld(t *testing.T, content []byte, maxBytes int64) *world {
	t.Helper()
	w := newWorld(t, 1)
	w.cfg.MaxBytes = maxBytes
	if err := os.WriteFile(fileOf(w.cfg), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFileAboveTheLimitIsSetAside(t *testing.T) {
	doc := strings.Repeat("x", 100_000)
	content := marshal(t, parseTable(t, `a: Path("/`+doc+`") -> <shunt>;`, 1), table.FileMeta{})
	setAside(t, foreignWorld(t, content, 1000), content)
}

func TestForeignFileIsSetAside(t *testing.T) {
	for name, content := range foreign(t) {
		t.Run(name, func(t *testing.T) {
			setAside(t, foreignWorld(t, content, 10_000), content)
		})
	}
}

// TestForeignFileIsNotOverwritten: not without Boot either.
func TestForeignFileIsNotOverwritten(t *testing.T) {
	for name, content := range foreign(t) {
		t.Run(name, func(t *testing.T) {
			w := foreignWorld(t, content, 10_000)
			tab := newTable(t, 10, "a", "b")
			w.servers[0].set(tab)
			c := w.client()
			mustPoll(t, c)
			fileHolds(t, fileOf(w.cfg), tab)
			if got := readFile(t, fileOf(w.cfg)+".bad"); !bytes.Equal(got, content) {
				t.Errorf("kept is\n%s", got)
			}
			w.servers[0].set(newTable(t, 11, "a", "b"))
			mustPoll(t, c)
			if _, err := os.Lstat(fileOf(w.cfg) + ".bad-2"); !os.IsNotExist(err) {
				t.Error("a good file was set aside, too")
			}
		})
	}
}

func TestFolderInPlaceOfTheFileIsSetAside(t *testing.T) {
	w := newWorld(t, 1)
	if err := os.Mkdir(fileOf(w.cfg), 0o700); err != nil {
		t.Fatal(err)
	}
	tab := newTable(t, 10, "a")
	w.servers[0].set(tab)
	c := w.client()
	if got := c.Boot(); got != nil {
		t.Fatalf("booted with %v", got)
	}
	mustPoll(t, c)
	holds(t, c, tab)
}

func TestBootWithoutFile(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	if got := c.Boot(); got != nil {
		t.Errorf("booted with %v", got)
	}
	if got := w.log.count(publish.LogFileMissing); got != 1 {
		t.Errorf("said %d times that there is no file", got)
	}
	w.cfg.StateDir = ""
	c = w.client()
	if got := c.Boot(); got != nil {
		t.Errorf("booted with %v", got)
	}
	tab := newTable(t, 1, "a")
	w.servers[0].set(tab)
	mustPoll(t, c)
	if s := c.Status(); s.LastKnownGood != nil {
		t.Errorf("status has files: %+v", s)
	}
	if got := c.Boot(); got.Digest() != tab.Digest() {
		t.Errorf("late Boot gave %v, want the applied table", got)
	}
}

// TestFailingDiskCostsNothingButTheFile: the table is served and named, and it is written as soon as possible.
func TestFailingDiskCostsNothingButTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		dir := filepath.Join(t.TempDir(), "later")
		w.cfg.StateDir = dir
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := w.client()
		first, second := newTable(t, 10, "a", "b"), newTable(t, 11, "a", "b")
		s := w.servers[0]
		s.set(first)
		stop := w.run(c)
		time.Sleep(time.Second)
		holds(t, c, first)
		if got := c.Status().LastKnownGood; got.Error == "" || !got.Written.IsZero() {
			t.Errorf("status of the file is %+v", got)
		}
		s.set(second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		holds(t, c, second)
		if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(second, "+zstd"); got != want {
			t.Errorf("the request names %s, want %s: a table is not downloaded again for the disk", got, want)
		}
		if got := w.log.count(publish.LogFileFailed); got != 1 {
			t.Errorf("said %d times that the file cannot be written, want once", got)
		}
		if err := os.Remove(dir); err != nil { // the client creates the folder
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		fileHolds(t, fileOf(w.cfg), second)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the state folder is %v (%v), want mode 0700", info, err)
		}
		if got := c.Status().LastKnownGood; got.Error != "" || got.Written.IsZero() {
			t.Errorf("status of the file is %+v", got)
		}
		if got := w.log.count(publish.LogFileRecovered); got != 1 {
			t.Errorf("said %d times that the file can be written again", got)
		}
		stop()
		if a, b := w.metric("dataplane_file_writes_total", "file", "last_known_good", "result", "error"), w.metric("dataplane_file_writes_total", "file", "last_known_good", "result", "ok"); a != 2 || b != 1 {
			t.Errorf("%v writes failed, %v went well, want 2 and 1: at the end the table is there", a, b)
		}
	})
}

// TestFileTellsAtTheEndWhenTheTableWasLastCurrent: at the exit the file records it, so the age of the table is known after a
// restart.
func TestFileTellsAtTheEndWhenTheTableWasLastCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		c := w.client()
		w.servers[0].set(newTable(t, 10, "a", "b"))
		stop := w.run(c)
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		c = w.client()
		c.Boot()
		if got := c.Status().AgeSeconds; got > 4 {
			t.Errorf("the table is %v s old", got)
		}
	})
}

// FuzzLastKnownGood checks the loader of the file: whatever the content, it is loaded completely or set aside completely.
func FuzzLastKnownGood(f *testing.F) {
	tab := newTable(f, 10, "a", "b")
	file := marshal(f, tab, table.FileMeta{Saved: time.Unix(1, 0), Origin: "http://a/routes"})
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add(tab.Text())
	f.Add([]byte(`// routesrv table, version 1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t, 1)
		if err := os.WriteFile(fileOf(w.cfg), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := w.client()
		got := c.Boot()
		if got == nil {
			if kept := readFile(t, fileOf(w.cfg)+".bad"); !bytes.Equal(kept, data) {
				t.Fatalf("kept is\n%q\nwant\n%q", kept, data)
			}
			holds(t, c, nil)
			return
		}
		if !bytes.Contains(data, []byte(got.Digest().String())) {
			t.Fatalf("loaded %s, which the file does not name", got.Digest())
		}
		fileHolds(t, fileOf(w.cfg), got)
	})
}

// TestARestartEndsNoHold: a route server without a guard shows a loss, and then a restore in steps. The client is restarted before each
// answer, and its proxy gets only what is whole.
func TestARestartEndsNoHold(t *testing.T) {
	w := newWorld(t, 1)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = fmt.Sprintf("r%02d", i)
	}
	whole := newTable(t, 10, ids...)
	w.servers[0].set(whole)
	mustPoll(t, w.client())
	for back, revision := 2, uint64(11); back <= len(ids); back, revision = back+3, revision+1 {
		c := w.client()
		c.Boot()
		w.servers[0].set(newTable(t, revision, ids[:back]...))
		mustPoll(t, c)
		if back < len(ids) {
			holds(t, c, whole)
		} else {
			holds(t, c, newTable(t, revision, ids...))
		}
		c.Publisher().Flush()
	}
}
