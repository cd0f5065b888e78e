package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Suffixes of names beside that of a store.
const (
	badSuffix   = ".bad"   // of what was set aside
	otherSuffix = ".other" // of the file that is used if what is at the path cannot be moved
)

// Store is a file that a process keeps for its next start and can do without. Path may be called at any time, so that a
// status can be shown while Load is under way; the other methods are for one goroutine at a time.
type Store struct {
	path string
	from string // that was loaded; empty if none was

	mu      sync.Mutex
	current string
}

// Trouble is something in the place of a file that could not be used.
type Trouble struct {
	Path string
	Err  error // why
	// KeptAs is the name that it has now; empty if it could not be moved. Then Instead is the name that is used in its
	// place, and MoveErr says why.
	KeptAs, Instead string
	MoveErr         error
}

// NewStore makes a store of the file at path. It does nothing yet.
func NewStore(path string) *Store { return &Store{path: path, current: path} }

// Path is the name of the file: the one that was asked for, unless what is there can neither be used nor moved.
func (s *Store) Path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// use has Path and Write name path from now on.
func (s *Store) use(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = path
}

// Loaded reports whether the content of Path is what Load found. It is not if that was found under another name.
func (s *Store) Loaded() bool { return s.from == s.Path() }

// Write replaces the content; see WriteFile.
func (s *Store) Write(write func(io.Writer) error) error { return WriteFile(s.Path(), write) }

// Load hands the file to read, if there is a regular one of at most limit bytes, and reports whether read has taken it: with
// the error nil. What is there and cannot be used, also because read says so, is set aside ([SetAside]). If that is not
// possible either, the path with ".other" behind it is used from now on. Leftovers of writes are removed. Load never fails:
// what went wrong is in the troubles, for the log and the status.
func (s *Store) Load(limit int64, read func(r io.Reader, size int64) error) (found bool, troubles []Trouble) {
	other := s.path + otherSuffix
	Tidy(s.path)
	Tidy(other)
	s.use(s.path)
	err := load(s.path, limit, read)
	if err == nil {
		s.from = s.path
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t := moveAway(s.path, err)
		if t.MoveErr != nil {
			s.use(other)
			t.Instead = other
		}
		troubles = append(troubles, t)
	}
	err = load(other, limit, read)
	if err == nil {
		s.from = other
		return true, troubles
	}
	if _, statErr := os.Lstat(other); statErr == nil {
		troubles = append(troubles, moveAway(other, err))
	}
	return false, troubles
}

func load(path string, limit int64, read func(io.Reader, int64) error) error {
	f, size, err := Open(path, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(io.LimitReader(f, size), size)
}

// moveAway moves what cannot be used out of the way.
func moveAway(path string, reason error) Trouble {
	t := Trouble{Path: path, Err: reason}
	t.KeptAs, t.MoveErr = SetAside(path)
	if t.KeptAs != "" {
		t.MoveErr = nil // only the folder could not be synced
	}
	return t
}

// SetAside renames what is at path, whatever it is, to path.bad, for somebody to look at, and returns that name. What had this
// name before is replaced: one is kept. A folder of that name that is not empty is not ours to delete, so then the error
// says so. The error wraps fs.ErrNotExist if there is nothing at path.
func SetAside(path string) (string, error) {
	if _, err := os.Lstat(path); err != nil {
		return "", err
	}
	aside := path + badSuffix
	if err := os.Rename(path, aside); err != nil {
		// A folder does not replace a file, nor a file a folder.
		if removeErr := os.Remove(aside); removeErr != nil {
			return "", fmt.Errorf("set aside %q: %w", path, err)
		}
		if err := os.Rename(path, aside); err != nil {
			return "", fmt.Errorf("set aside %q: %w", path, err)
		}
	}
	return aside, SyncDir(filepath.Dir(path))
}
