// Package durable keeps files that survive a crash whole, and reads files that may be anything.
//
// [WriteFile] writes a temporary file beside the target, syncs it, renames it over the target and syncs the directory, without
// which the rename itself may be lost. A reader finds either the old or the new content, even after a power failure, never a mix
// or a part. Files have mode 0600. [Open] and [ReadFile] accept only regular files of a bounded size, so that a FIFO, a device or
// a huge file neither blocks the caller nor fills its memory. [Load] reads a file that a process keeps for its next start: whatever is
// found in its place never prevents that.
//
// # Temporary files
//
// A target has one temporary name, ".<name>.tmp", so a process killed in the middle of a write leaves one file, which the next
// write reuses. The writer holds a lock on it (flock), which ends with the process. Two processes that share a folder by mistake
// therefore never write to the same temporary file: the second one gets [ErrBusy] and can retry later. The target always has the
// whole content of one of them. On a file system without locks both may write at the same time and corrupt the target, which the
// digests of our files reveal.
//
// Caveat: the directory must be writable, not only the file, and a target that is a symbolic link is replaced by a file.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrBusy says that another process is writing the same file.
var ErrBusy = errors.New("another process is writing this file: give each process its own folder")

// mode is the mode of every written file: a routing table names internal hosts and may contain credentials in filters.
const mode fs.FileMode = 0o600

// maxAttempts limits how often lockTemporary reopens a temporary file that another process has just renamed or removed.
const maxAttempts = 10

// temporary returns the name of the temporary file for path.
func temporary(path string) string {
	dir, name := filepath.Split(path)
	return dir + "." + name + ".tmp"
}

// WriteFile replaces or creates the file at path with what write writes. If write or any step before the rename fails, the file
// is unchanged and the error says what failed; the error wraps ErrBusy if another process is writing the file. If only the last
// step fails, syncing the directory, the new content is in place but may be lost after a power failure.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := lockTemporary(temporary(path))
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			err = errors.Join(err, os.Remove(f.Name())) // while it is still locked
		}
		err = errors.Join(err, f.Close())
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	renamed = true
	return SyncDir(filepath.Dir(path))
}

// lockTemporary opens and empties the file at path, for this process alone.
func lockTemporary(path string) (*os.File, error) {
	for range maxAttempts {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
		if err != nil {
			if info, statErr := os.Lstat(path); statErr != nil || info.Mode().IsRegular() {
				return nil, err
			}
			if err := os.Remove(path); err != nil { // a link, a socket or an empty folder: the name is ours
				return nil, err
			}
			continue
		}
		ours, err := lock(f)
		if err == nil && ours {
			if err = errors.Join(f.Truncate(0), f.Chmod(mode)); err == nil {
				return f, nil
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("create %q: %w", path, ErrBusy)
}

// lock locks a temporary file. It returns false if the file is no longer the one at its path or is not a regular file; the caller
// then opens the path again.
func lock(f *os.File) (ours bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, os.Remove(f.Name())
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, fmt.Errorf("lock %q: %w", f.Name(), ErrBusy)
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EINVAL):
		// The file system has no locks: see the package comment.
	case err != nil:
		return false, fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	now, err := os.Lstat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, now), err
}

// SyncDir makes the files created or renamed in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tidy removes the temporary file that a killed process left behind for path, unless a process is writing it. It touches nothing
// else. A file that cannot be removed stays: the next write reuses it.
func Tidy(path string) {
	if info, err := os.Lstat(temporary(path)); err != nil || !info.Mode().IsRegular() {
		return
	}
	if f, err := lockTemporary(temporary(path)); err == nil {
		_ = os.Remove(f.Name()) // while it is locked
		_ = f.Close()
	}
}
