// Package durable writes files that survive a crash whole: a reader, also one after a power failure, finds either the
// old content or the new one, never a mix or a part.
//
// WriteFile writes a temporary file beside the target, syncs it, renames it over the target and syncs the directory,
// without which the rename itself may be lost. Files have mode 0600. SetAside moves a file that turned out to be bad out
// of the way without deleting what somebody may want to look at.
//
// The package does not lock: two processes that write one file leave the content of one of them. It does not remove
// temporary files that a killed process left behind; their names begin with a dot and the name of the target.
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

	"github.com/google/renameio/v2"
)

// mode is that of every file written: a routing table names internal hosts and may carry credentials in filters.
const mode fs.FileMode = 0o600

// maxAside bounds the search for a free name. A program that made so many bad files will not be helped by one more.
const maxAside = 1000

// WriteFile replaces the content of the file at path by what write writes, or creates it. If write or anything before
// the rename fails, the file is as it was and the error says what failed. An error of the last step, syncing the
// directory, leaves the new content in place, but it may be gone after a power failure.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	// In the same directory on purpose: $TMPDIR may be on another disk, which a rename cannot cross.
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, pending.Cleanup()) // nothing to do after the rename
	}()
	if err := write(pending); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in dir durable. renameio syncs the file but not the directory.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SetAside renames the file at path to path.bad-N with the lowest N, from 1, that is free, and returns the new name.
// Nothing is ever overwritten or deleted. The error wraps fs.ErrNotExist if there is no file at path.
func SetAside(path string) (string, error) {
	if _, err := os.Lstat(path); err != nil {
		return "", err
	}
	for n := 1; n <= maxAside; n++ {
		aside := fmt.Sprintf("%s.bad-%d", path, n)
		// A name is taken by creating it: a rename alone would overwrite what another process has just put there, and
		// not every file system has hard links.
		reserved, err := os.OpenFile(aside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := errors.Join(reserved.Close(), os.Rename(path, aside)); err != nil {
			return "", errors.Join(err, os.Remove(aside))
		}
		return aside, syncDir(filepath.Dir(path))
	}
	return "", fmt.Errorf("set aside %q: all of %d names are taken", path, maxAside)
}
