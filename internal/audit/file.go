package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/routesrv/routesrv/internal/durable"
)

// oldSuffix is the suffix of the previous file.
const oldSuffix = ".1"

// mode is the mode of the file: the reasons are for operators only.
const mode fs.FileMode = 0o600

// read returns the entries of the previous and the current file. With an error it returns what it could read.
func read(path string) (entries []Entry, err error) {
	for _, name := range []string{path + oldSuffix, path} {
		data, readErr := durable.ReadFile(name, maxBytes+maxLine)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) && !errors.Is(readErr, syscall.ENOTDIR) {
			err = errors.Join(err, readErr)
		}
		entries = append(entries, parse(data)...)
	}
	return entries, err
}

// appendLine appends a line to the file in one write and syncs it. It first renames a full file.
func appendLine(path string, line []byte) (err error) {
	f, size, err := openEnd(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size > 0 && size+int64(len(line)) > maxBytes {
		if err := os.Rename(path, path+oldSuffix); err != nil {
			return err
		}
		next, _, err := openEnd(path)
		if err != nil {
			return err
		}
		err = f.Close()
		f, size = next, 0
		if err != nil {
			return err
		}
	}
	torn, err := isTorn(f, size)
	if err != nil {
		return err
	}
	if torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if size == 0 {
		return durable.SyncDir(filepath.Dir(path)) // sync the folder for a new file
	}
	return nil
}

// openEnd opens the file for appending, or creates it. It never blocks, whatever kind of file is at path.
func openEnd(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %q: %w", path, durable.ErrNotRegular)
	case info.Mode().Perm() != mode:
		err = f.Chmod(mode)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// isTorn reports whether the file ends in the middle of a line.
func isTorn(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	_, err := f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}
