// Package match finds the route that a request reaches, as Skipper v0.27.65 does: its order of places in the tree of paths and
// of weights at one place, its normalisation of paths and hosts, its predicates with their quirks, and the routes that it
// refuses or drops. [New] builds a [Table] from the routes that a proxy loads. [Table.Find] evaluates one [Request] and returns
// which route wins, which come next and why they lost, and which would have matched if the proxy had not refused them.
//
// The package never guesses: routes of equal weight at one place, and predicates that are random, use the clock or need an
// unknown address, lead to several outcomes instead of one, each with its conditions.
//
// Only the first lookup is evaluated: filters do not run, so a <loopback> is not followed. The request must contain the headers
// that a proxy adds itself, and the table the routes that it adds or edits itself. Filters whose constructors depend on flags,
// files or networks count as valid, and [Outcome.Notes] names the dependency.
//
// A Table is immutable and safe for concurrent use. The package does no I/O, reads no clock and does not log.
//
// Other modules should not import it: it may change with every release.
package match

import (
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

// Options are the settings of the proxies that affect matching. Skipper sets ValidateQuery by default.
type Options struct {
	IgnoreTrailingSlash bool   // -ignore-trailing-slash
	NormalizeHost       bool   // -normalize-host, which -kubernetes implies
	RFCPatchPath        bool   // -rfc-patch-path
	ValidateQuery       bool   // -validate-query
	ForwardBackendURL   string // -forward-backend-url

	// DisabledFilters are not known. Extra filters are valid, and extra predicates undecided.
	DisabledFilters, ExtraFilters, ExtraPredicates []string

	// Zone finds time zones like time.LoadLocation, which reads files. If it is nil, zones other than UTC are undecided.
	Zone func(name string) (*time.Location, error)

	// Candidates is the number of next best routes in a result, default DefaultCandidates; negative means none.
	Candidates int
}

// DefaultCandidates is the default of Options.Candidates.
const DefaultCandidates = 5

// Reason is why a proxy does not use a route.
type Reason = catalogue.Reason

// Reasons in addition to package catalogue's.
const (
	Dead       Reason = "dead"       // the route counts as valid, but its path never matches
	Overridden Reason = "overridden" // a later route of the table has the same id
)

// Refusal is a route that a proxy does not use.
type Refusal struct {
	Route  *eskip.Route `json:"-"`
	Reason Reason       `json:"reason"`
	Text   string       `json:"text"` // the mistake
}

// Table holds the routes of a proxy, prepared for requests.
type Table struct {
	options   Options
	catalogue *catalogue.Catalogue
	routes    *index // routes that can win
	refused   *index // routes that would match if they were not refused
	facts     func() *facts
}

// New builds a table from the routes of one document, which it keeps, and returns those that a proxy does not use.
func New(routes []*eskip.Route, o Options) (*Table, []Refusal) {
	b := &builder{options: o, exprs: expressions{}, catalogue: catalogue.New(catalogue.Options{
		ForwardBackendURL: o.ForwardBackendURL, DisabledFilters: o.DisabledFilters, ExtraFilters: o.ExtraFilters,
		ExtraPredicates: o.ExtraPredicates, Zone: o.Zone,
	})}
	t := &Table{options: o, catalogue: b.catalogue, routes: newIndex(), refused: newIndex()}
	last := make(map[string]int, len(routes))
	for i, r := range routes {
		last[r.Id] = i
	}
	var refusals []Refusal
	entries := make([]entry, len(routes))
	for i, r := range routes {
		e := &entries[i]
		b.entry(e, r)
		if last[r.Id] != i {
			e.refusal = &Refusal{Route: r, Reason: Overridden, Text: "a later route has the same id"}
		}
		if e.refusal != nil {
			refusals = append(refusals, *e.refusal)
			t.refused.add(e)
			continue
		}
		t.routes.add(e)
	}
	t.facts = sync.OnceValue(func() *facts { return factsOf(t.routes.all) })
	return t, refusals
}

// Result is the result of a lookup.
type Result struct {
	// Answer is not nil if the proxy answers before it looks for a route. The other fields are then empty.
	Answer *Answer

	// Host and Path are what predicates see: normalised according to the options, the path decoded and clean.
	Host, Path string

	// Outcomes are the possible outcomes, in the order of the search. Several mean that the request is undecided.
	Outcomes []Outcome

	// Candidates are the next best routes: those that match and have a lower rank, then those that fail the fewest predicates.
	Candidates []Candidate

	// Warnings are routes that match, but that the proxy refused or dropped, the most specific first.
	Warnings []Warning
}

// Decided reports whether there is one outcome. A request that the proxy answers itself is decided.
func (r *Result) Decided() bool { return len(r.Outcomes) <= 1 }

// Winner returns the route of the only outcome, or nil if no route matches or the request is undecided.
func (r *Result) Winner() *eskip.Route {
	if len(r.Outcomes) == 1 {
		return r.Outcomes[0].Route
	}
	return nil
}

// Outcome is a route that may win.
type Outcome struct {
	// Route is nil if no route matches.
	Route *eskip.Route `json:"-"`
	// Place is the path predicate that determines the route's place, if it has one.
	Place string `json:"place,omitempty"`
	// Weight orders routes at one place.
	Weight int `json:"weight"`
	// Params are the values of the wildcards.
	Params map[string]string `json:"params,omitempty"`
	// Open are the undecided predicates: all of them hold if the route wins.
	Open []Undecided `json:"undecided,omitempty"`
	// Ties are routes with the same weight at the same place that also match or may match: which one wins is arbitrary.
	Ties []string `json:"ties,omitempty"`
	// Notes name the conditions under which a proxy has the route.
	Notes []string `json:"notes,omitempty"`
}

// Undecided is a predicate that cannot be evaluated outside the proxy.
type Undecided struct {
	Predicate string `json:"predicate"`
	Why       string `json:"why"`
}

// Candidate is a route that does not win.
type Candidate struct {
	Route  *eskip.Route `json:"-"`
	Weight int          `json:"weight"`
	// Lost are the predicates that do not hold; the first one decided.
	Lost []string `json:"lost,omitempty"`
	// Behind is why a route whose predicates all hold, or are undecided, does not win.
	Behind Behind `json:"behind,omitempty"`
	// Open are the undecided predicates.
	Open []Undecided `json:"undecided,omitempty"`
}

// Behind is why a matching route does not win.
type Behind string

// The values of Behind; empty for a route that does not match.
const (
	LessSpecific Behind = "less specific path"
	NoPath       Behind = "no path predicate"
	LowerWeight  Behind = "lower weight"
)

// Warning is a route that would have matched.
type Warning struct {
	Refusal
	// Ahead reports whether the search would have reached the route before all routes that may win.
	Ahead bool `json:"wins"`
	// Partly is set if the refusal concerns predicates: the predicates that can be evaluated hold.
	Partly bool `json:"partly,omitempty"`
}

type hit struct {
	e    *entry
	rank string
	open []*condition // undecided
}

type group struct {
	hits  []hit
	ended bool // one of them certainly holds
}

// outcomes returns the possible outcomes of groups for a path. One random number per request decides all its TrafficSegments
// together, so each interval of that number is evaluated separately.
func outcomes(groups []group, path []string) (all []Outcome) {
	numbers := []float64{0} // the beginnings of the intervals
	for _, g := range groups {
		for _, h := range g.hits {
			for _, c := range h.open {
				if c.segment != nil {
					numbers = append(numbers, c.segment[0], c.segment[1])
				}
			}
		}
	}
	possible := map[*entry]bool{} // nil stands for no route
	for _, n := range numbers {
		if n < 1 {
			mark(possible, groups, n)
		}
	}
	for _, g := range groups {
		for i, h := range g.hits {
			if !possible[h.e] {
				continue
			}
			out := Outcome{Route: h.e.route, Weight: h.e.weight, Place: h.e.place(), Open: undecided(h.open)}
			if len(h.e.patterns) > 0 {
				out.Params = h.e.patterns[0].params(path)
			}
			for j, other := range g.hits {
				if possible[other.e] && i != j && !exclusive(h, other) {
					out.Ties = append(out.Ties, other.e.route.Id)
				}
			}
			all = append(all, out)
		}
	}
	if possible[nil] {
		all = append(all, Outcome{})
	}
	return all
}

func mark(possible map[*entry]bool, groups []group, number float64) {
	for _, g := range groups {
		certain := false
		for _, h := range g.hits {
			v := h.at(number)
			possible[h.e] = possible[h.e] || v != no
			certain = certain || v == yes
		}
		if certain {
			return
		}
	}
	possible[nil] = true
}

func (h hit) at(number float64) verdict {
	v := yes
	for _, c := range h.open {
		switch {
		case c.segment == nil:
			v = maybe
		case number < c.segment[0] || number >= c.segment[1]:
			return no
		}
	}
	return v
}

func exclusive(a, b hit) bool {
	low, high := 0.0, 1.0
	for _, c := range slices.Concat(a.open, b.open) {
		if c.segment != nil {
			low, high = max(low, c.segment[0]), min(high, c.segment[1])
		}
	}
	return low >= high
}

func undecided(open []*condition) []Undecided {
	var all []Undecided
	for _, c := range open {
		all = append(all, Undecided{c.text(), c.why})
	}
	return all
}
