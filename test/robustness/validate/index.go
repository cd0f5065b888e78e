package validate

import (
	"cmp"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// Times that honest processes may take. A run with less than the whole machine extends them: see [history.Run.Stretch].
const (
	// processing is the time from a complete read to the answers that show it.
	processing = 3 * time.Second
	// reading is how long a read may take whose lists are not in the history.
	reading = 5 * time.Second
	// patience is how long an answer to a healthy client may take, if the history has no Run.Patience.
	patience = 5 * time.Second
	// afterPoll and afterWatch are how long after its end a fault may still affect what a server knows: through a request that
	// hangs, or a watch that is silent until it is checked.
	afterPoll, afterWatch = 5 * time.Second, 100 * time.Second
)

// staleList is the history's name for a list that is whole but older than others.
const staleList = "list-stale"

// Index is a history with the lookups that the validators need. It must be used by one goroutine only. Create it with [NewIndex].
type Index struct {
	h        *history.History
	epochs   []*epoch
	oracle   *oracle
	members  map[string]*history.Member
	origins  map[string][]string // by server: the members whose tables it may serve
	troubles map[string][]span   // by origin, ordered by time
	reads    map[string][]*read  // by origin: complete reads, ordered by time

	sightings []*sighting // nil until requested
	judged    map[*sighting][]finding
	coverage  Coverage

	processing, reading, patience time.Duration // for this run
}

// span is an interval of time.
type span struct{ from, to time.Duration }

func (s span) meets(from, to time.Duration) bool { return s.from <= to && from <= s.to }

// read is one complete read of a polling server: all its lists left the API correct.
type read struct {
	span
	low, high uint64 // lowest and highest revision of its lists
	backends  uint64 // lowest revision of its lists of backends
}

// NewIndex indexes a history, which it does not change.
func NewIndex(h *history.History) *Index {
	x := &Index{
		h: h, epochs: epochsOf(h.Changes), oracle: newOracle(h.Run.Options), members: make(map[string]*history.Member),
		origins: make(map[string][]string), troubles: make(map[string][]span), reads: make(map[string][]*read),
	}
	stretch := max(1, h.Run.Stretch)
	x.processing, x.reading = time.Duration(stretch*float64(processing)), time.Duration(stretch*float64(reading))
	x.patience = time.Duration(stretch * float64(cmp.Or(h.Run.Patience, patience)))
	for i := range h.Run.Members {
		x.members[h.Run.Members[i].Name] = &h.Run.Members[i]
	}
	for name := range x.members {
		x.origins[name] = x.originsOf(name, nil)
	}
	for _, e := range x.epochs {
		x.oracle.claim(e)
	}
	x.oracle.claimed()
	x.findTroubles()
	x.findReads()
	return x
}

// originsOf returns the members that read the API for the tables of a member, sorted.
func (x *Index) originsOf(name string, seen []string) []string {
	m := x.members[name]
	if m == nil || slices.Contains(seen, name) {
		return nil
	}
	seen = append(seen, name)
	var all []string
	if m.Kind == history.Server || m.Kind == history.Sidecar {
		all = append(all, name) // in some modes a sidecar also computes
	}
	for _, up := range m.Upstreams {
		all = append(all, x.originsOf(up, seen)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// findTroubles records when the reads of an origin were disturbed.
func (x *Index) findTroubles() {
	for name, m := range x.members {
		if m.Kind != history.Server && m.Kind != history.Sidecar {
			continue
		}
		after := afterPoll
		if m.Transport == "watch" {
			after = afterWatch
		}
		var all []span
		for _, f := range x.h.Faults {
			if f.Link == name || f.Link == name+">api" || f.Link == "api" {
				all = append(all, span{f.From, max(f.From, f.To) + after})
			}
		}
		for _, e := range x.h.Events {
			if e.Member == name && slices.Contains([]string{"started", "killed", "stopped", "continued", "ended"}, e.Name) {
				all = append(all, span{e.At, x.settledAfter(e)})
			}
		}
		for _, r := range x.h.Reads {
			if r.Member == name && r.Fault != "" {
				all = append(all, span{r.At, r.At + after})
			}
		}
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		x.troubles[name] = all
	}
}

// settledAfter returns when a process has recovered from a start or a stop: when it is ready, if the history says so.
func (x *Index) settledAfter(e history.Event) time.Duration {
	until := e.At + starting
	for _, next := range x.h.Events {
		if next.Member == e.Member && next.Name == "ready" && next.At >= e.At {
			return min(until, next.At)
		}
	}
	return until
}

// troubled reports whether the reads of an origin were disturbed between a and b.
func (x *Index) troubled(origin string, a, b time.Duration) bool {
	return slices.ContainsFunc(x.troubles[origin], func(s span) bool { return s.meets(a, b) })
}

// before returns when a read that ended at a time may have begun: disturbances prolong it.
func (x *Index) before(origin string, at time.Duration) time.Duration {
	from := at - x.reading
	for _, s := range slices.Backward(x.troubles[origin]) {
		if s.meets(from, at) {
			from = min(from, s.from-x.reading)
		}
	}
	return from
}

// findReads combines the lists of polls: one list of each kind, starting with Ingresses. Of several lists of one kind the last
// counts, since a server may retry.
func (x *Index) findReads() {
	type open struct {
		span
		lists map[string]history.Read
	}
	needed := map[string]bool{"Ingress": true, "Service": true}
	for _, r := range x.h.Reads {
		if r.Verb == "list" {
			needed[r.Kind] = true
		}
	}
	now := map[string]*open{}
	newest := map[[2]string]uint64{} // by member and kind
	for _, r := range x.h.Reads {
		if m := x.members[r.Member]; r.Verb == "watch" || m == nil || m.Transport == "watch" {
			continue // lists of a watching server are not reads
		}
		// A stale list is acceptable to a server that has seen nothing newer.
		list := [2]string{r.Member, r.Kind}
		if r.Fault == staleList && r.Revision >= newest[list] {
			r.Whole, r.Fault = true, ""
		}
		if r.Whole && r.Verb == "list" {
			newest[list] = max(newest[list], r.Revision)
		}
		o := now[r.Member]
		if r.Kind == "Ingress" && (o == nil || len(o.lists) > 1) || o == nil {
			o = &open{span: span{from: r.At}, lists: map[string]history.Read{}}
			now[r.Member] = o
		}
		o.lists[r.Kind] = r
		o.to = r.At
		done, ok := completed(o.lists, needed)
		if !ok {
			continue
		}
		done.span = o.span
		all := x.reads[r.Member]
		if n := len(all); n > 0 && all[n-1].from == done.from {
			all = all[:n-1] // a list was repeated
		}
		x.reads[r.Member] = append(all, &done)
	}
}

// completed returns the revisions of a read, if it has a good list of every kind.
func completed(lists map[string]history.Read, needed map[string]bool) (done read, ok bool) {
	first := true
	for kind := range needed {
		if r, has := lists[kind]; !has || !r.Whole || r.Fault != "" {
			return read{}, false
		}
	}
	for kind, r := range lists {
		switch {
		case !r.Whole || r.Fault != "":
			return read{}, false
		case r.Verb != "list" || kind == "Discovery":
			continue
		case first:
			done.low, done.high, done.backends, first = r.Revision, r.Revision, 1<<63-1, false
		}
		done.low, done.high = min(done.low, r.Revision), max(done.high, r.Revision)
		if kind != "Ingress" && kind != "RouteGroup" {
			done.backends = min(done.backends, r.Revision)
		}
	}
	return done, !first
}

// tag parses an answer's ETag; ok is false if a route server did not write one.
func tag(a *history.Answer) (digest string, revision uint64, ok bool) {
	e := api.ParseEntity(a.ETag)
	if !e.Known {
		return "", a.Revision, false
	}
	return e.Tag.Digest.String(), e.Tag.Revision, true
}

// base parses the ETag that the client named.
func base(a *history.Answer) (digest string, revision uint64, ok bool) {
	e := api.ParseEntity(a.Base)
	if !e.Known {
		return "", 0, false
	}
	return e.Tag.Digest.String(), e.Tag.Revision, true
}

// short shortens a digest for people.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// has reports whether the client holds a table of this server after the answer, and the answer confirms that.
func has(a *history.Answer) bool {
	return a.Digest != "" && (a.Outcome == history.Applied || a.Outcome == history.Unchanged)
}

// zone returns the zone of the table that a client gets from a server: the requested one, or the sidecar's.
func (x *Index) zone(client, server string) string {
	if m := x.members[client]; m != nil && m.Zone != "" {
		return m.Zone
	}
	if m := x.members[server]; m != nil && m.Kind == history.Sidecar {
		return m.Zone
	}
	return ""
}

// onCanary reports whether an answer went to a client of the canary.
func (x *Index) onCanary(a *history.Answer) bool {
	m := x.members[a.Client]
	return m != nil && m.Canary
}

// faultOn reports whether a fault affected a connection between two members, or one of the two, between a and b.
func (x *Index) faultOn(client, server string, a, b time.Duration) bool {
	link := client + ">" + server
	for _, f := range x.h.Faults {
		if (f.Link == link || f.Link == client || f.Link == server) && (span{f.From, max(f.From, f.To)}).meets(a, b) {
			return true
		}
	}
	return false
}

// down returns when a member was not running or was stopped, without the time to recover.
func (x *Index) down(member string) []span {
	var all []span
	since, is := time.Duration(0), false
	for _, e := range x.h.Events {
		if e.Member != member {
			continue
		}
		switch e.Name {
		case "killed", "ended", "stopped":
			if !is {
				since, is = e.At, true
			}
		case "started", "continued":
			if is {
				all, is = append(all, span{since, e.At}), false
			}
		}
	}
	if is {
		all = append(all, span{since, 1 << 62})
	}
	return all
}

// lives reports whether a member is running at a time.
func (x *Index) lives(member string, at time.Duration) bool {
	return !slices.ContainsFunc(x.down(member), func(s span) bool { return s.meets(at, at) })
}

// isClient reports whether a member only receives tables.
func isClient(m *history.Member) bool {
	return m.Kind == history.Poller || m.Kind == history.Delta || m.Kind == history.Stream
}

// resets returns when the API was restored.
func (x *Index) resets() []time.Duration {
	var all []time.Duration
	for _, e := range x.epochs[1:] {
		all = append(all, e.from)
	}
	return all
}
