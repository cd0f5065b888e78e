package guard

import (
	"slices"
	"time"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// Loss is what a table would lose of the served one, for a caller that knows objects: it can keep those that are concerned, and
// serve everything else.
type Loss struct {
	// Reason and Detail say why the table is suspicious; empty if it is fine.
	Reason Code
	Detail string
	// Share is the share of the served requests that are lost or have no endpoints any more.
	Share float64
	// Grows means that the table is past a ceiling.
	Grows bool

	reader     reader
	requests   map[member]struct{} // which are lost, or have no endpoints any more
	namespaces map[string]int      // all of whose routes are lost; nil unless that is the reason

	missing, missingRoutes, drained int // see Missing
}

// Of reports whether a route of the served table answers a request that the other table loses, or that it leaves without endpoints.
func (l *Loss) Of(r *table.Route) bool {
	if !answers(r) {
		return false
	}
	_, found := l.namespaces[routeid.NamespaceOf(r.ID)]
	l.reader.requests(r, func(q member) {
		_, lost := l.requests[q]
		found = found || lost
	})
	return found
}

// Requests returns how many requests are lost or have no endpoints any more.
func (l *Loss) Requests() int { return len(l.requests) }

// Missing counts what a table lacks that was held before for reasons of these kinds: requests that nobody answers, without those that their
// object no longer wants; and requests without endpoints.
func (l *Loss) Missing(kinds []Code) (n int) {
	if slices.ContainsFunc(kinds, Code.Loses) {
		n = l.missing
	}
	if slices.Contains(kinds, NamespaceLost) {
		n = max(n, l.missingRoutes)
	}
	if slices.Contains(kinds, BackendsLost) {
		n += l.drained
	}
	return n
}

// Held is what the caller of [Guard.Judge] holds back because of a loss. The zero value means nothing.
type Held struct {
	// Since is when that began. Until it ends, what was lost within the window before counts.
	Since time.Time
	// Objects means that it keeps objects and serves everything else. Then less is suspicious, because the accident may go on: a loss
	// of more than 5 % of the requests, hosts or endpoints, unless it is one object's.
	Objects bool
}

// Judge compares a table with the served one, or nil. Call it for every completed read, also without a change; now is the time of the read.
func (g *Guard) Judge(served, other *table.Table, held Held, now time.Time) *Loss {
	g.follow(served)
	g.held, g.judged = held, now
	for s, w := range g.windows {
		if w.expire(g.cfg.Window, now, held.Since); len(w.gained)+len(w.lost) == 0 {
			delete(g.windows, s)
		}
	}
	l := &Loss{reader: g.reader, requests: make(map[member]struct{})}
	l.Reason, l.Detail = g.inspect(other)
	if g.base == nil || g.base.Equal(other) {
		return l
	}
	l.Grows = past(g.cfg.MaxRoutes, g.base.Len(), other.Len()) || past(g.cfg.MaxBytes, g.base.Bytes(), other.Bytes())
	d := g.difference(other)
	for _, k := range []kind{requests, backends} {
		for _, q := range d.all(k).gone {
			l.requests[q] = struct{}{}
		}
	}
	if n := g.size(set{kind: requests}); n > 0 {
		l.Share = float64(len(l.requests)) / float64(n)
	}
	if l.Reason == NamespaceLost {
		l.namespaces = g.lostNamespaces(d)
	}
	if g.cfg.MaxLoss < 1 {
		l.missing = d.missing
	}
	if g.cfg.MaxBackendLoss < 1 {
		l.drained = len(d.all(backends).gone)
	}
	l.missingRoutes = d.missingRoutes
	return l
}

// Forgive makes later tables be compared with this one only, as if nothing had been lost before: somebody has accepted that, or its
// time has passed.
func (g *Guard) Forgive(served *table.Table) {
	g.base, g.census, g.memo = served, nil, nil
	clear(g.windows)
}
