package publish

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// The file beside the last-known-good file records when its table was last read. Otherwise a restart would make a table look
// as old as its last change; writing all of it for each read would wear out the disk.

const (
	// stateSuffix is appended to the path of a last-known-good file.
	stateSuffix = ".state"
	// maxState limits the file, in bytes.
	maxState = 4 << 10

	// readEvery is the minimum interval between writes of the time alone. After a crash a table may look this much older.
	readEvery = 5 * time.Second
	// readAhead is how far in the future a recorded time may be, in case the clock was set back. Later times are ignored.
	readAhead = time.Minute
)

// lastRead is the content of the file.
type lastRead struct {
	Digest table.Digest `json:"digest"` // of the table beside it
	Read   time.Time    `json:"read"`   // when that was last known to be current
}

// writeState writes the state of the table on disk.
func (f *file) writeState(c *content) error {
	text, err := json.Marshal(lastRead{Digest: c.table.Digest(), Read: c.read.UTC()})
	if err != nil {
		return err
	}
	return f.put(f.cfg.Path+stateSuffix, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// readState reads the state beside the last-known-good file. An unusable file is logged and set aside.
func (f *file) readState() (s lastRead) {
	path := f.cfg.Path + stateSuffix
	keptAs, err := durable.Load(path, maxState, func(r io.Reader) error { return json.NewDecoder(r).Decode(&s) })
	if err == nil {
		return s
	}
	if !errors.Is(err, fs.ErrNotExist) {
		f.log.Error("state beside the last-known-good file is not usable, set aside",
			"path", path, "error", err, "kept_as", keptAs)
	}
	return lastRead{}
}

// readOf returns when the table of a file was last read: as in the file itself, or later as recorded for the same table.
func (s *lastRead) readOf(meta table.FileMeta, now time.Time) time.Time {
	if s.Digest != meta.Digest || s.Read.Before(meta.Saved) || s.Read.After(now.Add(readAhead)) {
		return meta.Saved
	}
	return s.Read
}
