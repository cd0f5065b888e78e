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

// Suffixes of file names derived from a store's path.
const (
	badSuffix   = ".bad"   // a file that was set aside
	otherSuffix = ".other" // the replacement if the file at the path cannot be moved
)

// Store is an optional file that a process keeps for its next start. Path may be called at any time, so that /status can show it
// during Load. The other methods must not be called concurrently.
type Store struct {
	path string
	from string // the path that was loaded; empty if none

	mu      sync.Mutex
	current string
}

// Trouble describes a file at the store's path that could not be used.
type Trouble struct {
	Path string
	Err  error // why
	// KeptAs is the new name of the file; empty if it could not be moved. Then the store uses the name Instead, and MoveErr says
	// why.
	KeptAs, Instead string
	MoveErr         error
}

// NewStore returns a store for the file at path. It does not access the disk.
func NewStore(path string) *Store { return &Store{path: path, current: path} }

// Path returns the name of the file: the requested one, unless the file there can neither be used nor moved.
func (s *Store) Path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// use makes Path and Write use path from now on.
func (s *Store) use(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = path
}

// Loaded reports whether Load loaded its content from Path. It is false if the content came from another name.
func (s *Store) Loaded() bool { return s.from == s.Path() }

// Write replaces the content; see WriteFile.
func (s *Store) Write(write func(io.Writer) error) error { return WriteFile(s.Path(), write) }

// Load passes the file to read, if it is a regular file of at most limit bytes, and reports whether read accepted it by returning
// nil. A file that cannot be used, or that read rejects, is set aside ([SetAside]). If that fails, the store uses the path with
// ".other" appended from now on. Load removes leftovers of writes. It never fails: the troubles say what went wrong, for the log
// and /status.
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
	return read(io.NewSectionReader(f, 0, size), size)
}

// moveAway sets aside a file that cannot be used.
func moveAway(path string, reason error) Trouble {
	t := Trouble{Path: path, Err: reason}
	t.KeptAs, t.MoveErr = SetAside(path)
	if t.KeptAs != "" {
		t.MoveErr = nil // only the folder could not be synced
	}
	return t
}

// SetAside renames the file at path, of whatever type, to path.bad for later inspection, and returns that name. It replaces an
// earlier file of that name, so that only one is kept. It does not delete a non-empty folder of that name and returns an error
// instead. The error wraps fs.ErrNotExist if nothing is at path.
func SetAside(path string) (string, error) {
	if _, err := os.Lstat(path); err != nil {
		return "", err
	}
	aside := path + badSuffix
	if err := os.Rename(path, aside); err != nil {
		// A file cannot be renamed over a folder, nor a folder over a file.
		if removeErr := os.Remove(aside); removeErr != nil {
			return "", fmt.Errorf("set aside %q: %w", path, err)
		}
		if err := os.Rename(path, aside); err != nil {
			return "", fmt.Errorf("set aside %q: %w", path, err)
		}
	}
	return aside, SyncDir(filepath.Dir(path))
}
