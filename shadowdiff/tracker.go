package shadowdiff

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"github.com/routesrv/routesrv/internal/pace"
)

// Limits and defaults of [TrackerConfig].
const (
	DefaultInterval   = pace.DefaultInterval
	DefaultMaxTracked = 20_000

	confirmComparisons = 3  // consecutive ones
	confirmIntervals   = 2  // that a difference has to last then
	settledIntervals   = 10 // by which a side has read on, so that its revision does not matter
	maxParts           = 64 // of a changed route that are told apart
	gapIntervals       = 10 // without a comparison after which nothing is known about the time between
)

// TrackerConfig says how differences are judged.
type TrackerConfig struct {
	// Interval is the time between two reads of the slower side, default DefaultInterval.
	Interval time.Duration
	// MaxTracked bounds the memory: the differences of each kind beyond that number are judged as one. Default
	// DefaultMaxTracked.
	MaxTracked int
}

// Meta says when and of what a report was made.
type Meta struct {
	// RevisionA and RevisionB are those of the tables; 0 if a side has none. Both have to be revisions of one cluster.
	RevisionA, RevisionB uint64
	// ReadA and ReadB are when the sources of the sides were last read with success, each on a clock of its own; zero if
	// that is not known.
	ReadA, ReadB time.Time
	// Now is the time of the comparison. It does not go back.
	Now time.Time
}

// Tracker tells differences that stay from the skew of two tables that change all the time. It is a state machine: it has
// no clock and does nothing between two calls. The zero value is not usable; make it with [NewTracker]. It is not safe for
// concurrent use.
//
// # What counts
//
// A difference is pending until it outlives the skew: three comparisons in a row, over two intervals. If both tables have
// a revision, it is confirmed then by a comparison of tables that are both at least as new as the newer one of those that
// first showed it. Revisions alone do not prove it: a table may lack some of the changes up to its own. A side whose
// revision stays behind, since nothing that it serves is written to, will do as well once it has read its source for ten
// intervals more and shows the same. A comparison that does not show the difference ends it.
//
// A changed route is judged by its parts: while endpoints come and go, and one side is always a little behind, no single
// part lasts; a filter that differs does.
type Tracker struct {
	cfg   TrackerConfig
	seed  maphash.Seed
	known map[Key]*sighting
	// rest is what is beyond MaxTracked, by kind.
	rest [kindCount]*sighting

	comparisons uint64
	last        time.Time // of the last comparison
	cleanSince  time.Time // zero if the last comparison was not clean
}

// sighting is what is known about a difference that was seen in the last comparison.
type sighting struct {
	trace
	parts     map[uint64]*trace // for changed routes, by hash
	confirmed bool
	seen      uint64 // number of the last comparison with it
}

// trace is how long something has been seen without interruption.
type trace struct {
	first    time.Time
	count    int
	revision uint64    // that both sides need to have; 0 until both had one
	a, b     time.Time // when the sources of the sides had been read; zero until that was known
	seen     uint64    // number of the last comparison with it
}

// Tracked is a difference with its history.
type Tracked struct {
	Difference
	FirstSeen time.Time
	Count     int // consecutive comparisons that showed it
	Confirmed bool
}

// Observation is what a [Tracker] knows after a comparison. It must not be changed.
type Observation struct {
	Now         time.Time
	Comparisons uint64
	// Differences are those of the report that are tracked, sorted by id. Beyond counts those that are not.
	Differences []Tracked
	Beyond      int
	// Confirmed and Pending are the numbers of differences by kind, also of those beyond.
	Confirmed, Pending Counts
	// New are the differences that this comparison has confirmed. Gone are those that were confirmed and are not there
	// any more: their routes are nil.
	New, Gone []Tracked
	// Clean is how long there has been no difference that counts, up to this comparison, not up to now; see
	// [Tracker.Clean].
	Clean time.Duration
}

// NewTracker returns a tracker that has seen nothing.
func NewTracker(cfg TrackerConfig) *Tracker {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.MaxTracked <= 0 {
		cfg.MaxTracked = DefaultMaxTracked
	}
	return &Tracker{cfg: cfg, seed: maphash.MakeSeed(), known: make(map[Key]*sighting)}
}

// Observe takes the next comparison. The report is not kept.
func (t *Tracker) Observe(r Report, m Meta) Observation {
	if t.comparisons > 0 && m.Now.Sub(t.last) > gapIntervals*t.cfg.Interval {
		t.cleanSince = time.Time{}
	}
	t.comparisons++
	o := Observation{Now: m.Now, Comparisons: t.comparisons}
	clean := t.differences(r.Differences(), m, &o)
	o.Gone = t.forget()
	switch {
	case !clean:
		t.cleanSince = time.Time{}
	case t.cleanSince.IsZero():
		t.cleanSince = m.Now
	}
	t.last = m.Now
	o.Clean = t.Clean()
	return o
}

