package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Errors of Open and ReadFile.
var (
	// ErrNotRegular means that the path is a folder, a FIFO or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge means that the file exceeds the caller's limit.
	ErrTooLarge = errors.New("file is too large")
)

// Open opens a regular file of at most limit bytes and returns its size. It follows symbolic links, as in a mounted ConfigMap. It
// never blocks, whatever kind of file is at path, and reads nothing. The error wraps ErrNotRegular, ErrTooLarge or the error of
// the operating system.
func Open(path string, limit int64) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %q: %w: its mode is %s", path, ErrNotRegular, info.Mode())
	case info.Size() > limit:
		err = fmt.Errorf("open %q: %w: %d bytes, limit %d", path, ErrTooLarge, info.Size(), limit)
	default:
		return f, info.Size(), nil
	}
	return nil, 0, errors.Join(err, f.Close())
}

// ReadFile reads a regular file of at most limit bytes, with the errors of Open.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // a file that grows meanwhile is still limited
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("read %q: %w: more than %d bytes", path, ErrTooLarge, limit)
	}
	return data, err
}
