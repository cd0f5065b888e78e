package guard

import (
	"fmt"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

const (
	// minObjects must have lost requests for a share below smallCluster to be suspicious: teams delete a few at a time.
	minObjects = 20
	// smallCluster is the share that is suspicious whatever the number of objects.
	smallCluster = 0.5
)

// generated reports whether no route of t comes from an object. It is true for an empty table.
func generated(t *table.Table) bool {
	for r := range t.Routes().All() {
		if !routeid.Generated(r.ID) {
			return false
		}
	}
	return true
}

// inspect returns the first reason why candidate is suspicious, with a sentence about it; both are empty if it is fine.
func (g *Guard) inspect(candidate *table.Table) (reason Code, detail string) {
	served := g.base
	if served != nil && served.Equal(candidate) {
		return "", "" // this includes an empty one that an operator has accepted
	}
	if candidate.Len() == 0 {
		return Empty, "the table has no route"
	}
	if served == nil || served.Len() == 0 {
		return "", ""
	}
	if generated(candidate) && !generated(served) {
		return OnlyGenerated, fmt.Sprintf("all %d routes are generated; %d are served", candidate.Len(), served.Len())
	}
	if reason, detail = g.inspectLoss(candidate); reason != "" {
		return reason, detail
	}
	if past(g.cfg.MaxRoutes, served.Len(), candidate.Len()) {
		return TooManyRoutes, fmt.Sprintf("%d routes, limit %d; %d are served", candidate.Len(), g.cfg.MaxRoutes, served.Len())
	}
	if past(g.cfg.MaxBytes, served.Bytes(), candidate.Bytes()) {
		return TooLarge, fmt.Sprintf("%d bytes, limit %d; %d are served", candidate.Bytes(), g.cfg.MaxBytes, served.Bytes())
	}
	return "", ""
}

func (g *Guard) inspectLoss(candidate *table.Table) (reason Code, detail string) {
	d := g.difference(candidate)
	if lost := len(d.changes[ingresses].gone) + len(d.changes[routeGroups].gone); g.held.Ongoing && g.cfg.MaxLoss < 1 && lost > 0 {
		return RoutesLost, fmt.Sprintf("%d more objects lost all their routes while an accident is going on", lost)
	}
	limit, backendLimit := g.cfg.MaxLoss, g.cfg.MaxBackendLoss
	if g.held.Ongoing && backendLimit < 1 {
		backendLimit = min(backendLimit, returnTolerance)
	}
	share := func(c count) bool {
		many := c.beyond(limit) && !g.held.Aged && g.affected(d) >= minObjects
		return limit < 1 && !d.own && (many || c.beyond(max(limit, smallCluster)))
	}
	kindShare := func(c count) bool { return c.missing >= minObjects && share(c) }
	restShare := func(c count) bool { return limit < 1 && c.missing >= minObjects && c.beyond(limit) } // no object gave them up
	for _, rule := range []struct {
		code   Code
		aspect aspect
		broken func(count) bool
	}{
		{RoutesLost, requests, share}, {HostsLost, hosts, share}, {KindLost, ingresses, kindShare}, {KindLost, routeGroups, kindShare},
		{RoutesLost, rests, restShare},
	} {
		if detail := g.tooMuch(d, rule.aspect, rule.broken, "are missing", limit); detail != "" {
			return rule.code, detail
		}
	}
	if g.window(backends).since(&d.changes[backends], 0).missing >= minBackends {
		broken := func(c count) bool { return backendLimit < 1 && c.beyond(backendLimit) }
		if detail := g.tooMuch(d, backends, broken, "lost all endpoints", backendLimit); detail != "" {
			return BackendsLost, detail
		}
	}
	return "", ""
}

func (g *Guard) affected(d *difference) int {
	gone := 0
	for _, k := range []aspect{ingresses, routeGroups} {
		gone += g.window(k).since(&d.changes[k], 0).missing
	}
	return max(gone, len(d.losers))
}

// tooMuch applies a rule to what is missing of the served members, of those served within the window, and of the older ones.
func (g *Guard) tooMuch(d *difference, k aspect, broken func(count) bool, verb string, limit float64) string {
	c := &d.changes[k]
	if len(c.gone) == 0 {
		return ""
	}
	w, size := g.window(k), g.size(k)
	if w.returns(c, size) {
		return ""
	}
	for _, missing := range []struct {
		count
		of string
	}{
		{count{len(c.gone), size}, ""},
		{w.since(c, size), " of the last " + g.cfg.Window.String()},
		{w.older(c, size), " that are older than " + g.cfg.Window.String()},
	} {
		if broken(missing.count) {
			return fmt.Sprintf("%d of %d %s%s %s (%.1f %%, limit %.1f %%)", missing.missing, missing.all, k, missing.of, verb,
				100*float64(missing.missing)/float64(missing.all), 100*limit)
		}
	}
	return ""
}

func (g *Guard) size(k aspect) int {
	if g.census == nil {
		return 0
	}
	return len(g.census[k])
}

func (g *Guard) window(k aspect) *window {
	w := g.windows[k]
	if w == nil {
		w = &window{gained: make(map[member]time.Time), lost: make(map[member]loss)}
		g.windows[k] = w
	}
	return w
}

// follow records which table is served: a new one, if the last judgement passed it.
func (g *Guard) follow(served *table.Table) {
	switch {
	case served == nil || g.base != nil && g.base.Equal(served):
		return
	case g.base == nil:
		g.Forgive(served)
		return
	}
	d := g.difference(served)
	g.base = served
	for k := range d.changes {
		g.window(aspect(k)).apply(&d.changes[k], g.size(aspect(k)), g.judged)
	}
	if g.census != nil {
		g.census.apply(&d.counts)
	}
}

// minLostHosts is how many hosts count as a loss for [Guard.Lost]: teams delete one or two at a time.
const minLostHosts = 3

// Lost returns how many hosts were lost within the window in tables that passed, of how many, and since when.
func (g *Guard) Lost(served *table.Table) (lost, all int, since time.Time) {
	g.follow(served)
	for _, l := range g.window(hosts).lost {
		if l.young {
			continue
		}
		if lost++; since.IsZero() || l.at.Before(since) {
			since = l.at
		}
	}
	if lost < minLostHosts {
		return 0, 0, time.Time{}
	}
	return lost, g.size(hosts) + lost, since
}

func past(ceiling, from, to int) bool {
	return ceiling > 0 && to > ceiling && from <= ceiling
}

// minBackends must have lost their endpoints: test environments scale half of theirs to zero at night.
const minBackends = 20

// backend is where a route finally sends a request, as far as its text shows.
type backend int

const (
	otherBackend     backend = iota // <loopback>, <dynamic>, <forward>
	shuntBackend                    // the proxy itself answers: 502 for a service without endpoints
	endpointsBackend                // one or more addresses
)

// backendOf reads the end of the text and does not parse it, because a table has more than 100,000 routes.
func backendOf(r *table.Route) backend {
	const space = " \t\r\n"
	text := strings.TrimRight(strings.TrimSuffix(r.Text, ";"), space)
	if endsQuoted(text) {
		return endpointsBackend
	}
	list, ok := strings.CutSuffix(text, ">")
	if !ok {
		return otherBackend
	}
	list = strings.TrimRight(list, space)
	switch {
	case endsQuoted(list):
		return endpointsBackend
	case strings.HasSuffix(list, "shunt"):
		return shuntBackend
	default:
		return otherBackend
	}
}

func endsQuoted(text string) bool {
	return strings.HasSuffix(text, `"`) || strings.HasSuffix(text, "`")
}
