package shadowdiff

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

const (
	maxTracked         = 20_000 // differences of each kind; further ones are pending
	confirmComparisons = 3      // consecutive ones
	confirmIntervals   = 2      // a difference must also last this long
	settledIntervals   = 10     // after reading on for this long, a side's revision does not matter
	maxParts           = 64     // of a changed route that are tracked separately
	gapIntervals       = 10     // after a gap of this many intervals between comparisons, earlier observations are discarded
)

// Meta describes the tables of a report and its time.
type Meta struct {
	// RevisionA and RevisionB are the revisions of the tables in one cluster; 0 if a side has none.
	RevisionA, RevisionB uint64
	// ReadA and ReadB are when the sources of the sides were last read successfully, by their own clocks; zero if unknown.
	ReadA, ReadB time.Time
	// Now is the time of the comparison. It must not go back.
	Now time.Time
}

// Tracker distinguishes lasting differences from the skew of two tables that change all the time. It does nothing between
// calls, and is not safe for concurrent use.
//
// A difference is pending until three consecutive comparisons over at least two intervals have shown it, and both tables are at
// least as new as the newer of the two that first did. Revisions alone are no proof: a table may lack changes up to its own
// revision. A side whose revision stays behind also suffices once it has kept reading its source for ten more intervals. A
// comparison that does not show the difference ends it.
//
// A changed route is judged by its parts: while endpoints change constantly, no single one lasts; a differing filter does.
type Tracker struct {
	interval time.Duration
	most     int // differences of each kind
	known    map[Key]*sighting

	comparisons uint64
	last        time.Time // of the last comparison
	cleanSince  time.Time // zero if the last comparison was not clean
}

type sighting struct {
	trace
	parts     map[Part]*trace // for changed routes; without positions: another filter before one makes no new difference
	confirmed bool
}

type trace struct {
	first    time.Time
	count    int
	revision uint64    // that both sides must have; 0 until both had one
	a, b     time.Time // when the sides' sources had been read; zero until known
	seen     uint64    // number of the last comparison that showed it
}

// Tracked is a difference with its history, which is zero without a continuous comparison.
type Tracked struct {
	Difference
	FirstSeen time.Time
	Count     int // consecutive comparisons that showed it
	Confirmed bool
}

// Observation is the state of a [Tracker] after a comparison. It must not be changed.
type Observation struct {
	Comparisons uint64
	// Differences are the tracked differences of the report, sorted by id. Beyond counts the others.
	Differences []Tracked
	Beyond      int
	// Confirmed and Pending are the numbers of differences by kind, including those beyond.
	Confirmed, Pending Kinds
	// Clean is for how long comparisons have shown no difference that counts, up to this one. A pending difference counts once it has
	// lasted as long as one without revisions must. A gap of ten intervals restarts the time.
	Clean time.Duration
}

// NewTracker returns a tracker without observations. The interval is the time between two reads of the slower side.
func NewTracker(interval time.Duration) *Tracker {
	return &Tracker{interval: interval, most: maxTracked, known: make(map[Key]*sighting)}
}

// Observe processes the next comparison. It does not keep the report.
func (t *Tracker) Observe(r Report, m Meta) Observation {
	if t.comparisons > 0 && m.Now.Sub(t.last) > gapIntervals*t.interval {
		t.cleanSince = time.Time{}
	}
	t.comparisons++
	o := Observation{Comparisons: t.comparisons}
	clean := t.differences(r.Differences, m, &o)
	maps.DeleteFunc(t.known, func(_ Key, s *sighting) bool { return s.seen != t.comparisons })
	switch {
	case !clean:
		t.cleanSince = time.Time{}
	case t.cleanSince.IsZero():
		t.cleanSince = m.Now
	}
	if t.last = m.Now; clean {
		o.Clean = m.Now.Sub(t.cleanSince)
	}
	return o
}

// differences judges the differences of a report, and reports whether the report is clean.
func (t *Tracker) differences(all []Difference, m Meta, o *Observation) (clean bool) {
	clean = true
	var number [kindCount]int
	for _, d := range all {
		if number[d.Kind]++; number[d.Kind] > t.most {
			o.Beyond++
			*o.Pending.of(d.Kind)++
			continue
		}
		s := t.known[d.Key]
		if s == nil {
			s = &sighting{}
			t.known[d.Key] = s
		}
		lasting := t.see(s, d.Parts, m)
		clean = clean && !s.confirmed && !lasting
		o.Differences = append(o.Differences, Tracked{Difference: d, FirstSeen: s.first, Count: s.count, Confirmed: s.confirmed})
		if s.confirmed {
			*o.Confirmed.of(d.Kind)++
		} else {
			*o.Pending.of(d.Kind)++
		}
	}
	return clean && o.Beyond == 0
}

