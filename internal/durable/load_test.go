package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/durable"
)

// obstacles are what may be in place of a file. None of them can be used.
var obstacles = map[string]func(path string) error{
	"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	"folder with a file": func(path string) error {
		return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
	},
	"FIFO":         func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"link to zero": func(path string) error { return os.Symlink("/dev/zero", path) },
	"link to FIFO": func(path string) error {
		return errors.Join(syscall.Mkfifo(path+"-fifo", 0o600), os.Symlink(path+"-fifo", path))
	},
	"link to itself": func(path string) error { return os.Symlink(path, path) },
	"20 GB":          func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 20<<30)) },
	"link to 20 GB": func(path string) error {
		return errors.Join(os.WriteFile(path+"-huge", nil, 0o600), os.Truncate(path+"-huge", 20<<30), os.Symlink(path+"-huge", path))
	},
	"bad content": func(path string) error { return os.WriteFile(path, []byte("bad"), 0o600) },
	"socket": func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return l.Close()
	},
}

// take accepts the content "good".
func take(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err == nil && string(data) != "good" {
		err = errors.New("bad content")
	}
	return err
}

func TestNothingInThePlaceOfAFileIsInTheWay(t *testing.T) {
	for name, put := range obstacles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			times := 3 // set aside each time, under one name
			if name == "folder with a file" {
				times = 1 // nothing replaces one: see TestWhatCannotBeMovedIsLeftAlone
			}
			for range times {
				if err := put(path); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
				if keptAs, err := durable.Load(path, 1<<20, take); err == nil || keptAs != path+".bad" {
					t.Fatalf("kept as %q, error %v", keptAs, err)
				}
				if err := durable.WriteFile(path, content("good")); err != nil {
					t.Fatal(err)
				}
				if _, err := durable.Load(path, 1<<20, take); err != nil {
					t.Errorf("what was written is not found again: %v", err)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if got := names(t, path); len(got) > 3 {
				t.Errorf("files %q pile up", got)
			}
		})
	}
}

// TestWhatCannotBeMovedIsLeftAlone: a folder that was set aside earlier and is not empty is never deleted.
func TestWhatCannotBeMovedIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, dir := range []string{path, path + ".bad"} {
		if err := obstacles["folder with a file"](dir); err != nil {
			t.Fatal(err)
		}
	}
	keptAs, err := durable.Load(path, 100, take)
	if keptAs != "" || err == nil || !strings.Contains(err.Error(), "not a regular file") || !strings.Contains(err.Error(), "set aside") {
		t.Fatalf("kept as %q, error %v; want why it cannot be used, and why it cannot be moved", keptAs, err)
	}
	if diff := cmp.Diff([]string{"f", "f.bad"}, names(t, path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestLoadFollowsALink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.Symlink(filepath.Join(dir, "target"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Load(path, 100, take); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dangling: %v; want nothing", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "target"), []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Load(path, 100, take); err != nil {
		t.Errorf("to a good file: %v", err)
	}
}

func TestReadFileTakesRegularFilesOnly(t *testing.T) {
	for name, put := range obstacles {
		path := filepath.Join(t.TempDir(), "f")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		data, err := durable.ReadFile(path, 1000)
		if name == "bad content" {
			if err != nil || string(data) != "bad" {
				t.Errorf("%s: %q, %v", name, data, err)
			}
		} else if err == nil {
			t.Errorf("%s: read %d bytes, want an error", name, len(data))
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	for text, ok := range map[string]bool{"": true, "12345": true, "123456": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := durable.ReadFile(path, 5); (err == nil) != ok || ok && string(data) != text {
			t.Errorf("%q: read %q, %v", text, data, err)
		}
	}
}
