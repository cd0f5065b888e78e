package sidecar

import (
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// origin says where the served table comes from.
type origin string

const (
	fromNobody      origin = "none"
	fromLKG         origin = "lkg"         // last-known-good, not confirmed by a route server
	fromSelf        origin = "self"        // computed here
	fromRouteServer origin = "routeserver" // fetched
)

func origins() []origin { return []origin{fromNobody, fromLKG, fromSelf, fromRouteServer} }

// served is what the proxy is given, and the only one that puts tables into the cache. It is owned by the conductor.
type served struct {
	cache  *etagcache.Cache
	routes *routesFile

	origin origin
	table  *table.Table // as its producer made it; nil before the first
	// floor is the revision below which nothing is served: that of the table from the producer before. Zero if the
	// producer is past it.
	floor uint64
	last  uint64 // Newest of the last read of this producer
}

// restore serves the last-known-good table, marked stale.
func (s *served) restore(o offer) {
	s.origin, s.table, s.floor, s.last = fromLKG, o.table, 0, 0
	s.cache.Restore(o.table, o.read.At)
	s.routes.save(o.table)
}

// take serves the offer of another producer from now on.
func (s *served) take(from origin, o offer) {
	s.floor = 0
	if s.table != nil {
		status := s.cache.Status()
		s.floor = max(status.Revision, status.ReadRevision)
	}
	s.origin, s.last = from, 0
	s.publish(o.table)
	s.confirm(s.cache.PollStarted(), o.read)
}

// publish serves another table of the same producer.
func (s *served) publish(t *table.Table) {
	s.table = t
	s.routes.save(t)
	if t.Revision() < s.floor {
		t = t.WithRevision(s.floor)
	}
	s.cache.Publish(t)
}

// confirm says what a read of the producer has shown.
func (s *served) confirm(seq uint64, r table.Read) {
	if r.Newest >= s.floor || r.Newest < s.last {
		s.floor = 0 // it is past the producer before, or its source has gone back and means it
	}
	s.last = r.Newest
	r.Newest = max(r.Newest, s.floor)
	if s.floor > 0 {
		r.Oldest = r.Newest // the conductor has decided: what the proxy has is not newer
	}
	s.cache.PollEnded(seq, r)
}
