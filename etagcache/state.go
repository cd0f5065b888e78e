package etagcache

import (
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/table"
)

// serving is everything that a response is made from. It is immutable, except for zones that are built later and stamps.
type serving struct {
	version *version // nil before the first table
	oldest  uint64   // version is not older than the source was at this revision; 0 if unknown
	newest  uint64   // the highest revision up to which version may be the content of the source; 0 without revisions
	// read is the last successful read, zero if there was none; Stale means that version comes from a last-known-good file. A
	// client that has its Candidate got it from a replica that no longer holds it.
	read table.Read

	superseded chan struct{} // closed when another state replaces this one
}

// sourceRead returns the value of X-Source-Read, or "" if the source was never read.
func (st *serving) sourceRead() string {
	if st.read.At.IsZero() {
		return ""
	}
	return api.FormatTime(st.read.At)
}

// name returns the value of X-Table-State, or "".
func (st *serving) name() string {
	switch {
	case st.read.Stale:
		return api.StateStale
	case st.read.Held && st.read.Backends:
		return api.StateBackendsHeld
	case st.read.Held:
		return api.StateHeld
	}
	return ""
}

// Publish makes t the current table outside of a read, after an acceptance. Until a read has shown t, it is only known to be no
// older than the previous table. A table with the content of the current one does not change ETag and Last-Modified.
func (c *Cache) Publish(t *table.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &serving{version: old.version, oldest: old.oldest, newest: old.newest, read: table.Read{At: old.read.At}}
	c.show(next, t)
	c.swap(next)
}

// show makes t the table of next, unless next already has it. The caller holds mu.
func (c *Cache) show(next *serving, t *table.Table) {
	if t.Time().After(next.read.At) {
		next.read.At = t.Time()
	}
	if next.version == nil || next.version.table.Digest() != t.Digest() {
		c.replace(next, t)
		next.version.readings.newest.Store(t.Revision())
	}
}

// Restore makes t, of a last-known-good file, the current table. It is stale, and no newer than any other, until a read confirms
// or replaces it. lastRead is when the source was last read before the restart; zero if unknown.
func (c *Cache) Restore(t *table.Table, lastRead time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &serving{read: table.Read{At: lastRead, Stale: true}}
	c.replace(next, t)
	c.swap(next)
}

// replace makes t the version of next. The caller holds mu.
func (c *Cache) replace(next *serving, t *table.Table) {
	before := next.version
	if t.Revision() < next.newest {
		// The source went back in time, so its earlier revisions no longer count.
		before, next.oldest = nil, 0
	}
	c.versions++
	next.version, next.newest = c.newVersion(t, before, c.versions), t.Revision()
	if before == nil {
		c.history.void(c.versions)
	}
}

// Begin reports that a read of the source begins. A failed read needs no further call; otherwise call the returned function once
// with the result.
//
// t is served from now on. It is the table of the source or, if r.Held reports that another table is held back, a table derived
// from the read. If t has the content of the current table and a higher revision, the ETag gets that revision. If r is not Held,
// or is Live, the current table is as new as the read; a Live read names the Candidate that clients must keep. t is nil if a
// table is held back and none was derived: then a client that got the newer table elsewhere must keep it.
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
		next.read.Stale = r.Stale
		c.show(&next, t)
	}
	if !late {
		c.ended = seq
		if t != nil {
			next.version.full.raise(min(t.Revision(), r.Newest)) // not beyond the source, which may have gone back in time
		}
		r.Stale = next.read.Stale // no new table: a stale one stays stale
		next.read = r
		if !r.Held || r.Live {
			next.oldest, next.newest = r.Oldest, r.Newest
			if r.Newest >= old.newest { // a source never shows a list older than before, although this read may prove less
				next.oldest = max(old.oldest, r.Oldest)
			}
			if v := next.version; v != nil {
				v.readings.newest.Store(r.Newest)
				if r.Newest < old.newest {
					c.history.void(v.readings.order)
					c.claims.forget()
				}
			}
		}
		c.claims.judge(seq, r)
	}
	c.swap(&next)
}

// swap sets the state to next, and reports its table if it differs. The caller holds mu.
func (c *Cache) swap(next *serving) {
	series.Stamp(c.cfg.Metrics.LastRead, next.read.At)
	c.cfg.Metrics.ReadRevision.Set(float64(next.newest))
	c.cfg.Metrics.Complete.Set(float64(next.oldest))
	c.cfg.Metrics.TableStale.Set(series.Bool(next.read.Stale))
	next.superseded = make(chan struct{})
	before := c.state.Swap(next)
	close(before.superseded)
	if next.version == before.version {
		return
	}
	t := next.version.table
	c.cfg.Metrics.TableRoutes.Set(float64(t.Len()))
	c.cfg.Metrics.TableBytes.WithLabelValues(identity.String()).Set(float64(t.Bytes()))
	// The publisher logs what was published, and why, at level info.
	c.cfg.Logger.Debug("table published", "routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(),
		"revision", t.Revision(), "stale", next.read.Stale)
	if c.cfg.Published != nil {
		c.cfg.Published(next.version.readings.order, t, next.read.Stale)
	}
}

// version is a table with its derived tables and bodies, which are built on first demand.
type version struct {
	cache    *Cache
	table    *table.Table
	readings *readings
	full     *variant
	before   map[string]*variant // the zones that were requested of the previous version
	zones    sync.Map            // that were requested, to func() *variant, which makes it once
}

func (c *Cache) newVersion(t *table.Table, previous *version, order uint64) *version {
	v := &version{cache: c, table: t, readings: &readings{order: order}, full: c.newVariant(t)}
	c.history.add(t.Digest(), "", v.readings)
	var before *table.Table
	if previous != nil {
		before, v.before = previous.table, previous.requested()
	}
	c.history.record(before, t, order)
	return v
}

// requested returns the tables of the zones that were requested. It waits for tables under construction.
func (v *version) requested() map[string]*variant {
	made := make(map[string]*variant)
	for zone, get := range v.zones.Range {
		made[zone.(string)] = get.(func() *variant)()
	}
	return made
}

// variant returns the table for a zone; the full one if the zone is empty or unknown, or if its table is the same. The first
// request for a zone makes its table, and others wait only for this zone.
func (v *version) variant(zone string) *variant {
	if zone == "" {
		return v.full
	}
	if _, known := slices.BinarySearch(v.table.Zones(), zone); !known {
		return v.full
	}
	get, _ := v.zones.LoadOrStore(zone, sync.OnceValue(func() *variant { return v.makeZone(zone) }))
	return get.(func() *variant)()
}

func (v *version) makeZone(zone string) *variant {
	before := v.before[zone]
	var old *table.Table // nil if the zone was not requested of the previous version
	if before != nil {
		old = before.table
	}
	va := v.full
	switch t := v.table.ZoneAfter(zone, old); {
	case t == v.table:
	case old != nil && old.Digest() == t.Digest():
		va = before // with its revision: an unchanged table keeps its name
	default:
		va = v.cache.newVariant(t)
	}
	v.cache.history.add(va.table.Digest(), zone, v.readings)
	return va
}
