package audit_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// entry returns the i-th decision of a test.
func entry(i int) audit.Entry {
	return audit.Entry{
		Time: start.Add(time.Duration(i) * time.Second), What: audit.Accepted, Digest: table.Digest{byte(i), byte(i >> 8)}, Reason: "routes_lost",
		By: "ann", Why: "moved",
	}
}

// errorsOf collects errors.
type errorsOf struct {
	mu  sync.Mutex
	all []error
}

func (e *errorsOf) add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, err)
}

func (e *errorsOf) take() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// open opens a log that must not report errors.
func open(t *testing.T, path string) *audit.Log {
	t.Helper()
	return audit.Open(path, func(err error) { t.Errorf("unexpected: %v", err) })
}

func flush(t *testing.T, l *audit.Log) {
	t.Helper()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEntriesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l := open(t, path)
	for i := range 3 {
		l.Append(entry(i))
	}
	want := []audit.Entry{entry(2), entry(1)}
	if diff := cmp.Diff(want, l.Last(2)); diff != "" {
		t.Errorf("before anything is written (-want +got):\n%s", diff)
	}
	flush(t, l)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	first, _, _ := strings.Cut(read(t, path), "\n")
	if want := `{"time":"2026-11-21T04:15:45Z","what":"accepted","digest":"` + strings.Repeat("0", 64) + `","reason":"routes_lost","by":"ann","why":"moved"}`; first != want {
		t.Errorf("line %s, want %s", first, want)
	}
	l = open(t, path)
	if diff := cmp.Diff(append(want, entry(0)), l.Last(10)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	l.Append(entry(3))
	flush(t, l)
	if got := open(t, path).Last(1); len(got) != 1 || got[0] != entry(3) {
		t.Errorf("last entry %+v", got)
	}
}

func TestTextsBreakNoLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l := open(t, path)
	e := entry(1)
	e.By, e.Why = "a\n{\"what\":\"held\"}\n\x1b[31m\u202e\u2028\x00\xff", strings.Repeat("é", 5000)
	e.Time = start.AddDate(20_000, 0, 0)
	l.Append(e)
	l.Append(audit.Entry{What: audit.Held})
	flush(t, l)
	text := read(t, path)
	if strings.Count(text, "\n") != 2 || strings.ContainsAny(text, "\x1b\x00\u2028\u202e") {
		t.Errorf("file %q", text)
	}
	got := open(t, path).Last(10)
	if diff := cmp.Diff(l.Last(10), got); diff != "" || len(got) != 2 {
		t.Errorf("(-memory +file):\n%s", diff)
	}
	if n := len([]rune(got[1].Why)); n != 1000 {
		t.Errorf("a reason of %d characters is kept", n)
	}
}

func TestTornLineCostsOnlyItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l := open(t, path)
	l.Append(entry(0))
	l.Append(entry(1))
	flush(t, l)
	text := read(t, path)
	for cut := strings.Index(text, "\n") + 2; cut < len(text)-1; cut++ {
		if err := os.WriteFile(path, []byte(text[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, path)
		l.Append(entry(2))
		flush(t, l)
		if diff := cmp.Diff([]audit.Entry{entry(2), entry(0)}, open(t, path).Last(10)); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, diff)
		}
	}
}

func TestFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "decisions.jsonl")
	l := open(t, path)
	const entries = 800 // of more than 3,000 bytes: more than two files of 1 MiB
	for i := range entries {
		e := entry(i)
		e.Why = strings.Repeat("語", 1000)
		l.Append(e)
		if i%100 == 99 {
			flush(t, l)
		}
	}
	flush(t, l)
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() > 1<<20 || info.Mode() != 0o600 {
			t.Errorf("%v, error %v", info, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("files %v, error %v", names, err)
	}
	got := open(t, path).Last(entries)
	if len(got) != 100 {
		t.Fatalf("%d entries in memory, want 100", len(got))
	}
	for i, e := range got {
		if want := entry(entries - 1 - i); e.Digest != want.Digest {
			t.Fatalf("entry %d is %v, want %v", i, e.Time, want.Time)
		}
	}
}

