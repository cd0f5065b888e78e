package gate

import (
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// LogHoldResumed says that a table was held when the process before this one ended, and that the hold goes on.
const LogHoldResumed = "hold of the previous process goes on"

// load reads the last-known-good file and returns its table as a candidate and the hold that lasts, if any. It returns false if
// there is no usable file.
func (g *Gate) load(limit int64) (Candidate, *guard.Ongoing, bool) {
	f := g.lastKnownGood()
	if f == nil {
		return Candidate{}, nil, false
	}
	if err := f.makeFolder(); err != nil {
		f.mu.Lock()
		f.failed(err, time.Now())
		f.mu.Unlock()
		return Candidate{}, nil, false
	}
	t, meta, hold := f.load(limit + maxHeader)
	if t == nil {
		return Candidate{}, nil, false
	}
	g.log.Info(LogFileLoaded, "file", f.cfg.Name, "path", f.cfg.Path, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String(),
		"revision", t.Revision(), "saved", meta.Saved, "origin", meta.Origin)
	return Candidate{Table: t, Read: table.Read{At: meta.Saved}, Origin: meta.Origin, Sent: t.Digest()}, hold, true
}

// Boot serves the table of the last-known-good file, marked stale, if there is a usable one. limit is the maximum size of the
// table in bytes. names returns the ETags that servers have for it, and may be nil. Call Boot before the first offer. It does
// nothing if a table is already served. A hold that lasted when the file was written goes on.
//
// Boot never fails: the log and the status report problems. It never blocks on what is at the path: a file that is torn,
// truncated, foreign, too large or unreadable, a folder or a FIFO is set aside, or left alone and another name is used.
func (g *Gate) Boot(limit int64, names func(*table.Table) []string) {
	if g.Served() != nil {
		return
	}
	c, hold, ok := g.load(limit)
	if !ok {
		return
	}
	if names != nil {
		c.Names = names(c.Table)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restore(c)
	g.resume(hold)
	s := g.Served()
	if f := g.lastKnownGood(); f.store.Loaded() {
		f.mu.Lock()
		f.onDisk = versionOf(s)
		f.mu.Unlock()
	}
	g.save(s, g.files[1:])
}

// resume continues the hold of the previous process. The caller holds mu.
func (g *Gate) resume(hold *guard.Ongoing) {
	if hold == nil {
		return
	}
	if err := g.guard.Resume(*hold, time.Now()); err != nil {
		return // unexpected: load has checked it
	}
	g.keepHold()
	g.log.Warn(LogHoldResumed, "reason", string(hold.Reason), "since", hold.Since)
}

// keepHold makes the last-known-good file say whether a hold lasts, from the next write on. It reports whether such a write is
// due. The caller holds mu.
func (g *Gate) keepHold() (due bool) {
	f := g.lastKnownGood()
	return f != nil && g.served.Load() != nil && f.setHold(holdText(g.guard))
}

// saveHold requests a write about the hold, unless one was requested already. The caller holds mu.
func (g *Gate) saveHold() {
	if g.keepHold() {
		g.lastKnownGood().request(g.served.Load(), false)
	}
}

// lastKnownGood returns the file that Boot loads, or nil.
func (g *Gate) lastKnownGood() *file {
	if len(g.files) == 0 || g.files[0].cfg.Path == "" {
		return nil
	}
	return g.files[0]
}

// save writes the table to files, and waits for the writes for a limited time. The caller holds mu.
func (g *Gate) save(s *Served, files []*file) {
	var writes []<-chan struct{}
	for _, f := range files {
		if done := f.save(s); !f.cfg.Background {
			writes = append(writes, done)
		}
	}
	waitFor(g.log, writes)
}

// waitFor waits for writes for a limited time.
func waitFor(log *slog.Logger, writes []<-chan struct{}) {
	timer := time.NewTimer(fileWait)
	defer timer.Stop()
	for _, done := range writes {
		select {
		case <-done:
		case <-timer.C:
			log.Warn(LogFileSlow, "after", fileWait)
			return
		}
	}
}

// Tend retries failed writes, and writes from time to time when the served table was last known to be current. A producer calls it after each attempt, whatever its result.
func (g *Gate) Tend() {
	g.mu.Lock() // otherwise this write could come after the write of a newer table
	defer g.mu.Unlock()
	s, now := g.served.Load(), time.Now()
	if s == nil {
		return
	}
	for _, f := range g.files {
		switch {
		case f.due(now):
			f.save(s)
		case f.readDue(s, now), f.holdDue(now):
			f.request(s, false)
		}
	}
}

// Flush updates the time in the last-known-good file at which its table was last known to be current, and waits a limited time for
// writes in progress. Call it when the process ends.
func (g *Gate) Flush() {
	g.mu.Lock() // Accept may be running
	defer g.mu.Unlock()
	s := g.served.Load()
	if s == nil || g.lastKnownGood() == nil || g.lastKnownGood().says(s) {
		return
	}
	waitFor(g.log, []<-chan struct{}{g.lastKnownGood().save(s)})
}

// Files returns the state of the files, in the order of Config.Files; nil for a file without a path.
func (g *Gate) Files() []*FileStatus {
	all := make([]*FileStatus, len(g.files))
	for i, f := range g.files {
		all[i] = f.status()
	}
	return all
}
