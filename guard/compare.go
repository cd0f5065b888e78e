package guard

import (
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

// Compare compares a table with the served one by the rules of [Guard.Judge]. No hold begins or ends. The time is that of the read.
func (g *Guard) Compare(served, other *table.Table, now time.Time) *Loss {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(served, now)
	f := g.inspect(other)
	l := &Loss{Reason: f.reason, Detail: f.detail, reader: g.reader, requests: make(map[member]struct{})}
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
	if f.reason == NamespaceLost {
		l.namespaces = g.lostNamespaces(d)
	}
	return l
}

// Keeping tells the Guard that its caller keeps objects because of a loss, since a time; the zero time means that it keeps none. Meanwhile
// less is suspicious, because the accident may go on: a loss of more than 5 % of the requests, hosts or endpoints, unless it is one
// object's. And what was lost within the window before counts until then.
func (g *Guard) Keeping(since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keeping = since
}

// Drop ends a hold without a release, for a caller that now keeps the lost objects instead of the table.
func (g *Guard) Drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = nil
}

// Forgive makes later tables be compared with this one only, as if nothing had been lost before: somebody has accepted that, or its
// time has passed.
func (g *Guard) Forgive(served *table.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart(served)
}
