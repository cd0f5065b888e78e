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
// nil, and wraps [fs.ErrNotExist] if nothing is at path. Whatever cannot be used, or read rejects, is renamed to path.bad for later
// inspection: keptAs is that name, or empty if it cannot be moved. Only the last such file is kept; a non-empty folder of that name is
// never deleted. Load removes leftovers of writes.
func Load(path string, limit int64, read func(io.Reader) error) (keptAs string, err error) {
	Tidy(path)
	err = load(path, limit, read)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	aside := path + badSuffix
	moveErr := os.Rename(path, aside)
	if moveErr != nil && os.Remove(aside) == nil { // a file cannot be renamed over a folder, nor a folder over a file
		moveErr = os.Rename(path, aside)
	}
	if moveErr != nil {
		return "", fmt.Errorf("%w; set aside: %w", err, moveErr)
	}
	_ = syncDir(filepath.Dir(path)) // after a power failure it is set aside again
	return aside, err
}

func load(path string, limit int64, read func(io.Reader) error) error {
	f, size, err := Open(path, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(io.NewSectionReader(f, 0, size))
}