// differences judges the differences of a report, and reports whether it is clean.
func (t *Tracker) differences(all []Difference, m Meta, o *Observation) (clean bool) {
	clean = true
	var number, beyond [kindCount]int
	for _, d := range all {
		if number[d.Kind]++; number[d.Kind] > t.cfg.MaxTracked {
			beyond[d.Kind]++
			continue
		}
		s := t.known[d.Key]
		if s == nil {
			s = &sighting{}
			t.known[d.Key] = s
		}
		before := s.confirmed
		lasting := t.see(s, d.Parts, m)
		clean = clean && !s.confirmed && !lasting
		tracked := Tracked{Difference: d, FirstSeen: s.first, Count: s.count, Confirmed: s.confirmed}
		o.Differences = append(o.Differences, tracked)
		o.count(d.Kind, s.confirmed, 1)
		if s.confirmed && !before {
			o.New = append(o.New, tracked)
		}
	}
	for kind, n := range beyond {
		if n == 0 {
			t.rest[kind] = nil
			continue
		}
		if t.rest[kind] == nil {
			t.rest[kind] = &sighting{}
		}
		lasting := t.see(t.rest[kind], nil, m)
		clean = clean && !t.rest[kind].confirmed && !lasting
		o.Beyond += n
		o.count(Kind(kind), t.rest[kind].confirmed, n)
	}
	return clean
}

func (o *Observation) count(k Kind, confirmed bool, n int) {
	c := &o.Pending
	if confirmed {
		c = &o.Confirmed
	}
	*[kindCount]*int{&c.Missing, &c.Extra, &c.Changed, &c.Renamed}[k] += n
}

// see takes one more sighting. It reports whether the difference, or a part of it, has lasted as long as one without
// revisions has to.
func (t *Tracker) see(s *sighting, parts []Part, m Meta) (lasting bool) {
	lasting, proved := t.follow(&s.trace, m)
	s.seen = t.comparisons
	if len(parts) > 0 {
		lasting, proved = t.seeParts(s, parts, m)
	}
	s.confirmed = s.confirmed || proved
	return lasting
}

// seeParts is see for the parts of a changed route.
func (t *Tracker) seeParts(s *sighting, parts []Part, m Meta) (lasting, proved bool) {
	if s.parts == nil {
		s.parts = make(map[uint64]*trace, 1)
	}
	for _, p := range parts[:min(len(parts), maxParts)] {
		h := t.hash(p)
		tr := s.parts[h]
		if tr == nil {
			tr = &trace{}
			s.parts[h] = tr
		}
		if tr.seen == t.comparisons {
			continue // the same part twice in a route
		}
		l, pr := t.follow(tr, m)
		lasting, proved = lasting || l, proved || pr
	}
	for h, tr := range s.parts {
		if tr.seen != t.comparisons {
			delete(s.parts, h)
		}
	}
	return lasting, proved
}

// follow takes one more sighting of something. It is lasting if it has been there long enough without revisions, and
// proved if it counts.
func (t *Tracker) follow(tr *trace, m Meta) (lasting, proved bool) {
	if tr.count == 0 {
		tr.first = m.Now
	}
	tr.count++
	tr.seen = t.comparisons
	lasting = tr.count >= confirmComparisons && m.Now.Sub(tr.first) >= confirmIntervals*t.cfg.Interval
	readOnA, readOnB := t.readOn(&tr.a, m.ReadA), t.readOn(&tr.b, m.ReadB)
	if m.RevisionA == 0 || m.RevisionB == 0 {
		return lasting, lasting
	}
	if tr.revision == 0 {
		tr.revision = max(m.RevisionA, m.RevisionB)
	}
	// The revision of a table is up to where it may have changes, not up to where it has them all: so it proves nothing
	// alone, and the difference has to last as well.
	return lasting, lasting && (m.RevisionA >= tr.revision || readOnA) && (m.RevisionB >= tr.revision || readOnB)
}

// readOn tells whether a source was read long after the first time.
func (t *Tracker) readOn(first *time.Time, last time.Time) bool {
	if first.IsZero() {
		*first = last
	}
	return last.Sub(*first) >= settledIntervals*t.cfg.Interval
}

// hash names a part by what it says. The positions of filters are left out: another filter in front of it makes no new
// difference.
func (t *Tracker) hash(p Part) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	h.WriteByte(byte(p.Element))
	h.WriteByte(byte(p.Op))
	h.WriteString(p.Old)
	h.WriteByte(0)
	h.WriteString(p.New)
	return h.Sum64()
}

// forget drops what the last comparison did not show, and returns what of it was confirmed.
func (t *Tracker) forget() []Tracked {
	var gone []Tracked
	for key, s := range t.known {
		if s.seen == t.comparisons {
			continue
		}
		delete(t.known, key)
		if s.confirmed {
			gone = append(gone, Tracked{Difference: Difference{Key: key}, FirstSeen: s.first, Count: s.count, Confirmed: true})
		}
	}
	slices.SortFunc(gone, func(x, y Tracked) int { return cmp.Or(x.compare(y.Key), x.FirstSeen.Compare(y.FirstSeen)) })
	return gone
}

// Clean returns how long comparisons have shown no difference that counts, up to the last comparison. A pending difference
// that lasts as long as one without revisions has to does count here: a side that stays behind for ever is not clean. The
// time begins anew when there was no comparison for ten intervals.
func (t *Tracker) Clean() time.Duration {
	if t.cleanSince.IsZero() {
		return 0
	}
	return t.last.Sub(t.cleanSince)
}
