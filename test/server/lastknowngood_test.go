package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/table"
)

func stateDir(dir string) func(*server.Config) {
	return func(cfg *server.Config) { cfg.StateDir, cfg.Origin = dir, "cluster" }
}

// readLastKnownGood reads the last-known-good file in the folder.
func readLastKnownGood(t *testing.T, dir string) (*table.Table, table.FileMeta) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "table.eskip"))
	if err != nil {
		t.Fatal(err)
	}
	tab, meta, err := table.ReadFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return tab, meta
}

// withLastKnownGood makes a last-known-good file of a cluster with the objects in the folder, and returns the ETag of its table.
func withLastKnownGood(t *testing.T, dir, objects string) (etag string) {
	t.Helper()
	f := start(t, objects, stateDir(dir))
	f.ready()
	etag = f.get("/routes").header.Get("Etag")
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	return etag
}

// TestLastKnownGoodFileIsWritten: at once with the first table, and with the last one when the server ends.
func TestLastKnownGoodFileIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	f := start(t, service+ingress("a"), stateDir(dir))
	f.ready()
	path := filepath.Join(dir, "table.eskip")
	text := func() string {
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		tab, _ := readLastKnownGood(t, dir)
		return string(tab.Text())
	}
	f.eventually("last-known-good file", func() bool { return text() == f.get("/routes").body })
	for name, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v (error %v), want %v", name, info.Mode(), err, want)
		}
	}
	if _, meta := readLastKnownGood(t, dir); meta.Origin != "cluster" || meta.Revision != 100 || meta.Saved.IsZero() {
		t.Errorf("meta data %+v, want the origin, the revision and the time of the read", meta)
	}
	f.eventually("counter", func() bool {
		return strings.Contains(f.metrics(), `routesrv_file_writes_total{file="last_known_good",result="ok"} 1`)
	})
	if want := `"last_known_good":{"last_read":"T","path":"` + path + `","written":"T"}`; !strings.Contains(f.status(), want) {
		t.Errorf("status %s, want %s in it", f.status(), want)
	}
}

func TestRestartWithoutSourceServesTheLastKnownGoodTableAsStale(t *testing.T) {
	dir := t.TempDir()
	etag := withLastKnownGood(t, dir, service+ingresses("a", "b"))
	_, meta := readLastKnownGood(t, dir)
	stopped := time.Now()

	f := &fixture{}
	cfg := f.config(t, service+ingresses("a", "b"))
	stateDir(dir)(&cfg)
	f.breakSource(true)
	f.run(cfg)
	for range 2 { // at once, and still so after failed reads
		got := f.get("/routes")
		if got.status != 200 || got.header.Get("Etag") != etag || got.header.Get("X-Table-State") != "stale" {
			t.Errorf("%d, ETag %s, state %q: want the old table, marked as stale", got.status, got.header.Get("Etag"), got.header.Get("X-Table-State"))
		}
		// A later read may have shown the same table before the stop.
		read, err := time.Parse("2006-01-02T15:04:05.000Z07:00", got.header.Get("X-Source-Read"))
		if err != nil || read.Before(meta.Saved.Truncate(time.Millisecond)) || read.After(stopped) {
			t.Errorf("source read at %s (error %v), want between %s and %s, before the restart", got.header.Get("X-Source-Read"), err, meta.Saved, stopped)
		}
		if again := f.get("/routes", "If-None-Match: "+etag); again.status != 304 || again.header.Get("X-Table-State") != "stale" {
			t.Errorf("%d, state %q, want a stale 304", again.status, again.header.Get("X-Table-State"))
		}
		if got := f.get("/health").status; got != 204 {
			t.Errorf("health: %d, want 204", got)
		}
		if !strings.Contains(f.status(), `"stale":true`) || !strings.Contains(f.metrics(), "\nroutesrv_table_stale 1\n") {
			t.Error("staleness is missing in /status or in the metrics")
		}
		f.polled()
	}
	f.breakSource(false)
	f.eventually("a fresh table", func() bool { return f.get("/routes").header.Get("X-Table-State") == "" })
	if got := f.get("/routes"); got.header.Get("Etag") != etag {
		t.Errorf("ETag %s after the read has confirmed the table, want the same: %s", got.header.Get("Etag"), etag)
	}
	if strings.Contains(f.status(), `"stale":true`) || !strings.Contains(f.metrics(), "\nroutesrv_table_stale 0\n") {
		t.Error("staleness has not ended in /status or in the metrics")
	}
}

