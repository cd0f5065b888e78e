package manifests_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// source gives what a test has put there.
type beside struct {
	snapshot *kube.Snapshot
	err      error
	asked    []kube.ReadOptions
}

func (s *beside) Read(_ context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	s.asked = append(s.asked, o)
	return s.snapshot, s.err
}

func newReader(dir string) (*manifests.FilterFolder, *beside) {
	s := &beside{snapshot: &kube.Snapshot{Revision: 7, Intent: kube.Intent{Ingresses: []*kube.Ingress{{}}}}}
	return manifests.NewFilterFolder(dir, s, nil), s
}

func readBeside(t *testing.T, r *manifests.FilterFolder) *kube.Snapshot {
	t.Helper()
	s, err := r.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFilter(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesOfTheFolderAreDefaultFiltersOfTheirServices(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	largest := strings.Repeat("x", 1<<20)
	writeFilter(t, at("cart.shop"), `consecutiveBreaker(15)`)
	writeFilter(t, at("empty.shop"), "")
	writeFilter(t, at("commented.shop"), "// why\nstatus(201)\n")
	writeFilter(t, at("broken.shop"), `not( a filter`) // is found out when it is used
	writeFilter(t, at("largest.shop"), largest)
	writeFilter(t, at("toolarge.shop"), largest+"x")
	writeFilter(t, at("nodot"), "status(200)")
	writeFilter(t, at("two.dots.shop"), "status(200)")
	writeFilter(t, at("..data"), "status(200)")
	if err := os.Mkdir(at("folder.shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe.shop"), 0o600); err != nil { // would block for ever
		t.Fatal(err)
	}
	writeFilter(t, filepath.Join(elsewhere, "text"), "status(204)")
	writeFilter(t, filepath.Join(elsewhere, "large"), largest+"x")
	for name, target := range map[string]string{
		"linked.shop":      filepath.Join(elsewhere, "text"),
		"dangling.shop":    filepath.Join(elsewhere, "nothing"),
		"linkfolder.shop":  elsewhere,
		"linkpipe.shop":    at("pipe.shop"),
		"linktoolong.shop": filepath.Join(elsewhere, "large"),
	} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := newReader(dir)
	got := readBeside(t, r).DefaultFilters
	want := map[kube.ServiceKey]string{
		{Namespace: "shop", Name: "cart"}:      `consecutiveBreaker(15)`,
		{Namespace: "shop", Name: "empty"}:     "",
		{Namespace: "shop", Name: "commented"}: "// why\nstatus(201)\n",
		{Namespace: "shop", Name: "broken"}:    `not( a filter`,
		{Namespace: "shop", Name: "largest"}:   largest,
		{Namespace: "shop", Name: "linked"}:    "status(204)",
	}
	if got.Err != nil || !maps.Equal(got.Texts, want) {
		keys := func(m map[kube.ServiceKey]string) (names []string) {
			for k := range m {
				names = append(names, k.Name+"."+k.Namespace)
			}
			slices.Sort(names)
			return names
		}
		t.Errorf("error %v, or texts differ, files (-want +got):\n%s", got.Err, cmp.Diff(keys(want), keys(got.Texts)))
	}
}

func TestFolderThatCannotBeReadIsSaidAndFailsNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFilter(t, file, "")
	for name, path := range map[string]string{"not there": filepath.Join(dir, "nothing"), "a file": file} {
		t.Run(name, func(t *testing.T) {
			r, _ := newReader(path)
			s := readBeside(t, r)
			if len(s.Ingresses) != 1 || s.Revision != 7 {
				t.Errorf("snapshot %+v, want that of the source", s)
			}
			if f := s.DefaultFilters; f == nil || f.Err == nil || len(f.Texts) != 0 || !strings.Contains(f.Err.Error(), path) {
				t.Errorf("default filters %+v, want an error that names %s", f, path)
			}
			if again := readBeside(t, r); again.DefaultFilters != s.DefaultFilters {
				t.Error("the same error has another pointer: every read compiles everything again")
			}
		})
	}
}

func TestPointerChangesWithATextOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cart.shop")
	writeFilter(t, path, "status(200)")
	r, _ := newReader(dir)
	first := readBeside(t, r).DefaultFilters
	for _, step := range []struct {
		name    string
		do      func()
		changed bool
	}{
		{"nothing", func() {}, false},
		{"written again", func() { writeFilter(t, path, "status(200)") }, false},
		{"a file that is passed over", func() { writeFilter(t, filepath.Join(dir, "nodot"), "") }, false},
		{"another text", func() { writeFilter(t, path, "status(201)") }, true},
		{"another file", func() { writeFilter(t, filepath.Join(dir, "empty.shop"), "") }, true},
		{"a file less", func() { os.Remove(path) }, true},
		{"no folder", func() { os.RemoveAll(dir) }, true},
		{"a folder again", func() { os.Mkdir(dir, 0o700) }, true},
	} {
		before := readBeside(t, r).DefaultFilters
		step.do()
		if after := readBeside(t, r).DefaultFilters; (after != before) != step.changed {
			t.Errorf("%s: pointer changed %v, want %v", step.name, after != before, step.changed)
		}
	}
	if first.Texts[kube.ServiceKey{Namespace: "shop", Name: "cart"}] != "status(200)" {
		t.Error("what was handed out has changed")
	}
}

