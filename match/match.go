// Package match finds the route that a request reaches, as Skipper does.
//
// [New] makes a [Table] of the routes that a proxy loads; [Table.Find] evaluates one [Request] and tells which route wins,
// which come next and why they lost, and which routes would have matched if the proxy had not refused them.
//
// # Guarantees
//
// The answer is that of Skipper v0.27.65: its order of places in the tree of paths and of weights at one place, its
// normalisation of paths and hosts, its predicates with their quirks, and the routes that it refuses or drops. What no
// evaluator can know is never guessed. Routes of equal weight at one place, predicates that throw dice, ask the clock or
// need an address that is not given make the answer a list of outcomes instead of one, each with what it depends on and,
// where it can be computed, its share of the requests.
//
// A Table is immutable and safe for concurrent use. Nothing here does I/O, reads a clock or logs.
//
// # Not done here
//
// Only the first lookup is evaluated: filters do not run, so a <loopback> is not followed. Headers that a proxy writes
// itself (-forwarded-headers) have to be part of the request, and routes that it adds or edits itself (-default-filters,
// -edit-route, -clone-route) part of the table. Whether a filter exists may depend on flags, and whether its constructor
// accepts the arguments on files and networks; such routes count as valid, and [Outcome.Notes] says on what they depend.
package match

import (
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// Options are the settings of the proxies that change which route matches. The zero value is a Skipper without flags but
// for ValidateQuery, which Skipper has on.
type Options struct {
	IgnoreTrailingSlash bool   // -ignore-trailing-slash
	NormalizeHost       bool   // -normalize-host, which -kubernetes implies
	RFCPatchPath        bool   // -rfc-patch-path
	ValidateQuery       bool   // -validate-query
	ForwardBackendURL   string // -forward-backend-url

	// DisabledFilters are the names of -disabled-filters. ExtraFilters and ExtraPredicates are names that a build of
	// Skipper knows beyond its own: such filters are valid, such predicates are undecided.
	DisabledFilters, ExtraFilters, ExtraPredicates []string

	// Zone finds the time zones of Before, After and Between, such as time.LoadLocation, which reads files. With nil these
	// predicates are undecided for all zones but UTC.
	Zone func(name string) (*time.Location, error)

	// Candidates is the number of next best routes in a result, default DefaultCandidates; below zero none.
	Candidates int
}

// DefaultCandidates is the default of Options.Candidates.
const DefaultCandidates = 5

// Reason is why a proxy does not use a route. Those before Dropped are labels of the metric skipper_route_invalid.
type Reason = catalogue.Reason

// The reasons.
const (
	FailedBackendSplit     = catalogue.FailedBackendSplit
	UnknownFilter          = catalogue.UnknownFilter
	InvalidFilterParams    = catalogue.InvalidFilterParams
	InvalidPredicateParams = catalogue.InvalidPredicateParams
	UnknownPredicate       = catalogue.UnknownPredicate
	Other                  = catalogue.Other
	InvalidMatcher         = catalogue.InvalidMatcher

	Dropped           = catalogue.Dropped // the load balancer does not accept the backend; no metric shows it
	Dead       Reason = "dead"            // the route counts as valid, but nothing matches its path
	Overridden Reason = "overridden"      // a later route of the table has the same id
)

// Refusal is a route that a proxy does not use.
type Refusal struct {
	Route  *eskip.Route
	Reason Reason
	Text   string // what is wrong with it
}

// Table is the routes of a proxy, ready for requests.
type Table struct {
	options   Options
	catalogue *catalogue.Catalogue
	routes    *index // that can win
	refused   *index // that would match, had they not been refused
}

// New makes a table of the routes of one document. It keeps the routes, which must not change any more, and reports those
// that a proxy does not use, in their order.
func New(routes []*eskip.Route, o Options) (*Table, []Refusal) {
	b := newBuilder(o)
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
		x := t.routes
		if e.refusal != nil {
			refusals = append(refusals, *e.refusal)
			x = t.refused
		}
		x.add(e, o.IgnoreTrailingSlash)
	}
	t.routes.finish()
	t.refused.finish()
	return t, refusals
}