func TestFirstReadReplacesTheLastKnownGoodTable(t *testing.T) {
	dir := t.TempDir()
	etag := withLastKnownGood(t, dir, service+ingress("a"))
	f := start(t, service+ingresses("a", "b"), stateDir(dir))
	f.eventually("the new table", func() bool { return f.get("/routes").header.Get("Etag") != etag })
	if got := f.get("/routes").header; got.Get("X-Count") != "2" || got.Get("X-Table-State") != "" {
		t.Errorf("%s routes, state %q: want the two fresh ones", got.Get("X-Count"), got.Get("X-Table-State"))
	}
}

func TestLastKnownGoodFileIsWhatTheFirstReadIsComparedWith(t *testing.T) {
	dir := t.TempDir()
	etag := withLastKnownGood(t, dir, service+ingresses("a", "b", "c"))
	f := start(t, service+ingress("a"), stateDir(dir))
	f.polled()
	digest := func(etag string) string { before, _, _ := strings.Cut(etag, "."); return before }
	if got := f.get("/routes").header; digest(got.Get("Etag")) != digest(etag) || got.Get("X-Table-State") != "held" {
		t.Errorf("ETag %s, state %q: want the routes of the old table, since the new one has lost too much", got.Get("Etag"), got.Get("X-Table-State"))
	}
	if status := f.status(); !strings.Contains(status, `"kept_count":2`) { // by the history, which knows the objects
		t.Errorf("the lost objects are not kept: %s", status)
	}
}

func TestLastKnownGoodFileThatCannotBeTrustedIsSetAsideAndSaid(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"changed byte": func(b []byte) []byte { b[len(b)-10]++; return b },
		"cut":          func(b []byte) []byte { return b[:len(b)/2] },
		"empty":        func([]byte) []byte { return nil },
		"other file":   func([]byte) []byte { return []byte("hello") },
		"a route that ends proxies": func([]byte) []byte { // of a version that did not know it
			routes, err := table.Parse(`a: Path("/a") -> admissionControl("g", "active", "0s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`)
			if err != nil {
				t.Fatal(err)
			}
			tab, err := table.New(routes, 1, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := tab.WriteFile(&b, table.FileMeta{Saved: time.Now(), Origin: "manifests"}); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			withLastKnownGood(t, dir, service+ingress("a"))
			path := filepath.Join(dir, "table.eskip")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := spoil(data)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			f := &fixture{}
			cfg := f.config(t, service+ingress("a"))
			stateDir(dir)(&cfg)
			f.breakSource(true)
			f.run(cfg)
			if got := f.get("/routes").status; got != 404 {
				t.Errorf("%d, want 404: nothing is served", got)
			}
			lines := f.logged("last-known-good file is not usable, set aside and not loaded")
			if len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], path+".bad") {
				t.Errorf("log %q", lines)
			}
			if kept, err := os.ReadFile(path + ".bad"); err != nil || string(kept) != string(bad) {
				t.Errorf("%d bytes set aside (error %v), want all %d", len(kept), err, len(bad))
			}
			f.breakSource(false)
			f.ready()
			f.eventually("a new last-known-good file", func() bool { _, err := os.Stat(path); return err == nil })
		})
	}
}

func TestDiskThatFailsIsNoReasonToStopServing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f := start(t, service+ingress("a"), stateDir(dir))
	f.ready()
	f.eventually("last-known-good file", func() bool { _, err := os.Stat(filepath.Join(dir, "table.eskip")); return err == nil })
	f.eventually("a file in place of the folder", func() bool { // a write may be in progress and put a file into it
		return os.RemoveAll(dir) == nil && os.WriteFile(dir, nil, 0o600) == nil
	})
	f.apply(ingress("b"))
	f.eventually("the new table", func() bool { return f.get("/routes").header.Get("X-Count") == "2" })
	f.eventually("complaint", func() bool {
		return len(linesWith(f.log.String(), "file cannot be written, the table is served from memory")) == 1 &&
			strings.Contains(f.metrics(), `routesrv_file_writes_total{file="last_known_good",result="error"} 1`) &&
			strings.Contains(f.status(), `"last_known_good":{"error":"`)
	})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.stop(); err != nil { // which tries again
		t.Fatal(err)
	}
	if tab, _ := readLastKnownGood(t, dir); tab.Len() != 2 {
		t.Errorf("the file has %d routes, want those of the last table", tab.Len())
	}
}

