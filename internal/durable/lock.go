package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile stays when the lock ends: removing it would let two processes lock two files.
const lockFile = "lock"

// ErrLocked means that another process uses the folder.
var ErrLocked = errors.New("another process uses this folder")

// Lock claims a folder for this process, until unlock is called or the process ends. It creates the folder with mode 0700 if it
// does not exist. The error wraps [ErrLocked]; an unwritable folder is not an error, because writing its files reports that.
func Lock(folder string) (unlock func(), err error) {
	if folder == "" || os.MkdirAll(folder, 0o700) != nil {
		return func() {}, nil
	}
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return func() {}, nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("state folder %q: %w", folder, errors.Join(ErrLocked, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}
