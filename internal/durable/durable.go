// Package durable keeps files that survive a crash whole, and reads files that may be anything.
//
// [WriteFile] writes a temporary file beside the target, syncs it, renames it over the target and syncs the directory, without
// which the rename itself may be lost. A reader finds either the old or the new content, even after a power failure, never a mix
// or a part. Files have mode 0600. [Open] and [ReadFile] accept only regular files of a bounded size, so that a FIFO, a device or
// a huge file neither blocks the caller nor fills its memory. [Load] reads a file that a process keeps for its next start: whatever is
// found in its place never prevents that.
//
// Each write has a temporary file with another name. A process killed in the middle of a write leaves one behind, which the next start
// removes ([Tidy]). If two processes share a folder by mistake, the target always has the whole content of one of them.
//
// Caveat: the directory must be writable, not only the file, and a target that is a symbolic link is replaced by a file.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// temporary returns the folder of the temporary files for path, and what their names begin with.
func temporary(path string) (dir, prefix string) {
	return filepath.Dir(path), "." + filepath.Base(path) + ".tmp"
}

// WriteFile replaces or creates the file at path with what write writes. If write or any step before the rename fails, the file
// is unchanged and the error says what failed. If only the last step fails, syncing the directory, the new content is in place but may
// be lost after a power failure.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(temporary(path)) // with mode 0600: a routing table names internal hosts and may contain credentials
	if err != nil {
		return err
	}
	if err = write(f); err != nil {
		err = fmt.Errorf("write %q: %w", path, err)
	} else {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the files created or renamed in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tidy removes the temporary files that killed processes left behind for path, and touches nothing else. Call it before the first write:
// it would also remove the file of a write in progress, which then fails.
func Tidy(path string) {
	dir, prefix := temporary(path)
	entries, _ := os.ReadDir(dir) // without the folder there are none
	for _, e := range entries {
		if random, ours := strings.CutPrefix(e.Name(), prefix); ours && strings.Trim(random, "0123456789") == "" && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name())) // one that stays does no harm
		}
	}
}
