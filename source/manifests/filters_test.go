package manifests_test

import (
	"bytes"
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

// unfiltered is the snapshot of a source.
var unfiltered = &kube.Snapshot{Revision: 7, Intent: kube.Intent{Ingresses: []*kube.Ingress{{}}}}

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
	r := manifests.NewFilterFolder(dir, nil)
	got := r.Add(unfiltered).DefaultFilters
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
			r := manifests.NewFilterFolder(path, nil)
			s := r.Add(unfiltered)
			if len(s.Ingresses) != 1 || s.Revision != 7 {
				t.Errorf("snapshot %+v, want that of the source", s)
			}
			if f := s.DefaultFilters; f == nil || f.Err == nil || len(f.Texts) != 0 || !strings.Contains(f.Err.Error(), path) {
				t.Errorf("default filters %+v, want an error that names %s", f, path)
			}
			if again := r.Add(unfiltered); again.DefaultFilters != s.DefaultFilters {
				t.Error("the same error has another pointer: every read compiles everything again")
			}
		})
	}
}

func TestPointerChangesWithATextOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cart.shop")
	writeFilter(t, path, "status(200)")
	r := manifests.NewFilterFolder(dir, nil)
	first := r.Add(unfiltered).DefaultFilters
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
		before := r.Add(unfiltered).DefaultFilters
		step.do()
		if after := r.Add(unfiltered).DefaultFilters; (after != before) != step.changed {
			t.Errorf("%s: pointer changed %v, want %v", step.name, after != before, step.changed)
		}
	}
	if first.Texts[kube.ServiceKey{Namespace: "shop", Name: "cart"}] != "status(200)" {
		t.Error("what was handed out has changed")
	}
}

func TestSnapshotOfTheSourceIsNotTouched(t *testing.T) {
	r := manifests.NewFilterFolder(t.TempDir(), nil)
	a, b := r.Add(unfiltered), r.Add(unfiltered)
	if unfiltered.DefaultFilters != nil {
		t.Error("the snapshot of the source was changed")
	}
	if !a.SameObjects(b) {
		t.Error("without a change two reads do not have the same objects")
	}
	if got := r.Add(a); got != a {
		t.Error("a snapshot that has the default filters already is copied")
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
	r := manifests.NewFilterFolder(dir, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	for range 3 {
		r.Add(unfiltered)
	}
	text := log.String()
	if n := strings.Count(text, manifests.LogUnreadable); n != 1 || !strings.Contains(text, "cart.shop") || strings.Contains(text, "nodot") {
		t.Errorf("log:\n%s", text)
	}
	writeFilter(t, filepath.Join(dir, "target"), "status(200)")
	r.Add(unfiltered) // heals
	if err := os.Remove(filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	r.Add(unfiltered)
	if n := strings.Count(log.String(), manifests.LogUnreadable); n != 2 {
		t.Errorf("%d warnings, want another one when the failure starts again", n)
	}
}