// TestWhateverIsThere: whatever is in place of the file, the log starts, and keeps entries in memory.
func TestWhateverIsThere(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder":    func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("/dev/null", path) },
		"no folder": func(path string) error { return os.Remove(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "decisions.jsonl")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			var failed errorsOf
			l := audit.Open(path, failed.add)
			if all := failed.take(); len(all) > 0 && !errors.Is(all[0], durable.ErrNotRegular) {
				t.Errorf("open: %v", all)
			}
			l.Append(entry(1))
			flush(t, l)
			if all := failed.take(); len(all) != 1 || !strings.HasPrefix(all[0].Error(), `write decision "accepted" of 01`) {
				t.Errorf("append: %v", all)
			}
			if got := l.Last(1); len(got) != 1 || got[0] != entry(1) {
				t.Errorf("last %+v", got)
			}
			// The disk has recovered.
			if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
				t.Fatal(err)
			}
			l.Append(entry(2))
			flush(t, l)
			if all := failed.take(); len(all) != 0 || strings.Count(read(t, path), "\n") != 1 {
				t.Errorf("after the disk is back: %v", all)
			}
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l := open(t, path)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				l.Append(entry(i*20 + j))
				l.Last(3)
			}
		})
	}
	all.Wait()
	flush(t, l)
	if n := strings.Count(read(t, path), "\n"); n != 160 {
		t.Errorf("%d lines, want 160", n)
	}
}

// FuzzFile: a file may contain anything. What is read from it is written so that it reads back the same.
func FuzzFile(f *testing.F) {
	line, err := json.Marshal(entry(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line) + "\n")
	f.Add(string(line) + "\n" + string(line[:20]) + "\n" + string(line))
	f.Add(`{"what":"x","by":"\u202e\n\ud800","time":"9999-12-31T23:59:59.9999-12:00"}` + "\n{}\n[]\nnull\n\x00\n")
	f.Add(strings.Repeat("\n", 10) + `{"WHAT":"held","digest":"zz"}`)
	dir := f.TempDir()
	path := filepath.Join(dir, "decisions.jsonl")
	f.Fuzz(func(t *testing.T, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, path)
		before := l.Last(100)
		if len(before) > strings.Count(content, "\n")+1 {
			t.Fatalf("%d entries in %q", len(before), content)
		}
		l.Append(entry(1))
		for i := len(before) - 1; i >= 0; i-- {
			l.Append(before[i])
		}
		flush(t, l)
		got := open(t, path).Last(len(before) + 1)
		if want := min(len(before)+1, 100); len(got) != want {
			t.Fatalf("%d entries, want %d", len(got), want)
		}
		for i, e := range before[:min(len(before), 99)] {
			if got[i] != e {
				t.Fatalf("entry %d reads back as %+v, want %+v", i, got[i], e)
			}
		}
	})
}

// FuzzEntry: no text can break a line.
func FuzzEntry(f *testing.F) {
	f.Add("accepted", "routes_lost", "ann", "moved", int64(0))
	f.Add("\n", "\x00", "\xff\u2028", strings.Repeat("x", 2000), int64(1)<<62)
	path := filepath.Join(f.TempDir(), "decisions.jsonl")
	f.Fuzz(func(t *testing.T, what, reason, by, why string, at int64) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		l := open(t, path)
		l.Append(audit.Entry{Time: time.Unix(at, 0), What: audit.What(what), Reason: reason, By: by, Why: why})
		flush(t, l)
		text := read(t, path)
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
			t.Fatalf("file %q", text)
		}
		if got := open(t, path).Last(2); what != "" && (len(got) != 1 || got[0] != l.Last(1)[0]) {
			t.Fatalf("reads back as %+v, want %+v", got, l.Last(1))
		}
	})
}

func TestWithoutAPathEntriesAreKeptInMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	l := audit.Open("", func(err error) { t.Error(err) })
	l.Append(audit.Entry{What: audit.Held, Reason: "empty"})
	if err := l.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if got := l.Last(10); len(got) != 1 || got[0].Reason != "empty" {
		t.Errorf("entries %+v", got)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 0 {
		t.Errorf("files %v (%v)", files, err)
	}
}
