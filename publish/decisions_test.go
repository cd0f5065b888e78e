package publish_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

var decidedAt = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// decision returns the i-th decision of a test.
func decision(i int) api.Decision {
	return api.Decision{
		Time: decidedAt.Add(time.Duration(i) * time.Second), What: api.DecidedAccepted, Digest: table.Digest{byte(i), byte(i >> 8)},
		Reason: "routes_lost", By: "ann", Why: "moved",
	}
}

// said collects a log.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

// take returns the lines since the last call.
func (s *said) take() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines = slices.Collect(strings.Lines(s.text.String()))
	s.text.Reset()
	return lines
}

// record opens the record in a folder. It must not report errors.
func record(t *testing.T, folder string) *publish.Decisions {
	t.Helper()
	var said said
	t.Cleanup(func() {
		if lines := said.take(); len(lines) > 0 {
			t.Errorf("unexpected: %q", lines)
		}
	})
	return publish.OpenDecisions(folder, slog.New(slog.NewTextHandler(&said, nil)))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDecisionsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "decisions.jsonl")
	l := record(t, dir)
	for i := range 3 {
		l.Append(decision(i))
	}
	want := []api.Decision{decision(2), decision(1)}
	if diff := cmp.Diff(want, l.Last(2)); diff != "" {
		t.Errorf("before anything is written (-want +got):\n%s", diff)
	}
	l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	first, _, _ := strings.Cut(readFile(t, path), "\n")
	if want := `{"time":"2026-11-21T04:15:45Z","what":"accepted","digest":"` + strings.Repeat("0", 64) +
		`","reason":"routes_lost","by":"ann","why":"moved"}`; first != want {
		t.Errorf("line %s, want %s", first, want)
	}
	l = record(t, dir)
	if diff := cmp.Diff(append(want, decision(0)), l.Last(10)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	l.Append(decision(3))
	l.Close()
	if got := record(t, dir).Last(1); len(got) != 1 || got[0] != decision(3) {
		t.Errorf("last decision %+v", got)
	}
}

func TestTextsBreakNoLine(t *testing.T) {
	dir := t.TempDir()
	l := record(t, dir)
	e := decision(1)
	e.Objects = "a\n{\"what\":\"held\"}\n\x1b[31m\u2028\x00"
	l.Append(e)
	l.Append(api.Decision{What: api.DecidedHeld})
	l.Close()
	text := readFile(t, filepath.Join(dir, publish.DecisionsFile))
	if strings.Count(text, "\n") != 2 || strings.ContainsAny(text, "\x1b\x00\u2028") {
		t.Errorf("file %q", text)
	}
	if diff := cmp.Diff(l.Last(10), record(t, dir).Last(10)); diff != "" {
		t.Errorf("(-memory +file):\n%s", diff)
	}
}

func TestTornLineCostsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, publish.DecisionsFile)
	l := record(t, dir)
	l.Append(decision(0))
	l.Append(decision(1))
	l.Close()
	text := readFile(t, path)
	for cut := strings.Index(text, "\n") + 2; cut < len(text)-1; cut += 7 {
		if err := os.WriteFile(path, []byte(text[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		l := record(t, dir)
		l.Append(decision(2))
		l.Close()
		if diff := cmp.Diff([]api.Decision{decision(2), decision(0)}, record(t, dir).Last(10)); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, diff)
		}
	}
}

// TestDecisionsAreBounded: the newest stay, and the largest file that this package writes can be read.
func TestDecisionsAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := record(t, dir)
	const all, kept = 800, 500
	for i := range all {
		e := decision(i)
		e.By, e.Why = strings.Repeat("🚦", 1000), strings.Repeat("🚦", 1000) // the longest that are accepted
		e.Objects = strings.Repeat("o", 5*2*253)
		l.Append(e)
	}
	l.Close()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, error %v", files, err)
	}
	got := record(t, dir).Last(all)
	if len(got) != kept {
		t.Fatalf("%d decisions, want %d", len(got), kept)
	}
	for i, e := range got {
		if want := decision(all - 1 - i); e.Digest != want.Digest {
			t.Fatalf("decision %d is %v, want %v", i, e.Time, want.Time)
		}
	}
}

