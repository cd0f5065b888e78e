package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// badSuffix is appended to the name of a file that was set aside.
const badSuffix = ".bad"

// Load passes the file at path to read, if it is a regular file of at most limit bytes. The error is nil if read accepts it by returning
// nil, and wraps [fs.ErrNotExist] if nothing is at path. A file that cannot be used, or that read rejects, is set aside ([SetAside]):
// keptAs is its new name, or empty if it cannot be moved. Load removes leftovers of writes.
func Load(path string, limit int64, read func(io.Reader) error) (keptAs string, err error) {
	Tidy(path)
	err = load(path, limit, read)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	keptAs, moveErr := SetAside(path)
	if keptAs == "" { // otherwise only the folder could not be synced
		err = errors.Join(err, moveErr)
	}
	return keptAs, err
}

func load(path string, limit int64, read func(io.Reader) error) error {
	f, size, err := Open(path, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(io.NewSectionReader(f, 0, size))
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
