package guard

import (
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// clonePrefix begins the ids of copies that -clone-route makes of routes.
const clonePrefix = "clone_"

// generated reports whether the route exists without any object in the cluster that asked for it.
func generated(id string) bool {
	for strings.HasPrefix(id, clonePrefix) {
		id = id[len(clonePrefix):]
	}
	switch id {
	case "kube__healthz_up", "kube__healthz_down", "kube__redirect", "__oauth2_grant_callback":
		return true
	}
	return false
}

// onlyGenerated reports whether no route of t comes from an object. It holds for an empty table.
func onlyGenerated(t *table.Table) bool {
	for r := range t.Routes().All() {
		if !generated(r.ID) {
			return false
		}
	}
	return true
}

// measurement is the result of comparing two tables, which takes some 10 ms at 100,000 routes that all differ.
type measurement struct {
	served, candidate table.Digest
	reason            Code
	detail            string
}

// inspect returns the first reason for which candidate is suspicious beside served, and "" if it is fine. The caller
// holds mu.
func (g *Guard) inspect(served, candidate *table.Table) (Code, string) {
	if served != nil && served.Digest() == candidate.Digest() {
		return "", "" // also an empty one that an operator has accepted
	}
	if candidate.Len() == 0 {
		return Empty, "the table has no route"
	}
	if served == nil || served.Len() == 0 {
		return "", ""
	}
	if g.memo.served != served.Digest() || g.memo.candidate != candidate.Digest() {
		reason, detail := g.compare(served, candidate)
		g.memo = measurement{served: served.Digest(), candidate: candidate.Digest(), reason: reason, detail: detail}
	}
	return g.memo.reason, g.memo.detail
}

// compare applies the rules that need two tables with routes.
func (g *Guard) compare(served, candidate *table.Table) (Code, string) {
	if onlyGenerated(candidate) && !onlyGenerated(served) {
		return OnlyGenerated, fmt.Sprintf("all %d routes are generated; %d are served", candidate.Len(), served.Len())
	}
	gone, hostsGone := 0, false
	for was, now := range table.Changes(served.Routes(), candidate.Routes()) {
		if now == nil {
			gone++
		}
		hostsGone = hostsGone || was != nil && (now == nil || now.Hosts != was.Hosts)
	}
	if g.tooMuch(gone, served.Len()) {
		return RoutesLost, fmt.Sprintf("%d of %d routes are gone (%s)", gone, served.Len(), g.share(gone, served.Len()))
	}
	if hostsGone { // else none can be, and counting them costs more than all of the above
		hosts := served.Hosts()
		gone = missing(hosts, candidate.Hosts())
		if g.tooMuch(gone, len(hosts)) {
			return HostsLost, fmt.Sprintf("%d of %d hosts are gone (%s)", gone, len(hosts), g.share(gone, len(hosts)))
		}
	}
	if past(g.cfg.MaxRoutes, served.Len(), candidate.Len()) {
		return TooManyRoutes, fmt.Sprintf("%d routes, limit %d; %d are served", candidate.Len(), g.cfg.MaxRoutes, served.Len())
	}
	if past(g.cfg.MaxBytes, served.Bytes(), candidate.Bytes()) {
		return TooLarge, fmt.Sprintf("%d bytes, limit %d; %d are served", candidate.Bytes(), g.cfg.MaxBytes, served.Bytes())
	}
	return "", ""
}

// tooMuch reports whether more than MaxLoss of all are gone.
func (g *Guard) tooMuch(gone, all int) bool {
	return all > 0 && float64(gone) > g.cfg.MaxLoss*float64(all)
}

func (g *Guard) share(gone, all int) string {
	return fmt.Sprintf("%.1f %%, limit %.1f %%", 100*float64(gone)/float64(all), 100*g.cfg.MaxLoss)
}

// past reports whether the step from one number to the other crosses the ceiling.
func past(ceiling, from, to int) bool {
	return ceiling > 0 && to > ceiling && from <= ceiling
}

// missing returns how many entries of old are not in cur. Both are sorted and distinct.
func missing(old, cur []string) int {
	count, j := 0, 0
	for _, s := range old {
		for j < len(cur) && cur[j] < s {
			j++
		}
		if j == len(cur) || cur[j] != s {
			count++
		}
	}
	return count
}