// TestDecisionsWhateverIsThere: whatever is in place of the file, decisions are kept in memory, and on disk as soon as that is possible.
func TestDecisionsWhateverIsThere(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder":    func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("/dev/null", path) },
		"too large": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30)) },
		"no folder": func(path string) error { return os.Remove(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", publish.DecisionsFile)
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), put(path)); err != nil {
				t.Fatal(err)
			}
			var said said
			l := publish.OpenDecisions(filepath.Dir(path), slog.New(slog.NewTextHandler(&said, nil)))
			l.Append(decision(1))
			l.Close()
			if lines := said.take(); len(lines) != 1 || !strings.Contains(lines[0], publish.LogDecisionsFailed) {
				t.Errorf("the log says %q", lines)
			}
			if got := l.Last(1); len(got) != 1 || got[0] != decision(1) {
				t.Errorf("last %+v", got)
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			l.Append(decision(2))
			l.Close()
			if lines := said.take(); len(lines) != 0 || strings.Count(readFile(t, path), "\n") != 2 {
				t.Errorf("after the disk is back: %q", lines)
			}
		})
	}
}

func TestManyDecisionsAtOnce(t *testing.T) {
	dir := t.TempDir()
	l := record(t, dir)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				l.Append(decision(i*20 + j))
				l.Last(3)
			}
		})
	}
	all.Wait()
	l.Close()
	if n := strings.Count(readFile(t, filepath.Join(dir, publish.DecisionsFile)), "\n"); n != 160 {
		t.Errorf("%d lines, want 160", n)
	}
}

// FuzzDecisions: a file may contain anything. What is read from it is written so that it reads back the same.
func FuzzDecisions(f *testing.F) {
	line, err := json.Marshal(decision(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line) + "\n")
	f.Add(string(line) + "\n" + string(line[:20]) + "\n" + string(line))
	f.Add(`{"what":"x","by":"\u202e\n\ud800","time":"9999-12-31T23:59:59.9999-12:00"}` + "\n{}\n[]\nnull\n\x00\n")
	f.Add(strings.Repeat("\n", 10) + `{"WHAT":"held","digest":"zz"}`)
	dir := f.TempDir()
	path := filepath.Join(dir, publish.DecisionsFile)
	f.Fuzz(func(t *testing.T, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l := record(t, dir)
		before := l.Last(100)
		if len(before) > strings.Count(content, "\n")+1 {
			t.Fatalf("%d decisions in %q", len(before), content)
		}
		l.Append(decision(1))
		l.Close()
		want := append([]api.Decision{decision(1)}, before...)
		if diff := cmp.Diff(want, record(t, dir).Last(len(want))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestWithoutAFolderDecisionsAreKeptInMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	l := record(t, "")
	l.Append(api.Decision{What: api.DecidedHeld, Reason: "empty"})
	l.Close()
	if got := l.Last(10); len(got) != 1 || got[0].Reason != "empty" {
		t.Errorf("decisions %+v", got)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 0 {
		t.Errorf("files %v (%v)", files, err)
	}
}

// TestAFileThatCannotBeMovedAwayIsNotReplaced: it is somebody else's.
func TestAFileThatCannotBeMovedAwayIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, publish.DecisionsFile)
	theirs := strings.Repeat("x", 9<<20) // larger than any record
	if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path+".bad", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := publish.OpenDecisions(dir, slog.New(slog.DiscardHandler))
	l.Append(api.Decision{What: api.DecidedHeld})
	l.Close()
	if got := readFile(t, path); got != theirs {
		t.Errorf("the file was replaced by %d bytes", len(got))
	}
	if len(l.Last(5)) != 1 {
		t.Errorf("decisions are %+v, want the one in memory", l.Last(5))
	}
}
