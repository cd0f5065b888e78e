package guard

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// A kind of objects is lost if at least kindLoss of minKind or more objects are gone with requests that nobody answers any more.
const (
	minKind  = 20
	kindLoss = 0.9
)

// Generated reports whether no route of t comes from an object. It is true for an empty table.
func Generated(t *table.Table) bool {
	for r := range t.Routes().All() {
		if !routeid.Generated(r.ID) {
			return false
		}
	}
	return true
}

// measurement is the result of comparing two tables, which takes about 100 ms for 100,000 routes that all differ.
type measurement struct {
	before, after []*table.Block
	difference    difference
}

// difference compares the base with another table, or returns the previous comparison of the same two. The caller holds mu.
func (g *Guard) difference(after *table.Table) *difference {
	was, is := g.base.Routes().Blocks(), after.Routes().Blocks()
	if g.memo.before == nil || !slices.Equal(g.memo.before, was) || !slices.Equal(g.memo.after, is) {
		g.memo = measurement{was, is, g.compare(after)}
	}
	return &g.memo.difference
}

// compare compares the base with another table. It costs as much as the changed blocks, except that the first change of what is
// answered counts the base.
func (g *Guard) compare(after *table.Table) difference {
	t := tally{reader: g.reader}
	t.read(g.base, after)
	if g.census == nil && (len(t.deltas.requests) > 0 || g.cfg.Namespaces && len(t.removed)+len(t.added) > 0) {
		g.census = g.reader.census(g.base)
	}
	var d difference
	if g.census != nil {
		d = t.difference(g.census)
	}
	if t.hosts { // otherwise the hosts are equal, and comparing them would cost more than everything above
		d.hosts.gone, d.hosts.come = table.HostChanges(g.base, after)
	}
	if g.cfg.Namespaces && g.census != nil {
		d.byID(&t, g.census)
	}
	return d
}

// finding is what an inspection finds. The zero value is a table that is fine.
type finding struct {
	reason Code
	detail string
	// returning means that only the hold makes the table suspicious: it lacks less than the limits, but not everything that the
	// hold keeps is back.
	returning bool
}

// inspect returns the first reason why candidate is suspicious compared with the base. The caller holds mu.
func (g *Guard) inspect(candidate *table.Table) finding {
	served := g.base
	if served != nil && served.Equal(candidate) {
		return finding{} // this includes an empty one that an operator has accepted
	}
	if candidate.Len() == 0 {
		return finding{reason: Empty, detail: "the table has no route"}
	}
	if served == nil || served.Len() == 0 {
		return finding{}
	}
	if Generated(candidate) && !Generated(served) {
		return finding{reason: OnlyGenerated, detail: fmt.Sprintf("all %d routes are generated; %d are served", candidate.Len(), served.Len())}
	}
	if code, detail := g.inspectLoss(candidate); code != "" {
		return finding{reason: code, detail: detail}
	}
	if past(g.cfg.MaxRoutes, served.Len(), candidate.Len()) {
		return finding{reason: TooManyRoutes, detail: fmt.Sprintf("%d routes, limit %d; %d are served", candidate.Len(), g.cfg.MaxRoutes, served.Len())}
	}
	if past(g.cfg.MaxBytes, served.Bytes(), candidate.Bytes()) {
		return finding{reason: TooLarge, detail: fmt.Sprintf("%d bytes, limit %d; %d are served", candidate.Bytes(), g.cfg.MaxBytes, served.Bytes())}
	}
	return g.unreturned(candidate)
}

