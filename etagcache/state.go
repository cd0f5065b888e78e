package etagcache

import (
	"time"

	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/wire"
)

// state is all that a response is made from. It is immutable, apart from zones that are still to be made and stamps.
type state struct {
	version  *version  // nil before the first table
	oldest   uint64    // version is not older than the source was at this revision; 0 if that is not known
	newest   uint64    // the highest revision through which version may be the content of the source; 0 without revisions
	lastRead time.Time // of the last read with success; zero if there was none
	stale    bool      // version comes from a checkpoint, and no read has confirmed it yet
	held     bool      // the last read showed another table, which is held back
	backends bool      // but only its backends are
	// candidate is the table that is held back, nil if that is not known. A client that has it got it where it is not held
	// any more.
	candidate *table.Table

	sourceRead []string // header values
	tableState []string

	superseded chan struct{} // closed when another state takes the place of this one
	outdated   chan struct{} // closed when a state does that has another table, or says something else about it
}

// Publish makes t the current table. It returns when t is served: the bodies are made first, which takes some 100 ms for
// 40 MB. The revision of t is the Newest of the read that first gave it. A table with the content of the current one
// changes no ETag and no Last-Modified.
//
// The order within one poll is PollStarted, Publish if the table changed and may be served, PollEnded. In between, t is
// known to be no older than the table before it, and nothing more.
func (c *Cache) Publish(t *table.Table) { c.publish(t, false) }

// PublishHeld is Publish for a table that is served while another one is held back: what the last read told of the hold
// stays until the next one ends.
func (c *Cache) PublishHeld(t *table.Table) { c.publish(t, true) }

func (c *Cache) publish(t *table.Table, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{version: old.version, oldest: old.oldest, newest: old.newest, lastRead: old.lastRead}
	if held {
		next.held, next.backends, next.candidate = old.held, old.backends, old.candidate
	}
	if t.Time().After(next.lastRead) {
		next.lastRead = t.Time()
	}
	if old.version == nil || old.version.table.Digest() != t.Digest() {
		c.replace(next, t)
		next.version.sighting.newest.Store(t.Revision())
	}
	c.swap(next)
	c.published(old, next)
}

// Restore makes t, which comes from a checkpoint, the current table. It is marked stale until a read confirms or
// replaces it; until then it is not known to be newer than anything. lastRead is when the source was last read with
// success before the restart; zero if that is not known.
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
		// The source has gone back: what was known of its revisions is void.
		before, next.oldest = nil, 0
	}
	c.versions++
	next.version, next.newest = c.newVersion(t, before, c.versions), t.Revision()
	if before == nil {
		c.history.forgetBefore(c.versions)
	}
}

func (c *Cache) published(old, next *state) {
	c.cfg.Metrics.observeTable(next.version)
	if next.version != old.version {
		t := next.version.table
		c.cfg.Logger.Info("table published", "routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(), "revision", t.Revision(), "stale", next.stale)
	}
}

// PollStarted says that a read of the source begins and returns its number, which goes to PollEnded. A read that fails
// needs no further call.
func (c *Cache) PollStarted() (seq uint64) {
	return c.started.Add(1)
}

// PollEnded says what the read seq told. If it is not Held, the current table is what it showed, whether or not that is a
// new one. If it is, but Live, only the client that has the Candidate must keep it: the current table is as new as the
// read. If it is and not Live, the current table is not known to be the content of the source any more: a client that got the newer
// table elsewhere must keep it. A call for a read that started before one that has ended already is ignored.
func (c *Cache) PollEnded(seq uint64, r table.Read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq <= c.ended {
		return
	}
	c.ended = seq
	old := c.state.Load()
	next := *old
	next.lastRead, next.held, next.backends, next.candidate = r.At, r.Held, r.Backends, r.Candidate
	if !r.Held || r.Live {
		next.oldest, next.newest, next.stale = r.Oldest, r.Newest, r.Stale
		if v := next.version; v != nil {
			v.sighting.newest.Store(r.Newest)
			v.restampDown(r.Newest)
			if r.Newest < old.newest {
				c.history.forgetBefore(v.sighting.order)
			}
		}
	}
	c.swap(&next)
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
