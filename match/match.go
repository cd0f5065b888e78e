// Package match finds the route that a request reaches, as Skipper does.
//
// [New] builds a [Table] from the routes that a proxy loads. [Table.Find] evaluates one [Request] and returns which route wins,
// which come next and why they lost, and which routes would have matched if the proxy had not refused them.
//
// # Guarantees
//
// The answer equals Skipper v0.27.65: its order of places in the tree of paths and of weights at one place, its normalisation of
// paths and hosts, its predicates with their quirks, and the routes that it refuses or drops. The package never guesses. Routes
// of equal weight at one place, and predicates that are random, use the clock or need an unknown address, lead to several
// outcomes instead of one. Each outcome has its conditions and, where it can be computed, its share of the requests.
//
// A Table is immutable and safe for concurrent use. The package does no I/O, reads no clock and does not log.
//
// # What it does not do
//
// Only the first lookup is evaluated: filters do not run, so a <loopback> is not followed. The request must contain the headers
// that a proxy adds itself (-forwarded-headers), and the table the routes that it adds or edits itself (-default-filters,
// -edit-route, -clone-route). Whether a filter exists may depend on flags, and whether its constructor accepts the arguments may
// depend on files and networks; such routes count as valid, and [Outcome.Notes] names the dependency.
package match

import (
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// Options are the settings of the proxies that affect matching. The zero value is a Skipper without flags, except for
// ValidateQuery, which is on by default in Skipper.
type Options struct {
	IgnoreTrailingSlash bool   // -ignore-trailing-slash
	NormalizeHost       bool   // -normalize-host, which -kubernetes implies
	RFCPatchPath        bool   // -rfc-patch-path
	ValidateQuery       bool   // -validate-query
	ForwardBackendURL   string // -forward-backend-url

	// DisabledFilters are the names of -disabled-filters. ExtraFilters and ExtraPredicates are additional names that a custom
	// build of Skipper knows: such filters are valid, such predicates are undecided.
	DisabledFilters, ExtraFilters, ExtraPredicates []string

	// Zone finds the time zones of Before, After and Between, like time.LoadLocation, which reads files. If it is nil, these
	// predicates are undecided for all zones except UTC.
	Zone func(name string) (*time.Location, error)

	// Candidates is the number of next best routes in a result, default DefaultCandidates; negative means none.
	Candidates int
}

// DefaultCandidates is the default of Options.Candidates.
const DefaultCandidates = 5

// Reason is why a proxy does not use a route. The reasons before Dropped are labels of the metric skipper_route_invalid.
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

	Dropped           = catalogue.Dropped // the load balancer does not accept the backend; no metric shows this
	Dead       Reason = "dead"            // the route counts as valid, but its path never matches
	Overridden Reason = "overridden"      // a later route of the table has the same id
)

// Refusal is a route that a proxy does not use.
type Refusal struct {
	Route  *eskip.Route
	Reason Reason
	Text   string // the mistake
}

// Table holds the routes of a proxy, prepared for requests.
type Table struct {
	options   Options
	catalogue *catalogue.Catalogue
	routes    *index // routes that can win
	refused   *index // routes that would match if they were not refused

	once  sync.Once
	known *facts // guarded by once
}

// New builds a table from the routes of one document, as the parser returns them. It keeps the routes, which must not change afterwards, and returns those
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
		if e.refusal != nil {
			refusals = append(refusals, *e.refusal)
			t.refused.add(e)
			continue
		}
		t.routes.add(e)
	}
	return t, refusals
}
