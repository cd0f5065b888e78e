package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Log messages about what a process takes over from an earlier one, or from another replica.
const (
	LogHoldResumed = "hold of the previous process goes on"
	LogKeptResumed = "objects that the previous process kept stay kept"
)

// Boot serves the table of the last-known-good file, marked stale, if there is a usable one. limit is the maximum size of the
// table in bytes. names returns the ETags that servers have for it, and may be nil. Call Boot before the first offer. It does
// nothing if a table is already served. A hold that lasted when the file was written goes on, and kept objects stay kept.
//
// Boot never fails: the log and the status report problems. It never blocks on what is at the path: a file that is torn,
// truncated, foreign, too large or unreadable, a folder or a FIFO is set aside, or left alone if that is impossible.
func (p *Publisher) Boot(limit int64, names func(*table.Table) []string) {
	f := p.file
	if f.cfg.Path == "" || p.Served() != nil {
		return
	}
	t, meta, err := f.load(limit + maxHeader)
	if err != nil { // there is no room for a table, so none
		f.wrote(err, false)
		return
	}
	s, kept := f.readState() // also without a table: what is not ours there is set aside
	if t == nil {
		return
	}
	p.log.Info(LogFileLoaded, "file", f.cfg.Name, "path", f.cfg.Path, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String(),
		"revision", t.Revision(), "saved", meta.Saved, "origin", meta.Origin)
	c := Candidate{Table: t, Origin: meta.Origin, Sent: t.Digest()}
	if names != nil {
		c.Names = names(t)
	}
	c.Read.At = s.readOf(meta, time.Now())

	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Sink.Restore(c.Table, c.Read.At)
	p.served.Store(&Served{Candidate: c, Committed: time.Now(), Stale: true})
	close(p.ready)
	p.takeOver(kept)
	f.mu.Lock()
	f.want = content{table: t, origin: meta.Origin, saved: meta.Saved, read: c.Read.At, kept: p.keeper.list}
	f.disk = f.want
	f.mu.Unlock()
}

// takeOver goes on with what another process has kept. The caller holds mu.
func (p *Publisher) takeOver(list keptList) {
	table, objects := list.table(), list.with(nil)
	if table != nil {
		p.log.Warn(LogHoldResumed, "reason", string(table.Reason), "since", table.Since)
	}
	if p.cfg.Builder == nil {
		objects = nil
	}
	if len(objects) > 0 {
		p.log.Warn(LogKeptResumed, "count", len(objects), "objects", objects.names())
	}
	p.keeper.takeOver(objects.with(table), time.Now().UTC())
	p.show()
	p.cfg.Metrics.steers(p.keeper.list)
}

// TakeOver keeps the objects that another replica keeps, so that the first table of this process has them as well. Call it before the
// first offer. If this process knows kept objects of its own, it takes over only the freezes and pins, and instead of its own: an operator may have
// decided something while it did not run.
func (p *Publisher) TakeOver(list []*Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Builder == nil {
		return
	}
	theirs := keptList(list).sorted()
	if own := p.keeper.list.where(func(k *Kept) bool { return !steered(k.Reason) }); len(p.keeper.list) > 0 {
		theirs = theirs.where(func(k *Kept) bool { return steered(k.Reason) })
		theirs = own.and(theirs)
	}
	p.takeOver(theirs)
}

// saveKept makes the last-known-good file tell of what is kept or waits. The caller holds mu.
func (p *Publisher) saveKept(kept keptList) {
	if p.served.Load() != nil {
		p.file.update(func(want *content) { want.kept = kept })
	}
}

// Tend retries failed writes, and writes from time to time when the served table was last known to be current. A producer calls it
// after each attempt, whatever its result.
func (p *Publisher) Tend() {
	p.mu.Lock() // otherwise this write could come after the write of a newer table
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.tend(s.Table, s.Read.At)
	}
}

// Flush writes when the table of the last-known-good file was last known to be current, and waits a limited time for writes in
// progress. Call it when the process ends.
func (p *Publisher) Flush() {
	p.mu.Lock() // Accept may be running
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.update(func(want *content) { want.shown(s.Table, s.Read.At) })
	}
	p.file.wait()
}

// Prove makes the last-known-good file have a table with which a proxy has lived: see FileConfig.Unproven. It neither judges nor serves the
// table, and may be called while a sink runs. Call it after Boot.
func (p *Publisher) Prove(c Candidate) { p.file.prove(c) }

// File returns the state of the last-known-good file; nil if there is none.
func (p *Publisher) File() *api.File { return p.file.status() }

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
