package guard

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Loss is what a table would lose of the served one, for a caller that knows objects: it can keep those that are concerned, and
// serve everything else.
type Loss struct {
	// Reason and Detail say why the table is suspicious; empty if it is fine.
	Reason Code
	Detail string

	reader        reader
	grows         bool // past a ceiling
	gone, drained map[request]struct{}
	namespaces    map[string]int // all of whose routes are lost; nil unless that is the reason
}

// Of reports whether a route of the served table answers a request that the other table loses, or that it leaves without endpoints.
func (l *Loss) Of(r *table.Route) bool {
	if !counts(r) {
		return false
	}
	if _, lost := l.namespaces[namespaceOf(r)]; lost {
		return true
	}
	found := false
	l.reader.requests(r, func(q request) {
		_, gone := l.gone[q]
		_, drained := l.drained[q]
		found = found || gone || drained
	})
	return found
}

// Requests returns how many requests are lost or have no endpoints any more.
func (l *Loss) Requests() int { return len(l.gone) + len(l.drained) }

// Grows reports whether the table is too large.
func (l *Loss) Grows() bool { return l.grows }

// Drains reports whether the reason is that endpoints are lost.
func (l *Loss) Drains() bool { return l.Reason == BackendsLost }

// Compare compares a table with the served one by the rules of [Guard.Judge]. No hold begins or ends. The time is that of the read.
func (g *Guard) Compare(served, other *table.Table, now time.Time) *Loss {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(served, now)
	f := g.inspect(other)
	l := &Loss{Reason: f.reason, Detail: f.detail, reader: g.reader}
	if g.base == nil || g.base.Equal(other) {
		return l
	}
	l.grows = past(g.cfg.MaxRoutes, g.base.Len(), other.Len()) || past(g.cfg.MaxBytes, g.base.Bytes(), other.Bytes())
	d := g.difference(other)
	l.gone, l.drained = setOf(d.requests.gone), setOf(d.backends.gone)
	if f.reason == NamespaceLost {
		l.namespaces = g.lostNamespaces(g.base, d.ids)
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

// Share returns the share of the served requests that would be lost.
func (g *Guard) Share(l *Loss) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.census == nil || len(g.census.requests) == 0 {
		return 0
	}
	return float64(l.Requests()) / float64(len(g.census.requests))
}

// Forgive makes later tables be compared with this one only, as if nothing had been lost before: somebody has accepted that, or its
// time has passed.
func (g *Guard) Forgive(served *table.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart(served)
}

func setOf(all []request) map[request]struct{} {
	set := make(map[request]struct{}, len(all))
	for _, q := range all {
		set[q] = struct{}{}
	}
	return set
}