// TestNothingInThePlaceOfTheStatePreventsAStart: the API is healthy, so the server serves, and exits when it is told to.
func TestNothingInThePlaceOfTheStatePreventsAStart(t *testing.T) {
	file := func(dir string) string { return filepath.Join(dir, "table.eskip") }
	for name, c := range map[string]struct {
		put  func(dir string) error // in place of the folder, or of the file in it
		kept bool                   // a last-known-good file is written all the same
	}{
		"file for the folder": {func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, false},
		"FIFO for the folder": {func(dir string) error { return errors.Join(os.Remove(dir), syscall.Mkfifo(dir, 0o600)) }, false},
		"FIFO":                {func(dir string) error { return syscall.Mkfifo(file(dir), 0o600) }, true},
		"folder":              {func(dir string) error { return os.MkdirAll(file(dir)+"/x", 0o700) }, true},
		"device":              {func(dir string) error { return os.Symlink("/dev/zero", file(dir)) }, true},
		"link to itself":      {func(dir string) error { return os.Symlink(file(dir), file(dir)) }, true},
		"3 GB": {func(dir string) error {
			return errors.Join(os.WriteFile(file(dir), nil, 0o600), os.Truncate(file(dir), 3<<30))
		}, true},
		"half of a write": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".table.eskip.tmp1"), []byte("half"), 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.put(dir); err != nil {
				t.Fatal(err)
			}
			f := start(t, service+ingress("a"), stateDir(dir))
			f.ready()
			if got := f.get("/routes").header.Get("X-Count"); got != "1" {
				t.Errorf("%s routes", got)
			}
			f.eventually("the word of it", func() bool {
				if !c.kept {
					return strings.Contains(f.status(), `"last_known_good":{"error":"`)
				}
				return strings.Contains(f.status(), `"written":`)
			})
			if said := linesWith(f.log.String(), "level=ERROR"); name != "half of a write" && len(said) != 1 {
				t.Errorf("%d errors in the log, want one:\n%s", len(said), strings.Join(said, "\n"))
			}
			if c.kept && name != "half of a write" && !strings.Contains(f.status(), `"unusable":`) {
				t.Errorf("/status does not tell: %s", f.status())
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
			if c.kept {
				readLastKnownGood(t, dir)
			}
		})
	}
}

// lastRead returns the time of the last read in the state beside the last-known-good file.
func lastRead(t *testing.T, dir string) time.Time {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "table.eskip.state"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Read time.Time }
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	return state.Read
}

// The time of the last read must survive a restart, even of a server that has published nothing new.
func TestLastKnownGoodFileTellsOfTheLastReadBeforeTheEnd(t *testing.T) {
	dir := t.TempDir()
	withLastKnownGood(t, dir, service+ingress("a"))
	_, first := readLastKnownGood(t, dir)

	f := start(t, service+ingress("a"), stateDir(dir)) // confirms the table and publishes nothing
	f.polled()
	before := time.Now()
	f.polled()
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	second := lastRead(t, dir)
	if tab, _ := readLastKnownGood(t, dir); second.Before(before) || !tab.Time().Equal(first.Time) {
		t.Errorf("read at %v, want after %v; table of %v, want the first one of %v", second, before, tab.Time(), first.Time)
	}

	f = &fixture{}
	cfg := f.config(t, service)
	stateDir(dir)(&cfg)
	f.breakSource(true)
	f.run(cfg)
	f.polled()
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if third := lastRead(t, dir); !third.Equal(second) {
		t.Errorf("read at %v after a run without any, want %v as before", third, second)
	}
	if diff := cmp.Diff([]string{"control", "history", "table.eskip", "table.eskip.state"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
