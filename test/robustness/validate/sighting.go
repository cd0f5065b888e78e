package validate

import (
	"slices"

	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// sighting is a table with one revision, for one zone, however often it was received.
type sighting struct {
	digest   string
	revision uint64
	zone     string

	first   int // the first answer that showed it
	last    time.Duration
	origins []string
	servers []string
	held    bool // some answer reported held intent or backends
	kept    bool // some answer reported held backends
	told    bool // some answer reported the state

	intentHeld bool // some answer reported held intent
	stale      bool // some answer reported a table from before a restart, which says nothing of holds
	canary     bool // it was the table of the canary
}

// unknownState is the state of an event that came without one, because the stream broke.
const unknownState = "unknown"

// seen returns the sightings, ordered by first answer.
func (x *Index) seen() []*sighting {
	if x.sightings != nil {
		return x.sightings
	}
	type key struct {
		digest   string
		revision uint64
		zone     string
		canary   bool
	}
	known := make(map[key]*sighting)
	for i := range x.h.Answers {
		a := &x.h.Answers[i]
		digest, revision, ok := tag(a)
		if _, known := x.h.Tables[a.Digest]; !known || !has(a) || ok && digest != a.Digest {
			continue
		}
		k := key{a.Digest, revision, x.zone(a.Client, a.Server), x.onCanary(a)}
		s := known[k]
		if s == nil {
			s = &sighting{digest: k.digest, revision: k.revision, zone: k.zone, canary: k.canary, first: i}
			known[k] = s
			x.sightings = append(x.sightings, s)
		}
		s.last = max(s.last, a.End)
		if !slices.Contains(s.servers, a.Server) {
			s.servers = append(s.servers, a.Server)
			s.origins = append(s.origins, x.origins[a.Server]...)
			slices.Sort(s.origins)
			s.origins = slices.Compact(s.origins)
		}
		s.told = s.told || a.State != unknownState
		s.held = s.held || a.State == api.StateHeld || a.State == api.StateBackendsHeld
		s.kept = s.kept || a.State == api.StateBackendsHeld
		s.intentHeld = s.intentHeld || a.State == api.StateHeld
		s.stale = s.stale || a.State == api.StateStale
	}
	for _, s := range x.sightings {
		s.held, s.kept = s.held || !s.told, s.kept || !s.told
	}
	return x.sightings
}

// window is the range of revisions that the halves of a table may have.
type window struct {
	intent, backends uint64   // lower limits
	hi               uint64   // upper limit
	intentHi         uint64   // upper limit for intent from before a restore; else 0
	kept             bool     // services that lost all endpoints may have the previous ones
	held             bool     // the intent is held, and perhaps backends as well: the state of an answer does not say
	keeping          *keeping // nil if any object may be kept
}

// windowOf returns the window of a sighting, if it comes from this origin in this epoch.
func (x *Index) windowOf(s *sighting, origin string, e *epoch) window {
	lo := x.oldest(origin, e, s.revision, x.h.Answers[s.first].End)
	w := window{intent: lo, backends: lo, hi: s.revision, kept: s.kept, held: s.held}
	if soak := x.h.Run.Soak; soak > 0 && !s.canary { // an object that keeps changing waits for three soak times
		w.intent = min(w.intent, e.newest(x.h.Answers[s.first].End-3*soak-x.processing))
	}
	if s.held {
		// The intent is from the last read that passed, which has shown at least the previous table.
		w.intent = min(w.intent, x.heldFrom(origin, e, s), x.lostSince(origin, e, x.h.Answers[s.first].End-x.h.Run.Hold))
	}
	return w
}

// lostSince returns the lowest revision of what a server serves again if an accident begins at a time: everything that it lost within the window,
// but nothing from before its first read.
func (x *Index) lostSince(origin string, e *epoch, at time.Duration) uint64 {
	since := e.newest(at - x.h.Run.Window - x.processing)
	if i := slices.IndexFunc(x.reads[origin], func(r *read) bool { return r.from >= e.from }); i >= 0 {
		since = max(since, x.reads[origin][i].low)
	}
	return since
}

// heldFrom returns the lowest revision of the intent that an origin may hold on to while a sighting is served.
func (x *Index) heldFrom(origin string, e *epoch, s *sighting) uint64 {
	var newest *sighting
	for _, before := range x.seen() {
		if before.held || before.revision >= s.revision || before.first > s.first || !slices.Contains(before.origins, origin) {
			continue
		}
		if newest == nil || before.revision > newest.revision {
			newest = before
		}
	}
	if newest == nil {
		return 0
	}
	return x.oldest(origin, e, newest.revision, x.h.Answers[newest.first].End)
}

// oldest returns the lowest revision that a list can have in a read with the given highest revision.
func (x *Index) oldest(origin string, e *epoch, revision uint64, seen time.Duration) uint64 {
	if r := x.readOf(origin, e, revision, seen); r != nil {
		return r.low
	}
	return min(revision, e.newest(x.before(origin, e.born(revision))))
}

// readOf returns the complete read of a polling server with the given highest revision; nil if unknown.
func (x *Index) readOf(origin string, e *epoch, revision uint64, seen time.Duration) *read {
	var found *read
	for _, r := range x.reads[origin] {
		if r.high == revision && r.to <= seen && r.to >= e.from && (found == nil || r.low < found.low) {
			found = r
		}
	}
	return found
}

// exact reports whether all tables of a sighting come from reads in the history: every possible origin polls, and asked only the
// API.
func (x *Index) exact(s *sighting) bool {
	for _, origin := range s.origins {
		if m := x.members[origin]; m.Transport == "watch" || len(x.reads[origin]) == 0 {
			return false
		}
	}
	return len(s.origins) > 0 && len(x.epochs) == 1
}

// known reports whether a complete read explains a sighting: one with its revision, or an earlier one whose content is current
// again with a newer revision.
func (x *Index) known(s *sighting) bool {
	const tried = 5
	seen := x.h.Answers[s.first].End
	for _, origin := range s.origins {
		e, n := x.epochs[0], 0
		if x.readOf(origin, e, s.revision, seen) != nil {
			return true
		}
		for _, r := range slices.Backward(x.reads[origin]) {
			if r.to > seen || n == tried {
				continue
			}
			n++
			w := window{intent: r.low, backends: r.low, hi: r.high}
			if s.held {
				w.intent = min(w.intent, x.heldFrom(origin, e, s))
			}
			w.kept, w.held = s.kept, s.held
			if len(x.judge(s, e, e, w)) == 0 {
				return true
			}
		}
	}
	return false
}

// answersOf returns the answers of a client or of a server, ordered by end.
func (x *Index) answersOf(member string, by func(*history.Answer) string) []int {
	var all []int
	for i := range x.h.Answers {
		if by(&x.h.Answers[i]) == member {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return int(x.h.Answers[a].End - x.h.Answers[b].End) })
	return all
}
