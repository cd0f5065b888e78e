package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/routesrv/routesrv/internal/durable"
)

func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
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

// names returns the names in the directory of path.
func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	for _, text := range []string{"first", "second, longer", ""} {
		if err := durable.WriteFile(path, content(text)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if got := names(t, path); len(got) != 1 {
		t.Errorf("files left: %q, want only the target", got)
	}
}

func TestWrittenFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	if err := os.WriteFile(path, []byte("open to all"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, content("x")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %v, want 0600", got)
	}
}

func TestFailedWriteLeavesTheOldFileAndNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	if err := durable.WriteFile(path, content("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := durable.WriteFile(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half of the n"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if got := read(t, path); got != "old" {
		t.Errorf("got %q, want the old content", got)
	}
	if got := names(t, path); len(got) != 1 {
		t.Errorf("files left: %q, want only the target", got)
	}
}

func TestWriteFileIntoAMissingFolderFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "table.eskip")
	called := false
	err := durable.WriteFile(path, func(io.Writer) error { called = true; return nil })
	if !errors.Is(err, fs.ErrNotExist) || called {
		t.Errorf("error %v, called %v; want fs.ErrNotExist before anything is written", err, called)
	}
}
