package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
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
func take(r io.Reader, _ int64) error {
	data, err := io.ReadAll(r)
	if err == nil && string(data) != "good" {
		err = errors.New("bad content")
	}
	return err
}

func TestNothingInThePlaceOfAStoreIsInTheWay(t *testing.T) {
	for name, put := range obstacles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			for range 3 { // set aside each time, under one name
				if err := put(path); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
				s := durable.NewStore(path)
				found, troubles := s.Load(1<<20, take)
				if found || len(troubles) != 1 || troubles[0].Err == nil {
					t.Fatalf("found %v, troubles %+v", found, troubles)
				}
				if err := s.Write(content("good")); err != nil {
					t.Fatal(err)
				}
				s = durable.NewStore(path)
				if found, _ := s.Load(1<<20, take); !found {
					t.Error("what was written is not found again")
				}
				if err := os.Remove(s.Path()); err != nil {
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
	s := durable.NewStore(path)
	found, troubles := s.Load(100, take)
	if found || len(troubles) != 1 || troubles[0].KeptAs != "" || troubles[0].Instead != path+".other" || troubles[0].MoveErr == nil {
		t.Fatalf("found %v, troubles %+v", found, troubles)
	}
	if err := s.Write(content("good")); err != nil {
		t.Fatal(err)
	}
	s = durable.NewStore(path)
	if found, _ := s.Load(100, take); !found || !s.Loaded() || s.Path() != path+".other" {
		t.Errorf("found %v at %q after a restart", found, s.Path())
	}
	if diff := cmp.Diff([]string{"f", "f.bad", "f.other"}, names(t, path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, dir := range []string{path, path + ".bad"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	s = durable.NewStore(path)
	if found, troubles := s.Load(100, take); !found || len(troubles) != 0 || s.Loaded() || s.Path() != path {
		t.Errorf("found %v, troubles %v, at %q: want the other file read, and the usual name written", found, troubles, s.Path())
	}
}

// TestAStoreTellsItsPathWhileItLoads: a status page may ask at any time, even while a large file is being read. The race detector
// makes this test fail.
func TestAStoreTellsItsPathWhileItLoads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, dir := range []string{path, path + ".bad"} { // cannot be moved, so the name changes while it loads
		if err := obstacles["folder with a file"](dir); err != nil {
			t.Fatal(err)
		}
	}
	s := durable.NewStore(path)
	var asking sync.WaitGroup
	loaded := make(chan struct{})
	asking.Go(func() {
		for {
			if got := s.Path(); got != path && got != path+".other" {
				t.Errorf("path %q", got)
				return
			}
			select {
			case <-loaded:
				return
			default:
			}
		}
	})
	s.Load(100, take)
	close(loaded)
	asking.Wait()
	if s.Path() != path+".other" {
		t.Errorf("path %q after loading", s.Path())
	}
}

func TestStoreFollowsALink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	s := durable.NewStore(path)
	if err := os.Symlink(filepath.Join(dir, "target"), path); err != nil {
		t.Fatal(err)
	}
	if found, troubles := s.Load(100, take); found || len(troubles) != 0 {
		t.Errorf("dangling: found %v, troubles %v; want nothing", found, troubles)
	}
	if err := os.WriteFile(filepath.Join(dir, "target"), []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, troubles := s.Load(100, take); !found || len(troubles) != 0 {
		t.Errorf("to a good file: found %v, troubles %v", found, troubles)
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
