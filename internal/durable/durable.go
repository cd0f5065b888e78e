// Package durable keeps files that survive a crash whole, and reads files that may be anything.
//
// [WriteFile] writes a temporary file beside the target, syncs it, renames it over the target and syncs the directory,
// without which the rename itself may be lost. A reader, also one after a power failure, finds either the old content or
// the new one, never a mix or a part. Files have mode 0600. [Open] and [ReadFile] take regular files of a bounded size
// only, so that a FIFO, a device or a huge file neither blocks the caller nor fills its memory. A [Store] is a file that a
// process can do without: whatever is found in its place never prevents a start.
//
// # Temporary files
//
// A target has one temporary name, ".<name>.tmp", so a process that is killed in the middle of a write leaves one file,
// which the next write uses again. Its writer holds a lock on it (flock), which ends with the process. So two processes
// that share a folder by mistake never write into the same temporary file: the second gets [ErrBusy] and tries again
// later. The target has the whole content of one of them. On a file system without locks both may write it at the same
// time, and the target may then be torn, which the digests of our files show.
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
var ErrBusy = errors.New("another process is writing this file: give each process a folder of its own")

// mode is that of every file written: a routing table names internal hosts and may carry credentials in filters.
const mode fs.FileMode = 0o600

// maxAttempts bounds how often a temporary file that another process has just renamed or removed is opened again.
const maxAttempts = 10

// temporary is the name under which the file at path is written.
func temporary(path string) string {
	dir, name := filepath.Split(path)
	return dir + "." + name + ".tmp"
}

// WriteFile replaces the content of the file at path by what write writes, or creates it. If write or anything before
// the rename fails, the file is as it was and the error says what failed; it wraps ErrBusy if another process is writing
// it. An error of the last step, syncing the directory, leaves the new content in place, but it may be gone after a power
// failure.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := lockTemporary(temporary(path))
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			err = errors.Join(err, os.Remove(f.Name())) // while it is locked
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

// lockTemporary opens the file at path, empty, for this process alone.
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

// lock locks a temporary file. It reports false if the file is not the one at its path any more, or is no regular file: then
// it has been removed and is to be opened again.
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
		// A file system without locks: see the package comment.
	case err != nil:
		return false, fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	now, err := os.Lstat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, now), err
}

// SyncDir makes what was created or renamed in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tidy removes what processes that were killed have left behind of writes to path: the temporary file, if nobody is
// writing it, and those of earlier versions, which had a number at the end of the name. It returns how many it removed.
// Nothing else is touched. An error of a folder that cannot be read is none: there is nothing to remove then.
func Tidy(path string) (removed int) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.Name() == filepath.Base(temporary(path)) && e.Type().IsRegular() {
			if f, err := lockTemporary(temporary(path)); err == nil {
				if os.Remove(f.Name()) == nil {
					removed++
				}
				_ = f.Close()
			}
		}
		if isOldTemporary(e, name) && os.Remove(filepath.Join(dir, e.Name())) == nil {
			removed++
		}
	}
	return removed
}
