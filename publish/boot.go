package publish

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Log messages about state taken over from an earlier process or another replica.
const (
	LogHoldResumed = "hold of the previous process continues"
	LogKeptResumed = "objects that the previous process kept stay kept"
)

// Boot serves the table of the last-known-good file, marked stale, if there is a usable one. limit is the maximum size of the
// table in bytes. names returns the ETags that servers have for it, and may be nil. Call Boot before the first offer. It does
// nothing if a table is already served. Boot also resumes the holds and kept objects of an earlier process, whether there is a usable table
// or not.
//
// Boot never fails: the log and the status report problems. It never blocks on the path: a torn, truncated, foreign, oversized or
// unreadable file, a folder or a FIFO is set aside, or left alone if that is impossible.
func (p *Publisher) Boot(limit int64, names func(*table.Table) []string) {
	f := p.file
	if f.cfg.Path == "" || p.Served() != nil {
		return
	}
	t, meta, err := f.load(limit + maxHeader)
	if err != nil { // the path is unusable, so no table
		f.wrote(err, false)
		return
	}
	s := f.readState()
	kept := p.keptFile.load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeOver(kept) // also without a table
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

	p.cfg.Canary.Sink.Restore(c.Table, c.Read.At)
	p.cfg.Sink.Restore(c.Table, c.Read.At)
	p.canary.Store(c.Table)
	p.served.Store(&Served{Candidate: c, Committed: time.Now(), Stale: true})
	close(p.ready)
	f.mu.Lock()
	f.want = content{table: t, origin: meta.Origin, saved: meta.Saved, read: c.Read.At}
	f.disk = f.want
	f.mu.Unlock()
}

// takeOver continues with the entries of another process, except ended entries for the whole table: the list may be older than
// the last served table, so they must not release a later loss. The caller holds mu.
func (p *Publisher) takeOver(list keptList) {
	now := time.Now()
	list = list.where(func(k *Kept) bool { return k.Kind != kindTable || !k.over(now) })
	if tables := list.tables(); len(tables) > 0 {
		p.log.Warn(LogHoldResumed, "reason", string(tables[0].Reason), "since", tables[0].Since)
	}
	if p.policy.builder == nil {
		list = list.tables()
	}
	if objects := list.objects().others(); len(objects) > 0 {
		p.log.Warn(LogKeptResumed, "count", len(objects), "objects", objects.names())
	}
	p.show(&standing{list: list, digest: list.objects().acceptable().digest()})
}

// TakeOver keeps the objects that another replica keeps, so that the first table of this process includes them. Call it before
// the first offer. If this process already has entries, it takes over only the freezes and pins, which replace its own: an
// operator may have changed them while it was down.
func (p *Publisher) TakeOver(list []*Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy.builder == nil {
		return
	}
	theirs := keptList(list).sorted()
	if own := p.standing.Load().list; len(own) > 0 {
		theirs = own.where(func(k *Kept) bool { return !steered(k.Reason) }).and(theirs.where(func(k *Kept) bool { return steered(k.Reason) }))
	}
	p.takeOver(theirs)
}

// Adopt sets what the other replicas keep: an object kept by a guard there is also kept here if it is lost here, at the version
// last served here. Replicas read at different moments, so an accident may exceed the limits of only one of them. A change that
// soaks there soaks here from the same time on, so that all replicas promote it together. Only the names and times of the entries
// are used.
func (p *Publisher) Adopt(list []*Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers, p.theirs = keptList(Accidents(list)).sorted(), make(map[kube.Ref][]*Kept)
	for _, k := range keptList(list).soaking() {
		p.theirs[k.Ref] = append(p.theirs[k.Ref], k)
	}
}

// Accidents returns the entries of Ingresses and RouteGroups that the guard keeps because they were lost.
func Accidents(list []*Kept) []*Kept {
	return keptList(list).where(func(k *Kept) bool {
		return k.By == keptBy && (k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup) && k.Reason.Loses()
	})
}

// saveKept makes a list durable before a table is served. The caller holds mu. A failing disk delays the table by at most
// keptWait.
func (p *Publisher) saveKept(list keptList) { _ = p.keptFile.keep(list) } // it logs errors and retries with the next read

// Tend retries failed writes, and writes from time to time when the served table was last known to be current. A producer calls it
// after each attempt, whatever its result.
func (p *Publisher) Tend() {
	p.mu.Lock() // otherwise this write could come after the write of a newer table
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.tend(s.Table, s.Read.At)
	}
}

// Flush writes the last-known-good file and when its table was last known to be current, and waits a limited time for that. Call it when
// the process ends.
func (p *Publisher) Flush() {
	p.mu.Lock() // Accept may be running
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.update(func(want *content) { want.shown(s.Table, s.Read.At) })
	}
	p.file.flush()
	p.file.wait()
}

// Prove writes a table with which a proxy has run to the last-known-good file: see FileConfig.Unproven. It neither judges nor
// serves the table, and may be called while a sink runs. Call it after Boot.
func (p *Publisher) Prove(c Candidate) { p.file.prove(c) }

// File returns the state of the last-known-good file; nil if there is none.
func (p *Publisher) File() *api.File { return p.file.status() }

// A file beside the last-known-good file records when its table was last known to be current. A table may stay the same for days
// while it is read every few seconds: writing all of it for each read would wear out the disk, and without the time a restart
// would make the table look as old as its last change.

const (
	// stateSuffix is appended to the path of a last-known-good file.
	stateSuffix = ".state"
	// maxState limits the file, in bytes.
	maxState = 4 << 10

	// readEvery is the minimum interval between writes that only update the time of the last read. After a crash a table may look
	// this much older.
	readEvery = 5 * time.Second
	// readAhead is how far in the future a recorded time may be, in case the clock was set back. Later times are ignored.
	readAhead = time.Minute
)

// LogStateUnusable reports that the age of the last-known-good table is counted from its last change.
const LogStateUnusable = "state beside the last-known-good file is not usable, set aside"

// state is the content of the file.
type state struct {
	Digest table.Digest `json:"digest"` // of the table beside it
	Read   time.Time    `json:"read"`   // when that was last known to be current
}

// writeState writes the state of the table on disk.
func (f *file) writeState(want, disk *content) error {
	s := state{Read: disk.read.UTC()}
	if disk.table != nil {
		s.Digest = disk.table.Digest()
	}
	if want.table == disk.table {
		s.Read = want.read.UTC()
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return f.put(f.cfg.Path+stateSuffix, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// readState reads the state beside the last-known-good file. An unusable file is logged and set aside.
func (f *file) readState() (s state) {
	path := f.cfg.Path + stateSuffix
	keptAs, err := durable.Load(path, maxState, func(r io.Reader) error { return json.NewDecoder(r).Decode(&s) })
	if err == nil {
		return s
	}
	if !errors.Is(err, fs.ErrNotExist) {
		f.log.Error(LogStateUnusable, "path", path, "error", err, "kept_as", keptAs)
	}
	return state{}
}

// readOf returns when the table of a file was last known to be current: the time in the file itself, or the later one that was
// recorded for the same table.
func (s *state) readOf(meta table.FileMeta, now time.Time) time.Time {
	if s.Digest != meta.Digest || s.Read.Before(meta.Saved) || s.Read.After(now.Add(readAhead)) {
		return meta.Saved
	}
	return s.Read
}
