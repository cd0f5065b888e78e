package etagcache

import (
	"time"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// state is everything that a response is made from. It is immutable, except for zones that are built later and stamps.
type state struct {
	version  *version  // nil before the first table
	oldest   uint64    // version is not older than the source was at this revision; 0 if unknown
	newest   uint64    // the highest revision up to which version may be the content of the source; 0 without revisions
	lastRead time.Time // last successful read; zero if there was none
	stale    bool      // version comes from a last-known-good file that no read has confirmed yet
	held     bool      // the last read showed another table, which is held back
	backends bool      // only its backends are held back
	// candidate is the held table, nil if unknown. A client that has it got it from a replica that no longer holds it.
	candidate *table.Table

	sourceRead []string // header values
	tableState []string

	superseded chan struct{} // closed when another state replaces this one
	outdated   chan struct{} // closed when a state with another table, or other facts about it, replaces this one
}

// Publish makes t the current table outside of a read, after an acceptance. It returns when t is served: it first builds the
// bodies, which takes about 100 ms for 40 MB. The revision of t is the Newest of the read that first produced it. A table with
// the content of the current one does not change ETag and Last-Modified.
//
// Until a read has shown t, it is only known to be no older than the previous table.
func (c *Cache) Publish(t *table.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{version: old.version, oldest: old.oldest, newest: old.newest, lastRead: old.lastRead}
	c.show(next, t)
	c.swap(next)
	c.published(old, next)
}

// show makes t the table of next, unless next already has it. The caller holds mu.
func (c *Cache) show(next *state, t *table.Table) {
	if t.Time().After(next.lastRead) {
		next.lastRead = t.Time()
	}
	if next.version == nil || next.version.table.Digest() != t.Digest() {
		c.replace(next, t)
		next.version.readings.newest.Store(t.Revision())
	}
}

// Restore makes t, which comes from a last-known-good file, the current table. It is marked stale until a read confirms or
// replaces it; until then it does not count as newer than any other table. lastRead is when the source was last read
// successfully before the restart; zero if unknown.
func (c *Cache) Restore(t *table.Table, lastRead time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{lastRead: lastRead, stale: true}
	c.replace(next, t)
	c.swap(next)
	c.published(old, next)
}

// replace makes t the version of next. The caller holds mu.
func (c *Cache) replace(next *state, t *table.Table) {
	before := next.version
	if t.Revision() < next.newest {
		// The source went back in time: what was known about its revisions is void.
		before, next.oldest = nil, 0
	}
	c.versions++
	next.version, next.newest = c.newVersion(t, before, c.versions), t.Revision()
	if before == nil {
		c.history.forgetBefore(c.versions)
	}
}

// published reports that another table is served, if so.
func (c *Cache) published(old, next *state) {
	if next.version != old.version {
		c.cfg.Metrics.observeTable(next.version)
		t := next.version.table
		if c.cfg.Observer != nil {
			c.cfg.Observer.Published(next.version.readings.order, t.Digest(), t.Revision())
		}
		c.cfg.Logger.Info("table published", "routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(), "revision", t.Revision(), "stale", next.stale)
		if c.cfg.Published != nil {
			c.cfg.Published(t, next.stale)
		}
	}
}

// Begin reports that a read of the source begins. A failed read needs no further call; otherwise call the returned function once
// with the result.
//
// t is the table of the source, or, if r.Held says that another one is held back, a table derived from the read: it is served
// from now on. If t has the content of the current table and a higher revision, the ETag gets that revision, because the content
// is current again (see the package documentation). If r is not Held, or is Live, the current table is as new as the read; a Live
// read names the Candidate that clients must keep. t is nil if a table is held back, or waits, and no table was derived from the
// read. Then the current table may no longer be the content of the source, and a client that got the newer table elsewhere must
// keep it.
//
// If a read that began later has already ended, only the table of this read counts.
func (c *Cache) Begin() (end func(t *table.Table, r table.Read)) {
	seq := c.started.Add(1)
	return func(t *table.Table, r table.Read) { c.end(seq, t, r) }
}

func (c *Cache) end(seq uint64, t *table.Table, r table.Read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	late := seq <= c.ended
	if late && t == nil {
		return
	}
	next := *old
	if t != nil {
		next.stale = r.Stale
		c.show(&next, t)
	}
	if !late {
		c.ended = seq
		if t != nil {
			next.version.full.raise(min(t.Revision(), r.Newest)) // not beyond the source, which may have gone back in time
		}
		next.lastRead, next.held, next.backends, next.candidate = r.At, r.Held, r.Backends, r.Candidate
		if !r.Held && !r.Waiting || r.Live {
			next.oldest, next.newest = r.Oldest, r.Newest
			if v := next.version; v != nil {
				v.readings.newest.Store(r.Newest)
				v.restampDown(r.Newest)
				if r.Newest < old.newest {
					c.history.forgetBefore(v.readings.order)
				}
			}
		}
	}
	c.swap(&next)
	c.published(old, &next)
	if late {
		return
	}
	if n := c.claims.judge(seq, r); n > 0 {
		c.cfg.Logger.Warn("source is older than tables that clients hold", "revision", r.Newest, "claims", n)
	}
}

// swap makes next the state. The caller holds mu.
func (c *Cache) swap(next *state) {
	if !next.lastRead.IsZero() {
		next.sourceRead = []string{wire.FormatTime(next.lastRead)}
		c.cfg.Metrics.LastRead.Set(float64(next.lastRead.UnixMilli()) / 1000)
	}
	next.tableState = nil
	switch {
	case next.stale:
		next.tableState = tableStale
	case next.held && next.backends:
		next.tableState = tableBackendsHeld
	case next.held:
		next.tableState = tableHeld
	}
	c.cfg.Metrics.observeState(next)
	before := c.state.Load()
	next.superseded, next.outdated = make(chan struct{}), before.outdated
	news := next.version != before.version || next.stale != before.stale || next.held != before.held ||
		next.backends != before.backends
	if news {
		next.outdated = make(chan struct{})
	}
	c.state.Store(next)
	close(before.superseded)
	if news {
		close(before.outdated)
	}
}