func TestSnapshotOfTheSourceIsNotTouched(t *testing.T) {
	r, s := newReader(t.TempDir())
	a, b := readBeside(t, r), readBeside(t, r)
	if s.snapshot.DefaultFilters != nil {
		t.Error("the snapshot of the source was changed")
	}
	if !a.SameObjects(b) {
		t.Error("without a change two reads do not have the same objects")
	}
	s.snapshot = a // a source that gives default filters itself
	if got := readBeside(t, r); got != a {
		t.Error("a snapshot that has the default filters already is copied")
	}
}

func TestReadThatFailsStaysAFailure(t *testing.T) {
	r, s := newReader(t.TempDir())
	s.err = &kube.ReadError{Verb: "list", Resource: "ingresses", Err: errors.New("down")}
	got, err := r.Read(t.Context(), kube.ReadOptions{Consistent: true})
	if got != nil || !errors.Is(err, s.err) {
		t.Errorf("snapshot %v, error %v, want none and %v", got, err, s.err)
	}
	if !s.asked[0].Consistent {
		t.Error("the options did not reach the source")
	}
}

func TestFileThatCannotBeReadIsWarnedOfOnce(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "cart.shop")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	writeFilter(t, filepath.Join(dir, "nodot"), "")
	var log bytes.Buffer
	_, s := newReader(dir)
	r := manifests.NewFilterFolder(dir, s, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	for range 3 {
		readBeside(t, r)
	}
	text := log.String()
	if n := strings.Count(text, manifests.LogUnreadable); n != 1 || !strings.Contains(text, "cart.shop") || strings.Contains(text, "nodot") {
		t.Errorf("log:\n%s", text)
	}
	writeFilter(t, filepath.Join(dir, "target"), "status(200)")
	readBeside(t, r) // heals
	if err := os.Remove(filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	readBeside(t, r)
	if n := strings.Count(log.String(), manifests.LogUnreadable); n != 2 {
		t.Errorf("%d warnings, want another one when the failure starts again", n)
	}
}

// followed is a source that follows its objects.
type followed struct {
	beside
	changed chan struct{}
	err     error
}

func (f *followed) Run(context.Context) error { return f.err }

func (f *followed) Changed() <-chan struct{} { return f.changed }

func TestSourceThatFollowsIsFollowed(t *testing.T) {
	f := &followed{changed: make(chan struct{}), err: errors.New("planted")}
	r := manifests.NewFilterFolder(t.TempDir(), f, nil)
	if err := r.Run(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("Run gives %v, want the error of the source", err)
	}
	if r.Changed() != (<-chan struct{})(f.changed) {
		t.Error("Changed is not that of the source")
	}
	plain, _ := newReader(t.TempDir())
	if err := plain.Run(t.Context()); err != nil || plain.Changed() != nil {
		t.Errorf("a source that does not follow: %v, %v", err, plain.Changed())
	}
}
