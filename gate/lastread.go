package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Beside a last-known-good file lies a small file with what changes more often than the table: the time at which the table was last known to
// be current, and the hold that lasts. A table may stay the same for days while it is read every few seconds: writing all of it for each
// read would wear out the disk, and without the time a restart would make the table look as old as its last change. Without the hold, a
// restart would publish a restore that is half done.

// readSuffix is appended to the path of a last-known-good file.
const readSuffix = ".read"

const (
	// readEvery is the least time between two writes of that file: by so much a table may look older after a crash.
	readEvery = 5 * time.Second
	// readAhead is how far a recorded time may be in the future, if the clock was set back. Others are not used.
	readAhead = time.Minute
	// holdLater is by how much a table may be newer than the hold beside it: the process died between the two writes, or the second
	// one failed for a while.
	holdLater = time.Hour
	maxRead   = 2048 // bytes of the file
)

// readHeader is the first line of the file.
const readHeader = "// routesrv last read, version 1\n"

// holdPrefix begins the line about the hold, which is JSON.
const holdPrefix = "hold "

// readDue reports whether the time of the last read of s should be written now.
func (f *file) readDue(s *Served, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path != "" && !f.cfg.Plain && !f.busy && f.lastErr == nil && f.onDisk.digest == s.Table.Digest() &&
		s.Read.At.UnixNano() > f.onDisk.read && now.Sub(f.readAt) >= readEvery
}

// LogReadFailed says that the file could not be written. A restart would then make the table look older, and forget a hold.
const LogReadFailed = "time of the last read and the current hold cannot be written beside the last-known-good file"

// readWritten records the result of writing the file of a job.
func (f *file) readWritten(job *write, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readAt = now; err == nil {
		f.onDisk.read, f.holdOnDisk = job.served.Read.At.UnixNano(), job.hold
	} else if !f.readFailed {
		f.log.Warn(LogReadFailed, "file", f.cfg.Name, "path", f.cfg.Path+readSuffix, "error", err)
	}
	f.readFailed = err != nil
}

// needsHold reports whether a hold is to be written behind the table of a job, or removed.
func (f *file) needsHold(job *write) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cfg.Plain && (job.hold != "" || f.holdOnDisk != "")
}

// setHold sets what the file says about a hold from the next request on, and reports whether no request has it yet.
func (f *file) setHold(text string) (due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = text
	return f.hold != f.holdAsked
}

// holdDue reports whether to retry a failed write of the hold.
func (f *file) holdDue(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path != "" && f.hold != f.holdOnDisk && !f.busy && f.lastErr == nil && now.Sub(f.readAt) >= readEvery
}

// writeRead writes the file.
func (f *file) writeRead(s *Served, hold string) error {
	path := f.cfg.Path + readSuffix
	if err := mayReplaceRead(path); err != nil {
		return err
	}
	return f.put(path, func(w io.Writer) error {
		text := fmt.Sprintf("%s%s %s\n", readHeader, s.Table.Digest(), s.Read.At.UTC().Format(time.RFC3339Nano))
		if hold != "" {
			text += holdPrefix + hold + "\n"
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// holdText returns the text about the current hold of a guard; empty if no table is held.
func holdText(g *guard.Guard) string {
	o, held := g.Ongoing()
	if !held {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "" // unexpected: a time beyond the year 9999
	}
	return string(text)
}

// readBytes returns the content of the file; an error unless it is a file of this package.
func readBytes(path string) ([]byte, error) {
	in, size, err := durable.Open(path, maxRead)
	if err != nil {
		return nil, err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); errors.Join(err, in.Close()) != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if !bytes.HasPrefix(text, []byte(readHeader)) {
		return nil, fmt.Errorf("%q is a file of another program", path)
	}
	return text, nil
}

// mayReplaceRead returns an error if the file at path is somebody else's.
func mayReplaceRead(path string) error {
	if _, err := readBytes(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lastRead returns when the table of a last-known-good file was last known to be current: the time in the file itself, or the
// later one that was recorded beside it for the same table. It also returns the hold that lasted then; nil if there was none.
func (f *file) lastRead(meta table.FileMeta, now time.Time) (time.Time, *guard.Ongoing) {
	path := f.cfg.Path + readSuffix
	durable.Tidy(path)
	text, err := readBytes(path)
	if err != nil {
		return meta.Saved, nil
	}
	line, rest, _ := bytes.Cut(text[len(readHeader):], []byte("\n"))
	digest, at, _ := bytes.Cut(line, []byte(" "))
	read, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return meta.Saved, nil
	}
	hold := f.lastHold(rest, meta.Saved.Sub(read))
	if string(digest) != meta.Digest.String() || read.Before(meta.Saved) || read.After(now.Add(readAhead)) {
		return meta.Saved, hold
	}
	return read, hold
}

// lastHold returns the hold that text is about; nil if there is none. If the table was written so much later, the
// file could not be written with it, and the hold may have ended.
func (f *file) lastHold(text []byte, later time.Duration) *guard.Ongoing {
	text, found := bytes.CutPrefix(text, []byte(holdPrefix))
	text, whole := bytes.CutSuffix(text, []byte("\n"))
	if !found || !whole {
		return nil
	}
	f.mu.Lock()
	f.holdOnDisk, f.holdAsked = string(text), string(text)
	f.mu.Unlock()
	var o guard.Ongoing
	if later > holdLater || json.Unmarshal(text, &o) != nil || o.Check() != nil {
		return nil
	}
	return &o
}
