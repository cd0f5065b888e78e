package guard

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/table"
)

// hold is a hold in progress.
type hold struct {
	table   *table.Table // the newest held one; nil after Resume until a judgement
	verdict Verdict      // on it
	polls   int
	since   time.Time
	kinds   map[Code]time.Time // when the hold first had a reason of a kind

	// lost is the reason for which the hold keeps requests, and drained is set if it keeps endpoints: it ends when all of these
	// are back. Empty and OnlyGenerated stay the reason of a hold that had them once.
	lost    Code
	drained bool

	least    int       // fewest requests that a judgement found missing
	returned time.Time // when that number last fell; zero if it never did
}

// endless reports whether time does not release a table that is suspicious for a reason.
func endless(c Code) bool { return c == Empty || c == OnlyGenerated }

// loses reports whether the reason is that requests are no longer answered.
func (c Code) loses() bool {
	switch c {
	case Empty, OnlyGenerated, RoutesLost, HostsLost, KindLost, NamespaceLost:
		return true
	default:
		return false
	}
}

// notes records a reason, and returns the one that the hold shows for it.
func (h *hold) notes(c Code) Code {
	if c == BackendsLost {
		h.drained = true
	}
	if !c.loses() {
		return c
	}
	if !endless(h.lost) || endless(c) {
		h.lost = c
	}
	return h.lost
}

// unreturned returns a finding if a hold keeps something that has not come back with the candidate. The caller holds mu.
func (g *Guard) unreturned(candidate *table.Table) finding {
	requests, endpoints := g.missing(candidate)
	switch {
	case requests > 0:
		return finding{g.hold.lost, fmt.Sprintf("%d pairs of host and path are not back yet", requests), true}
	case endpoints > 0:
		return finding{BackendsLost, fmt.Sprintf("%d pairs of host and path have no endpoints yet", endpoints), true}
	default:
		return finding{}
	}
}

// missing counts what the hold keeps and the candidate lacks: requests that nobody answers, without those that their object no
// longer wants; and requests without endpoints. It is nothing without a hold. The caller holds mu.
func (g *Guard) missing(candidate *table.Table) (requests, endpoints int) {
	h := g.hold
	if h == nil || g.base == nil {
		return 0, 0
	}
	if h.lost != "" && g.cfg.MaxLoss < 1 {
		requests = g.difference(candidate).missing
	}
	if h.lost == NamespaceLost {
		requests = max(requests, g.difference(candidate).missingRoutes)
	}
	if h.drained && g.cfg.MaxBackendLoss < 1 {
		endpoints = len(g.difference(candidate).all(backends).gone)
	}
	return requests, endpoints
}

// keep begins or continues a hold. It returns whether time releases the candidate now. The caller holds mu.
func (g *Guard) keep(candidate *table.Table, f finding, now time.Time) (release bool) {
	h := g.hold
	if h == nil {
		h = &hold{since: now, kinds: make(map[Code]time.Time)}
		g.hold = h
	}
	shown := h.notes(f.reason)
	switch {
	case shown == f.reason || f.returning:
	case shown == Empty:
		f.detail += "; before, there was no route"
	case shown == OnlyGenerated:
		f.detail += "; before, only generated routes were left"
	}
	if _, known := h.kinds[shown.kind()]; !known {
		h.kinds[shown.kind()] = now
	}
	requests, endpoints := g.missing(candidate)
	switch missing := requests + endpoints; {
	case h.polls == 0: // the first judgement of this process
		h.least = missing
	case missing < h.least:
		h.least, h.returned = missing, now
	}
	h.table = candidate
	h.polls++
	h.verdict = Verdict{Reason: shown, Detail: f.detail, Since: h.since, ReleaseAt: g.releaseAt(f, shown, requests)}
	return h.polls >= 2 && !h.verdict.ReleaseAt.IsZero() && !now.Before(h.verdict.ReleaseAt)
}

// releaseAt returns when time releases a table that is held for a reason; zero for never. What returns sets the clock back, so that
// time does not publish a restore that is half done. The caller holds mu.
func (g *Guard) releaseAt(f finding, shown Code, lost int) time.Time {
	h := g.hold
	if g.cfg.Manual {
		return time.Time{}
	}
	if endless(h.lost) {
		within := f.returning || !f.reason.loses()
		if !within || lost > 0 && (count{lost, g.size(set{kind: requests})}).beyond(ReturnTolerance) {
			return time.Time{}
		}
	}
	from := h.kinds[shown.kind()]
	if h.returned.After(from) {
		from = h.returned
	}
	return from.Add(g.cfg.Hold)
}
