package guard

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// onlyGenerated reports whether no route of t comes from an object. It is true for an empty table.
func onlyGenerated(t *table.Table) bool {
	for r := range t.Routes().All() {
		if !routeid.Generated(r.ID) {
			return false
		}
	}
	return true
}

// measurement is the result of comparing two tables, which takes about 10 ms for 100,000 routes that all differ.
type measurement struct {
	before, after []*table.Block
	difference    difference
}

// difference compares two tables, or returns the previous comparison of the same two. The caller holds mu.
func (g *Guard) difference(before, after *table.Table) *difference {
	was, is := before.Routes().Blocks(), after.Routes().Blocks()
	if g.memo.before == nil || !slices.Equal(g.memo.before, was) || !slices.Equal(g.memo.after, is) {
		g.memo = measurement{was, is, compareTables(before, after)}
	}
	return &g.memo.difference
}

// inspect returns the first reason why candidate is suspicious compared with served, or "" if it is fine. The caller holds mu.
func (g *Guard) inspect(served, candidate *table.Table) (Code, string) {
	if served != nil && served.Equal(candidate) {
		return "", "" // this includes an empty one that an operator has accepted
	}
	if candidate.Len() == 0 {
		return Empty, "the table has no route"
	}
	if served == nil || served.Len() == 0 {
		return "", ""
	}
	if onlyGenerated(candidate) && !onlyGenerated(served) {
		return OnlyGenerated, fmt.Sprintf("all %d routes are generated; %d are served", candidate.Len(), served.Len())
	}
	if code, detail := g.inspectLoss(served, candidate); code != "" {
		return code, detail
	}
	if past(g.cfg.MaxRoutes, served.Len(), candidate.Len()) {
		return TooManyRoutes, fmt.Sprintf("%d routes, limit %d; %d are served", candidate.Len(), g.cfg.MaxRoutes, served.Len())
	}
	if past(g.cfg.MaxBytes, served.Bytes(), candidate.Bytes()) {
		return TooLarge, fmt.Sprintf("%d bytes, limit %d; %d are served", candidate.Bytes(), g.cfg.MaxBytes, served.Bytes())
	}
	return "", ""
}

// inspectLoss applies the rules about losses.
func (g *Guard) inspectLoss(served, candidate *table.Table) (Code, string) {
	d := g.difference(served, candidate)
	if detail := g.tooMuch("routes", d.routes, &g.routes, served.Len(), g.cfg.MaxLoss); detail != "" {
		return RoutesLost, detail
	}
	if len(d.hosts.gone) > 0 {
		if detail := g.tooMuch("hosts", d.hosts, &g.hosts, len(served.Hosts()), g.cfg.MaxLoss); detail != "" {
			return HostsLost, detail
		}
	}
	if g.cfg.Namespaces {
		if detail := g.lostNamespaces(served, d.routes); detail != "" {
			return NamespaceLost, detail
		}
	}
	if lost := g.backends.since(d.backends, 0); lost.missing >= minBackends {
		size := g.backendsOf(served)
		if detail := g.tooMuch("routes with endpoints", d.backends, &g.backends, size, g.cfg.MaxBackendLoss); detail != "" {
			return BackendsLost, detail
		}
	}
	return "", ""
}

// backendsOf returns how many routes of the served table have endpoints. It counts them on first use, and later updates the count
// from the changes. The caller holds mu.
func (g *Guard) backendsOf(served *table.Table) int {
	if g.backendCount < 0 {
		g.backendCount = countBackends(served)
	}
	return g.backendCount
}

// tooMuch returns a sentence if more of the served names than the share are missing, or else "". size is how many names are
// served.
func (g *Guard) tooMuch(what string, c change, w *window, size int, share float64) string {
	if len(c.gone) == 0 || share >= 1 {
		return ""
	}
	step, recent := count{len(c.gone), size}, w.since(c, size)
	if !step.beyond(share) && !recent.beyond(share) || w.returns(c, size) {
		return ""
	}
	n, of := step, what
	if !step.beyond(share) {
		n, of = recent, what+" of the last "+w.span.String()
	}
	verb := "are gone"
	if w == &g.backends {
		verb = "lost all endpoints"
	}
	return fmt.Sprintf("%d of %d %s %s (%.1f %%, limit %.1f %%)", n.missing, n.all, of, verb,
		100*float64(n.missing)/float64(n.all), 100*share)
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
	g.base = served
	d := g.difference(before, served)
	if g.namespaces != nil {
		g.namespaces.apply(d.routes)
	}
	g.routes.apply(d.routes, before.Len(), g.judged)
	if len(d.hosts.gone)+len(d.hosts.come) > 0 {
		g.hosts.apply(d.hosts, len(before.Hosts()), g.judged)
	}
	if len(d.backends.gone) > 0 {
		g.backendsOf(before)
	}
	g.backends.apply(d.backends, g.backendCount, g.judged)
	if g.backendCount >= 0 {
		g.backendCount += d.endpoints
	}
}

// restart makes later tables be compared with this table only; nil means the table served at the next judgement. The caller holds
// mu.
func (g *Guard) restart(served *table.Table) {
	g.base, g.backendCount, g.namespaces = served, -1, nil
	g.routes.reset()
	g.hosts.reset()
	g.backends.reset()
}

// past reports whether the step from one number to the other crosses the ceiling.
func past(ceiling, from, to int) bool {
	return ceiling > 0 && to > ceiling && from <= ceiling
}
