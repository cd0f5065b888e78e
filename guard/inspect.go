package guard

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// onlyGenerated reports whether no route of t comes from an object. It holds for an empty table.
func onlyGenerated(t *table.Table) bool {
	for r := range t.Routes().All() {
		if !routeid.Generated(r.ID) {
			return false
		}
	}
	return true
}

// measurement is the result of comparing two tables, which takes some 10 ms at 100,000 routes that all differ.
type measurement struct {
	before, after []*table.Block
	difference    difference
}

// difference compares two tables, or returns the last comparison if it was of the same two. The caller holds mu.
func (g *Guard) difference(before, after *table.Table) *difference {
	was, is := before.Routes().Blocks(), after.Routes().Blocks()
	if g.memo.before == nil || !slices.Equal(g.memo.before, was) || !slices.Equal(g.memo.after, is) {
		g.memo = measurement{was, is, compareTables(before, after)}
	}
	return &g.memo.difference
}

// inspect returns the first reason for which candidate is suspicious beside served, and "" if it is fine. The caller
// holds mu.
func (g *Guard) inspect(served, candidate *table.Table) (Code, string) {
	if served != nil && served.Equal(candidate) {
		return "", "" // also an empty one that an operator has accepted
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

// inspectLoss applies the rules about what the candidate lacks.
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

// backendsOf returns how many routes of the table that is served have endpoints. They are counted when that is first asked
// for, and then kept up to date by what changes. The caller holds mu.
func (g *Guard) backendsOf(served *table.Table) int {
	if g.backendCount < 0 {
		g.backendCount = countBackends(served)
	}
	return g.backendCount
}

// tooMuch says in a sentence that more of the served names are gone than the share, or returns "" if not. Size is how
// many are served.
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

// follow notes which table is served: another one than at the last judgement, if that one let it pass. The caller holds
// mu.
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

// restart makes the table all that later ones are compared with; nil is the one that is served at the next judgement. The
// caller holds mu.
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
