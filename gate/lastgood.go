package gate

import (
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/table"
)

// load reads the last-good file, and gives its table as a candidate; false if there is no file that can be used.
func (g *Gate) load(limit int64) (Candidate, bool) {
	f := g.lastGood()
	if f == nil {
		return Candidate{}, false
	}
	if err := f.makeFolder(); err != nil {
		f.mu.Lock()
		f.failed(err, time.Now())
		f.mu.Unlock()
		return Candidate{}, false
	}
	t, meta := f.load(limit + maxHeader)
	if t == nil {
		return Candidate{}, false
	}
	g.log.Info(LogFileLoaded, "file", f.cfg.Name, "path", f.cfg.Path, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String(),
		"revision", t.Revision(), "saved", meta.Saved, "origin", meta.Origin)
	return Candidate{Table: t, Read: table.Read{At: meta.Saved}, Origin: meta.Origin, Sent: t.Digest()}, true
}

// Boot serves the table of the last-good file, marked stale, if there is one that can be used. The limit is the most bytes that
// the table may have; names gives the ETags that servers give to it, and may be nil. Boot is to be called before the first
// offer. If a table is served already, it does nothing.
//
// Boot never fails: the log and the status say what is wrong. It never waits for what is at the path: a file that is torn,
// truncated, of somebody else or too large, a folder, a FIFO, or a file that cannot be read is set aside, or left alone and
// another name used.
func (g *Gate) Boot(limit int64, names func(*table.Table) []string) {
	if g.Served() != nil {
		return
	}
	c, ok := g.load(limit)
	if !ok {
		return
	}
	if names != nil {
		c.Names = names(c.Table)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restore(c)
	s := g.Served()
	if f := g.lastGood(); f.store.Loaded() {
		f.mu.Lock()
		f.onDisk = versionOf(s)
		f.mu.Unlock()
	}
	g.save(s, g.files[1:])
}

// lastGood is the file that Boot loads, nil if there is none.
func (g *Gate) lastGood() *file {
	if len(g.files) == 0 || g.files[0].cfg.Path == "" {
		return nil
	}
	return g.files[0]
}

// save writes the table to files, and waits for them, but not for ever. The caller holds mu.
func (g *Gate) save(s *Served, files []*file) {
	var writes []<-chan struct{}
	for _, f := range files {
		if done := f.save(s); !f.cfg.Background {
			writes = append(writes, done)
		}
	}
	waitFor(g.log, writes)
}

// waitFor waits for writes, but not for ever.
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

// Tend tries again what could not be written. A producer calls it after each attempt, whatever came of it.
func (g *Gate) Tend() {
	g.mu.Lock() // or the write could come after that of a newer table
	defer g.mu.Unlock()
	s, now := g.served.Load(), time.Now()
	if s == nil {
		return
	}
	for _, f := range g.files {
		if f.due(now) {
			f.save(s)
		}
	}
}

// Flush makes the last-good file tell when its table was last known to be current, and waits for writes that are in
// progress, but not for ever. It is for the end of a process.
func (g *Gate) Flush() {
	g.mu.Lock() // Accept may be on its way
	defer g.mu.Unlock()
	s := g.served.Load()
	if s == nil || g.lastGood() == nil || g.lastGood().says(s) {
		return
	}
	waitFor(g.log, []<-chan struct{}{g.lastGood().save(s)})
}

// Files returns what is known of the files, in the order of Config.Files; nil for one without a path.
func (g *Gate) Files() []*FileStatus {
	all := make([]*FileStatus, len(g.files))
	for i, f := range g.files {
		all[i] = f.status()
	}
	return all
}
