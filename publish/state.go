package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Beside a last-known-good file lies a file with what a process that comes after this one must know, and what changes more often than
// the table, or with it: when the table was last known to be current, and the kept objects with what is served of them. A table may stay the same for days while it is read every few seconds: writing all of it for each read would wear
// out the disk, and without the time a restart would make the table look as old as its last change. Without the kept objects, a
// restart would publish a restore that is half done.

const (
	// stateSuffix is appended to the path of a last-known-good file.
	stateSuffix = ".state"
	// stateHeader is the first line of the file. The rest is a [state] as JSON.
	stateHeader = "// routesrv state of the last-known-good file, version 1\n"
	// MaxKept limits the JSON form of a list of kept objects, in bytes. A longer list is not written: then a restart holds the whole table.
	MaxKept = 64 << 20
	// maxState limits the file, which has little else.
	maxState = MaxKept + 1<<20

	// readEvery is the least time between two writes for the time of the last read alone: by so much a table may look older after
	// a crash. While objects are kept, the file is larger.
	readEvery     = 5 * time.Second
	keptReadEvery = time.Minute
	// readAhead is how far a recorded time may be in the future, if the clock was set back. Others are not used.
	readAhead = time.Minute
	// holdLater is by how much a table may be newer than the hold beside it: then the state could not be written with it, and the
	// hold may have ended.
	holdLater = time.Hour
)

// Log messages about the file.
const (
	LogStateFailed   = "state beside the last-known-good file cannot be written, a restart would not know of holds and kept objects"
	LogStateUnusable = "state beside the last-known-good file is not usable, a restart does not know of holds and kept objects"
)

// state is the content of the file.
type state struct {
	Written time.Time    `json:"written"`
	Digest  table.Digest `json:"digest"` // of the table beside it
	Read    time.Time    `json:"read"`   // when that was last known to be current
	// Kept is a list of [Kept]; empty if none are kept.
	Kept json.RawMessage `json:"kept,omitempty"`
}

// writeState writes the state for the table that the disk has.
func (f *file) writeState(want, disk *content) error {
	if err := f.makeFolder(); err != nil {
		return err
	}
	path := f.cfg.Path + stateSuffix
	if err := mayReplaceState(path); err != nil {
		return err
	}
	s := state{Written: time.Now().UTC(), Read: disk.read.UTC()}
	if disk.table != nil {
		s.Digest = disk.table.Digest()
	}
	if want.table == disk.table {
		s.Read = want.read.UTC()
	}
	if len(want.kept) > 0 {
		text, err := EncodeKept(want.kept)
		if err != nil {
			return err
		}
		if len(text) > MaxKept {
			return fmt.Errorf("%d kept objects need %d bytes, the limit is %d", len(want.kept), len(text), MaxKept)
		}
		s.Kept = text
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return f.put(path, func(w io.Writer) error {
		_, err := w.Write(append([]byte(stateHeader), append(text, '\n')...))
		return err
	})
}

// wroteState records the result of writing the state.
func (f *file) wroteState(want *content, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stateAt = time.Now()
	if err == nil {
		f.disk.kept = want.kept
		if want.table == f.disk.table {
			f.disk.read = want.read
		}
	} else {
		f.retryAt = f.stateAt.Add(readEvery)
		if f.stateErr == nil {
			f.log.Error(LogStateFailed, "file", f.cfg.Name, "path", f.cfg.Path+stateSuffix, "error", err)
		}
	}
	f.stateErr = err
}

// openState opens the file and reads its first line. It returns an error unless it is a file of this package.
func openState(path string) (in io.ReadCloser, err error) {
	f, _, err := durable.Open(path, maxState)
	if err != nil {
		return nil, err
	}
	header := make([]byte, len(stateHeader))
	if _, err := io.ReadFull(f, header); err != nil || string(header) != stateHeader {
		return nil, errors.Join(fmt.Errorf("%q is a file of another program", path), f.Close())
	}
	return f, nil
}

// mayReplaceState returns an error if the file at path is somebody else's.
func mayReplaceState(path string) error {
	in, err := openState(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return in.Close()
}

// readState reads the file. The error wraps fs.ErrNotExist if there is none.
func readState(path string) (s state, kept keptList, err error) {
	durable.Tidy(path)
	in, err := openState(path)
	if err != nil {
		return state{}, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxState))
	if err = errors.Join(err, in.Close()); err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && len(bytes.TrimSpace(s.Kept)) > 0 {
		kept, err = DecodeKept(s.Kept)
	}
	if err != nil {
		return state{}, nil, fmt.Errorf("read %q: %w", path, err)
	}
	return s, kept, nil
}

// readOf returns when the table of a file was last known to be current: the time in the file itself, or the later one that was
// recorded for the same table.
func (s *state) readOf(meta table.FileMeta, now time.Time) time.Time {
	if s.Digest != meta.Digest || s.Read.Before(meta.Saved) || s.Read.After(now.Add(readAhead)) {
		return meta.Saved
	}
	return s.Read
}
