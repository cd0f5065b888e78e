package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Errors of Open and ReadFile.
var (
	// ErrNotRegular means that the path is a folder, a FIFO, a socket or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge means that the file exceeds the caller's limit.
	ErrTooLarge = errors.New("file is too large")
)

// Open opens a regular file of at most limit bytes and returns its size. It follows symbolic links, as in a mounted ConfigMap. It
// never blocks, whatever kind of file is at path, and reads nothing. The error wraps ErrNotRegular, ErrTooLarge or the error of
// the operating system.
func Open(path string, limit int64) (*os.File, int64, error) {
	info, err := os.Stat(path) // check first: opening a device can have side effects
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("open %q: %w: %s", path, ErrNotRegular, kind(info.Mode()))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err = f.Stat() // the file may have been replaced meanwhile
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %q: %w: %s", path, ErrNotRegular, kind(info.Mode()))
	case info.Size() > limit:
		err = fmt.Errorf("open %q: %w: %d bytes, limit %d", path, ErrTooLarge, info.Size(), limit)
	default:
		return f, info.Size(), nil
	}
	return nil, 0, errors.Join(err, f.Close())
}

// kind names the type of a file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "it is a folder"
	case m&fs.ModeNamedPipe != 0:
		return "it is a FIFO"
	case m&fs.ModeSocket != 0:
		return "it is a socket"
	case m&fs.ModeDevice != 0:
		return "it is a device"
	}
	return "mode " + m.String()
}

// ReadFile reads a regular file of at most limit bytes, with the errors of Open.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, size, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, 0, size+1)
	for { // a file that grows meanwhile is still limited
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, fmt.Errorf("read %q: %w: more than %d bytes", path, ErrTooLarge, limit)
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}