// see records a sighting, of a changed route by its parts. lasting means that one counts without revisions.
func (t *Tracker) see(s *sighting, parts []Part, m Meta) (lasting bool) {
	lasting, proved := t.follow(&s.trace, m)
	if len(parts) > 0 {
		lasting, proved = false, false
	}
	if s.parts == nil {
		s.parts = make(map[Part]*trace, 1)
	}
	for _, p := range parts[:min(len(parts), maxParts)] {
		p.OldPosition, p.NewPosition = 0, 0
		tr := s.parts[p]
		if tr == nil {
			tr = &trace{}
			s.parts[p] = tr
		}
		if tr.seen == t.comparisons {
			continue // the same part twice in a route
		}
		l, pr := t.follow(tr, m)
		lasting, proved = lasting || l, proved || pr
	}
	maps.DeleteFunc(s.parts, func(_ Part, tr *trace) bool { return tr.seen != t.comparisons })
	s.confirmed = s.confirmed || proved
	return lasting
}

// follow records a sighting. lasting means that it counts without revisions, and proved that it counts.
func (t *Tracker) follow(tr *trace, m Meta) (lasting, proved bool) {
	if tr.count == 0 {
		tr.first = m.Now
	}
	tr.count++
	tr.seen = t.comparisons
	lasting = tr.count >= confirmComparisons && m.Now.Sub(tr.first) >= confirmIntervals*t.interval
	readOnA, readOnB := t.readOn(&tr.a, m.ReadA), t.readOn(&tr.b, m.ReadB)
	if m.RevisionA == 0 || m.RevisionB == 0 {
		return lasting, lasting
	}
	if tr.revision == 0 {
		tr.revision = max(m.RevisionA, m.RevisionB)
	}
	// A table may lack some changes up to its revision, so revisions prove nothing alone.
	return lasting, lasting && (m.RevisionA >= tr.revision || readOnA) && (m.RevisionB >= tr.revision || readOnB)
}

func (t *Tracker) readOn(first *time.Time, last time.Time) bool {
	if first.IsZero() {
		*first = last
	}
	return last.Sub(*first) >= settledIntervals*t.interval
}

// The results of a comparison.
const (
	resultSame      = "same"      // no difference
	resultPending   = "pending"   // differences that may be skew
	resultDifferent = "different" // differences that count
	resultError     = "error"     // no comparison was possible
)

// Metrics are the series of a continuous comparison.
type Metrics struct {
	Routes      *prometheus.GaugeVec   // kind
	Comparisons *prometheus.CounterVec // result
	Clean       prometheus.Gauge
}

// NewMetrics creates the series and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		Routes: made.Gauges("dataplane_shadow_routes", "Routes that differ for longer than skew explains: missing, extra or changed.",
			"kind", kindNames[:]...),
		Comparisons: made.Counters("dataplane_shadow_comparisons_total", "Comparisons: same, pending (the difference may be skew), different or error "+
			"(a table was not available).", "result", resultSame, resultPending, resultDifferent, resultError),
		Clean: made.Gauge("dataplane_shadow_clean_seconds", "Time without a difference that counts, up to the last comparison."),
	}
}

// Observe sets the series from a comparison.
func (m *Metrics) Observe(o *Observation) {
	for kind, name := range kindNames {
		m.Routes.WithLabelValues(name).Set(float64(*o.Confirmed.of(Change(kind))))
	}
	result := resultSame
	switch {
	case o.Confirmed.Differences() > 0:
		result = resultDifferent
	case o.Pending.Differences() > 0:
		result = resultPending
	}
	m.Comparisons.WithLabelValues(result).Inc()
	m.Clean.Set(o.Clean.Seconds())
}

// Failed counts a comparison that was not possible. The other series keep the values of the last comparison.
func (m *Metrics) Failed() { m.Comparisons.WithLabelValues(resultError).Inc() }
