package publish

import (
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
// the table, or with it: when the table was last known to be current, and what is kept, with what is served of it. A table may stay the same for
// days while it is read every few seconds: writing all of it for each read would wear out the disk, and without the time a restart would make
// the table look as old as its last change. Without what is kept, a restart would publish a restore that is half done.

const (
	// stateSuffix is appended to the path of a last-known-good file.
	stateSuffix = ".state"
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
)

// LogStateUnusable says that a process does not go on with what an earlier one kept.
const LogStateUnusable = "state beside the last-known-good file is not usable, set aside: a restart does not know of holds and kept objects"

// state is the content of the file.
type state struct {
	Digest table.Digest `json:"digest"` // of the table beside it
	Read   time.Time    `json:"read"`   // when that was last known to be current
	// Kept is a list of [Kept]; empty if nothing is kept.
	Kept json.RawMessage `json:"kept,omitempty"`
}

// writeState writes the state for the table that the disk has. A list of kept objects that is too long is left out, with an error.
func (f *file) writeState(want, disk *content) error {
	s := state{Read: disk.read.UTC()}
	if disk.table != nil {
		s.Digest = disk.table.Digest()
	}
	if want.table == disk.table {
		s.Read = want.read.UTC()
	}
	var tooLong error
	if len(want.kept) > 0 {
		text, err := json.Marshal(want.kept)
		if err != nil {
			return err
		}
		if s.Kept = text; len(text) > MaxKept {
			s.Kept = nil
			tooLong = fmt.Errorf("%d kept objects need %d bytes, the limit is %d: a restart would not know of them", len(want.kept), len(text), MaxKept)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return errors.Join(tooLong, f.put(f.cfg.Path+stateSuffix, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}))
}

// readState reads the state beside the last-known-good file. One that cannot be used is logged and set aside.
func (f *file) readState() (s state, kept keptList) {
	path := f.cfg.Path + stateSuffix
	keptAs, err := durable.Load(path, maxState, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err == nil && len(s.Kept) > 0 {
			kept, err = DecodeKept(s.Kept)
		}
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		f.log.Error(LogStateUnusable, "path", path, "error", err, "kept_as", keptAs)
	default:
		return s, kept
	}
	return state{}, nil
}

// readOf returns when the table of a file was last known to be current: the time in the file itself, or the later one that was
// recorded for the same table.
func (s *state) readOf(meta table.FileMeta, now time.Time) time.Time {
	if s.Digest != meta.Digest || s.Read.Before(meta.Saved) || s.Read.After(now.Add(readAhead)) {
		return meta.Saved
	}
	return s.Read
}