// inspectLoss applies the rules about losses.
func (g *Guard) inspectLoss(candidate *table.Table) (Code, string) {
	d, limit := g.difference(candidate), g.cfg.MaxLoss
	if !g.keeping.IsZero() && limit < 1 && d.lostObjects() > 1 {
		limit = min(limit, ReturnTolerance)
	}
	share := over(limit)
	if d.own {
		share = func(count) bool { return false }
	}
	if detail := tooMuch(g, &g.requests, d.requests, func() int { return len(g.census.requests) }, share); detail.is {
		return RoutesLost, detail.of("pairs of host and path", "are gone", limit)
	}
	if detail := tooMuch(g, &g.hosts, d.hosts, func() int { return len(g.base.Hosts()) }, share); detail.is {
		return HostsLost, detail.of("hosts", "are gone", limit)
	}
	if g.cfg.MaxLoss < 1 {
		for k := range kinds {
			if n := tooMuch(g, &g.objects[k], d.objects[k], func() int { return len(g.census.objects[k]) }, mostOfAKind); n.is {
				return KindLost, n.of(k.String(), "are gone", kindLoss)
			}
		}
	}
	if g.cfg.Namespaces {
		if lost := g.lostNamespaces(g.base, d.ids); len(lost) > 0 {
			return NamespaceLost, describeLost(lost)
		}
	}
	if lost := g.backends.since(d.backends, 0); lost.missing >= minBackends {
		limit := g.cfg.MaxBackendLoss
		if !g.keeping.IsZero() && limit < 1 {
			limit = min(limit, ReturnTolerance)
		}
		if n := tooMuch(g, &g.backends, d.backends, func() int { return g.census.backends }, over(limit)); n.is {
			return BackendsLost, n.of("pairs of host and path with endpoints", "lost all endpoints", limit)
		}
	}
	return "", ""
}

// over returns the rule of a share. A share of 1 turns it off.
func over(share float64) func(count) bool {
	return func(c count) bool { return share < 1 && c.beyond(share) }
}

func mostOfAKind(c count) bool {
	return c.all >= minKind && float64(c.missing) >= kindLoss*float64(c.all)
}

// excess is a count, and whether it breaks a rule.
type excess struct {
	count
	is     bool
	recent string // what the count is about, if it is not the served table
}

// of returns a sentence.
func (e excess) of(what, verb string, limit float64) string {
	return fmt.Sprintf("%d of %d %s%s %s (%.1f %%, limit %.1f %%)", e.missing, e.all, what, e.recent, verb,
		100*float64(e.missing)/float64(e.all), 100*limit)
}

// tooMuch applies a rule to what is missing of the served members, of those served within the window, and of those that existed
// when the window began. size returns how many are served.
func tooMuch[K comparable](g *Guard, w *window[K], c change[K], size func() int, broken func(count) bool) excess {
	if len(c.gone) == 0 {
		return excess{}
	}
	n := size()
	if w.returns(c, n) {
		return excess{}
	}
	if step := (count{len(c.gone), n}); broken(step) {
		return excess{count: step, is: true}
	}
	if recent := w.since(c, n); broken(recent) {
		return excess{count: recent, is: true, recent: " of the last " + g.cfg.Window.String()}
	}
	if older := w.older(c, n); broken(older) {
		return excess{count: older, is: true, recent: " that are older than " + g.cfg.Window.String()}
	}
	return excess{}
}

// follow records which table is served: a new one, if the last judgement passed it. The caller holds mu.
func (g *Guard) follow(served *table.Table) {
	before := g.base
	switch {
	case served == nil || before != nil && before.Equal(served):
		return
	case before == nil:
		g.restart(served)
		return
	}
	d := g.difference(served)
	g.base = served
	if g.namespaces != nil {
		g.namespaces.apply(d.ids)
	}
	if len(d.hosts.gone)+len(d.hosts.come) > 0 {
		g.hosts.apply(d.hosts, len(before.Hosts()), g.judged)
	}
	if g.census == nil {
		return // nothing else has changed
	}
	g.requests.apply(d.requests, len(g.census.requests), g.judged)
	g.backends.apply(d.backends, g.census.backends, g.judged)
	for k := range kinds {
		g.objects[k].apply(d.objects[k], len(g.census.objects[k]), g.judged)
	}
	g.ids.apply(d.ids, before.Len(), g.judged)
	g.census.apply(&d.counts)
}

// restart makes later tables be compared with this table only; nil means the table served at the next judgement. The caller holds
// mu.
func (g *Guard) restart(served *table.Table) {
	g.base, g.census, g.namespaces, g.memo = served, nil, nil, measurement{}
	for _, w := range g.windows() {
		w.reset()
	}
}

// past reports whether the step from one number to the other crosses the ceiling.
func past(ceiling, from, to int) bool {
	return ceiling > 0 && to > ceiling && from <= ceiling
}
