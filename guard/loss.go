package guard

import (
	"maps"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Loss is what a table would lose of the served one.
type Loss struct {
	// Reason and Detail are why the table is suspicious; empty if it is fine.
	Reason Code
	Detail string
	// Share is the share of the served requests that are lost, or lost their endpoints.
	Share float64
	// Grows means that the table is past a ceiling.
	Grows bool

	reader   reader
	answered func(q member) bool // by the other table; nil if there is none to compare with
	requests map[member]struct{} // lost, or without endpoints

	missing, drained int // see Missing
}

// Any reports whether the table loses any request of the served one, or leaves it without endpoints, suspicious or not.
func (l *Loss) Any() bool { return len(l.requests) > 0 }

// Of reports whether a route of the served table answers a request that the other table loses, or leaves without endpoints.
func (l *Loss) Of(r *table.Route) (found bool) {
	if !answers(r) {
		return false
	}
	l.reader.requests(r, func(q member) {
		_, lost := l.requests[q]
		found = found || lost
	})
	return found
}

// Unanswered reports whether the other table leaves a request of an earlier route unanswered, until the next [Guard.Judge].
func (l *Loss) Unanswered(r *table.Route) (unanswered bool) {
	if l.answered == nil || !answers(r) {
		return false
	}
	l.reader.requests(r, func(q member) { unanswered = unanswered || !l.answered(q) })
	return unanswered
}

// Missing counts what a table still lacks of what was held for reasons of these kinds, except what its object gave up.
func (l *Loss) Missing(kinds []Code) (n int) {
	if slices.ContainsFunc(kinds, Code.Loses) {
		n = l.missing
	}
	if slices.Contains(kinds, BackendsLost) {
		n += l.drained
	}
	return n
}

// Held is what the caller of [Guard.Judge] holds back because of a loss. The zero value means nothing.
type Held struct {
	// Since is when that began. Until it ends, losses within the window before it count.
	Since time.Time
	// Ongoing means that objects are kept because of an accident within the window: any further lost object is suspicious.
	Ongoing bool
	// Aged means that the served table is older than a hold: only a loss of more than half is suspicious.
	Aged bool
}

// Judge compares a table with the served one, which may be nil. Call it for every completed read, even without a change.
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
	if g.base == nil {
		return l
	}
	l.answered = func(q member) bool { return g.counted()[requests][q] > 0 }
	if g.base.Equal(other) {
		return l
	}
	l.Grows = past(g.cfg.MaxRoutes, g.base.Len(), other.Len()) || past(g.cfg.MaxBytes, g.base.Bytes(), other.Bytes())
	d := g.difference(other)
	l.answered = func(q member) bool { return g.counted()[requests][q]+d.counts[requests][q] > 0 }
	for _, k := range []aspect{requests, backends} {
		for _, q := range d.changes[k].gone {
			l.requests[q] = struct{}{}
		}
	}
	if n := g.size(requests); n > 0 {
		l.Share = float64(len(l.requests)) / float64(n)
	}
	if g.cfg.MaxLoss < 1 {
		l.missing = d.missing
	}
	if g.cfg.MaxBackendLoss < 1 {
		l.drained = len(d.changes[backends].gone)
	}
	return l
}

// Forgive forgets earlier losses, because they were accepted or their time has passed.
func (g *Guard) Forgive(served *table.Table) {
	g.base, g.census, g.memo = served, nil, nil
	clear(g.windows)
}

// returnTolerance is the share of the older members that a return to an earlier state may lack: the cluster keeps changing.
const returnTolerance = 0.05

// window remembers which members were recently gained and lost. Its size depends on the changes, not on the tables.
type window struct {
	gained map[member]time.Time // members that did not exist when the window began
	lost   map[member]loss      // members that no longer exist
}

type loss struct {
	at    time.Time
	young bool // it was gained within the window
}

type count struct{ missing, all int }

func (c count) beyond(share float64) bool {
	return c.all > 0 && float64(c.missing) > share*float64(c.all)
}

// since counts everything that was served within the window, and how much of it is missing after the change.
func (w *window) since(c *change, size int) count {
	missing := len(w.lost) + len(c.gone)
	for _, m := range c.come {
		if _, back := w.lost[m]; back {
			missing--
		}
	}
	return count{missing, size + len(w.lost)}
}

// older does so for the members that existed when the window began. Later additions do not make up for them.
func (w *window) older(c *change, size int) count {
	young := 0
	for _, l := range w.lost {
		if l.young {
			young++
		}
	}
	missing := len(w.lost) - young
	for _, m := range c.come {
		if l, back := w.lost[m]; back && !l.young {
			missing--
		}
	}
	for _, m := range c.gone {
		if _, young := w.gained[m]; !young {
			missing++
		}
	}
	return count{missing, size - len(w.gained) + len(w.lost) - young}
}

// returns reports whether the change undoes additions within the window: hardly any of the older members is missing.
func (w *window) returns(c *change, size int) bool {
	old := w.older(c, size)
	return old.all > 0 && !old.beyond(returnTolerance)
}

// apply records that the change was served. Members that were added within the window and disappear in a return are not lost.
func (w *window) apply(c *change, size int, at time.Time) {
	if len(c.gone) > 0 && w.returns(c, size) {
		c = w.forgetYoung(c)
	}
	for _, m := range c.left {
		delete(w.gained, m)
		delete(w.lost, m)
	}
	for _, m := range c.gone {
		_, young := w.gained[m]
		delete(w.gained, m)
		w.lost[m] = loss{at, young}
	}
	for _, m := range c.come {
		if lost, back := w.lost[m]; !back || lost.young {
			w.gained[m] = at
		}
		delete(w.lost, m)
	}
}

func (w *window) forgetYoung(c *change) *change {
	maps.DeleteFunc(w.lost, func(_ member, l loss) bool { return l.young })
	rest := *c
	rest.gone = nil
	for _, m := range c.gone {
		if _, young := w.gained[m]; young {
			delete(w.gained, m)
		} else {
			rest.gone = append(rest.gone, m)
		}
	}
	return &rest
}

// expire forgets what is older than the span, except what was in the window when the hold began.
func (w *window) expire(span time.Duration, now, since time.Time) {
	old := func(at time.Time) bool {
		return now.Sub(at) >= span && (!at.Before(since) || since.Sub(at) >= span)
	}
	maps.DeleteFunc(w.gained, func(_ member, at time.Time) bool { return old(at) })
	maps.DeleteFunc(w.lost, func(_ member, l loss) bool { return old(l.at) })
}
