package validate

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// Live: a new or removed endpoint is in every table after the next read, whatever is held, and so is every object that a server which
// keeps objects need not keep. Routes whose services lost all endpoints may keep them while the server reports that it keeps backends,
// but for addresses that belong to others by then.
func Live(h *history.History) []Violation { return alone(h, (*Index).live) }

func (x *Index) live() []Violation {
	all := x.fromFindings(NameLive, func(_ *sighting, f finding) bool { return f.late() })
	for name, m := range x.members {
		if m.Kind == history.Server {
			all = append(all, x.liveOf(name)...)
		}
	}
	return all
}

// liveOf judges the last answer of a server with each table, by what the server must have read by then.
func (x *Index) liveOf(name string) []Violation {
	lasts := make(map[*sighting]int)
	quiet := make(map[*sighting]int)       // the last one during a hold at a time when the server has certainly read the last change
	known := make(map[[2]string]*sighting) // by digest and zone: the newest one served by this server
	byKey := make(map[string]*sighting)
	for _, s := range x.seen() {
		byKey[fmt.Sprint(s.digest, s.revision, s.zone, s.canary)] = s
	}
	said := make(map[string]wireState)
	for _, i := range x.answersOf(name, func(a *history.Answer) string { return a.Server }) {
		a := &x.h.Answers[i]
		digest, revision, ok := tag(a)
		if !has(a) || !ok || digest != a.Digest || a.Form == "event" {
			continue
		}
		zone := x.zone(a.Client, a.Server)
		s := byKey[fmt.Sprint(digest, revision, zone, x.onCanary(a))]
		if s == nil {
			continue
		}
		// After a 304 a client may keep the newer table of another replica. A table that this server sent is its own.
		if a.Outcome == history.Applied {
			known[[2]string{digest, zone}] = s
		} else if s = known[[2]string{digest, zone}]; s == nil {
			continue
		}
		if last, ok := lasts[s]; !ok || x.h.Answers[last].Begin < a.Begin {
			lasts[s] = i
			said[s.digest+s.zone] = wireState{a.State}
		}
		if e := x.epochAt(a.Begin); a.State == api.StateHeld || a.State == api.StateBackendsHeld {
			if known := x.mustKnow(name, e, a.Begin); known.low > 0 && known.low >= e.newest(a.End) {
				quiet[s] = i
			}
		}
	}
	var all []Violation
	for s, i := range quiet {
		a, e := &x.h.Answers[i], x.epochAt(x.h.Answers[i].Begin)
		if f := x.heldBack(s, name, e, a); f != nil && !x.onlyTables(name, a) {
			all = append(all, Violation{NameLive, a.End, a.Client, i, fmt.Sprintf(
				"table %s of revision %d from %s (%s), which has read everything: %s", short(s.digest), s.revision, name, a.State, f)})
		}
	}
	for s, i := range lasts {
		a := &x.h.Answers[i]
		for _, e := range x.epochs {
			if e.from > a.Begin || e != x.epochAt(a.Begin) || x.onlyTables(name, a) {
				continue
			}
			w := x.windowOf(s, name, e)
			lo := x.mustKnow(name, e, a.Begin).backends
			if lo <= w.backends {
				continue // the revision of the table shows as much
			}
			w.backends, w.hi = lo, e.newest(a.End)
			w.intent = min(w.intent, lo)
			w.kept = said[s.digest+s.zone].keeps()
			for _, f := range x.judge(s, e, e, w) {
				if f.late() {
					all = append(all, Violation{NameLive, a.End, a.Client, i, fmt.Sprintf(
						"table %s of revision %d from %s (%s), which has read everything up to %d: %s", short(s.digest), s.revision, name, a.State, lo, f)})
					break
				}
			}
		}
	}
	return all
}

// heldBack returns an object that is not served as of the last change although the server need not keep it; nil if there is none.
func (x *Index) heldBack(s *sighting, name string, e *epoch, a *history.Answer) *finding {
	w := x.windowOf(s, name, e)
	w.hi = e.newest(a.End)
	if w.held = true; w.hi <= s.revision || len(x.judge(s, e, e, w)) > 0 {
		return nil // the table is that new; or others find more than that
	}
	if found := x.delayed(s, name, e, w, w.hi, a.End); len(found) > 0 {
		return &found[0]
	}
	return nil
}

type wireState struct{ state string }

func (s wireState) keeps() bool { return s.state == api.StateBackendsHeld }

// epochAt returns the epoch of a time.
func (x *Index) epochAt(at time.Duration) *epoch {
	now := x.epochs[0]
	for _, e := range x.epochs {
		if e.from <= at {
			now = e
		}
	}
	return now
}

// late reports whether Live is about the finding.
func (f finding) late() bool { return f.delayed || f.fault == taken || f.fault == stale && f.backends }

// mustKnow returns the lowest revisions that the lists of a server certainly have at a time; 0 if that is not certain.
func (x *Index) mustKnow(name string, e *epoch, at time.Duration) read {
	if x.members[name].Transport == "watch" {
		until := at - x.processing
		if until < e.from || x.troubled(name, until, at) || !x.hasRead(name, until) {
			return read{}
		}
		return read{low: e.newest(until), backends: e.newest(until)}
	}
	for _, r := range slices.Backward(x.reads[name]) {
		if r.to+x.processing <= at && r.from >= e.from && !x.troubled(name, r.from, r.to+x.processing) {
			return *r
		}
	}
	return read{}
}

func (x *Index) hasRead(name string, until time.Duration) bool {
	return slices.ContainsFunc(x.h.Reads, func(r history.Read) bool { return r.Member == name && r.Whole && r.At < until })
}

// onlyTables reports whether a server knows only tables: it has served a last-known-good file since its start, and holds back
// what it has read.
func (x *Index) onlyTables(name string, a *history.Answer) bool {
	if a.State == "" {
		return false
	}
	started := time.Duration(0)
	for _, e := range x.h.Events {
		if e.Member == name && e.Name == "started" && e.At <= a.Begin {
			started = e.At
		}
	}
	return !slices.ContainsFunc(x.h.Answers, func(b history.Answer) bool {
		return b.Server == name && has(&b) && b.State == "" && b.Begin >= started && b.End <= a.Begin
	})
}
