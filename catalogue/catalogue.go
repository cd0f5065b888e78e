// Package catalogue knows the filters and predicates of Skipper v0.27.65, and which routes a proxy refuses: it drops these, and
// reports that only in its log. Routes whose validity depends on flags, files or networks count as valid.
//
// Other modules should not import it: it may change with every release.
package catalogue

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// The texts list names with the arguments that their constructors accept. Their headers describe the columns.
var (
	//go:embed filters.txt
	filtersText string
	//go:embed predicates.txt
	predicatesText string
)

// The texts are parsed once; the result must not be changed.
var (
	knownFilters    = sync.OnceValue(func() map[string]*spec { return readSpecs(filtersText) })
	knownPredicates = sync.OnceValue(func() map[string]*spec { return readSpecs(predicatesText) })
)

// Reason is why a proxy does not use a route. All reasons except Dropped are labels of the metric skipper_route_invalid.
type Reason string

// The reasons.
const (
	FailedBackendSplit     Reason = "failed_backend_split"
	UnknownFilter          Reason = "unknown_filter"
	InvalidFilterParams    Reason = "invalid_filter_params"
	InvalidPredicateParams Reason = "invalid_predicate_params"
	UnknownPredicate       Reason = "unknown_predicate"
	Other                  Reason = "other"
	InvalidMatcher         Reason = "invalid_matcher"
	Dropped                Reason = "dropped" // the load balancer does not accept the backend; no metric shows this
)

// Options describe how the proxies differ from a Skipper without flags. The zero value is that Skipper.
type Options struct {
	ForwardBackendURL string // -forward-backend-url

	// DisabledFilters are not known. The arguments of extra filters and predicates are not checked.
	DisabledFilters, ExtraFilters, ExtraPredicates []string

	// Zone finds time zones like time.LoadLocation, which reads files. If it is nil, every name is valid.
	Zone func(name string) (*time.Location, error)
}

// Catalogue knows the filters and predicates of the proxies. It is immutable and safe for concurrent use.
type Catalogue struct {
	options             Options
	filters, predicates map[string]*spec
}

// New returns a catalogue. The first call parses a few hundred lines.
func New(o Options) *Catalogue { return &Catalogue{o, knownFilters(), knownPredicates()} }

// Check returns the first mistake for which a proxy would refuse or drop the route, in the order in which it checks.
func (c *Catalogue) Check(r *eskip.Route) (Reason, error) {
	if err := c.Backend(r); err != nil {
		return FailedBackendSplit, err
	}
	if r.BackendType != eskip.ForwardBackend { // a forward backend loses its filters
		if reason, err := c.Filters(r.Filters); err != nil {
			return reason, err
		}
	}
	for _, p := range r.Predicates {
		if reason, err := c.Predicate(p); err != nil {
			return reason, err
		}
	}
	patterns, err := patternsOf(r)
	switch {
	case err != nil:
		return Other, err
	case len(patterns) > 1:
		return Other, errors.New("more than one of Path and PathSubtree")
	}
	if r.BackendType == eskip.LBBackend {
		if err := checkBalanced(r); err != nil {
			return Dropped, err
		}
	}
	if err := cmp.Or(checkFields(r), checkPatterns(patterns)); err != nil {
		return InvalidMatcher, err
	}
	return "", nil
}

// Backend checks the address of a network backend.
func (c *Catalogue) Backend(r *eskip.Route) error {
	address := r.Backend
	switch {
	case r.Shunt, r.BackendType != eskip.NetworkBackend && r.BackendType != eskip.ForwardBackend:
		return nil
	case r.BackendType == eskip.ForwardBackend:
		address = c.options.ForwardBackendURL
	}
	if address == "" || plainEndpoint(address) {
		return nil // a backend without an address is valid, and proxies answer 500
	}
	u, err := url.ParseRequestURI(address)
	if err != nil {
		return err
	}
	if u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("backend %q has no scheme or no host", address)
	}
	return nil
}

// Algorithms are the names of the load balancing algorithms. They must not be changed.
var Algorithms = []string{"roundRobin", "random", "consistentHash", "powerOfRandomNChoices", "weightedRoundRobin", "leastRequests"}

// checkBalanced checks a load balanced backend. A mistake here makes the route disappear without a trace in the proxy.
func checkBalanced(r *eskip.Route) error {
	if r.LBAlgorithm != "" && !slices.Contains(Algorithms, r.LBAlgorithm) {
		return fmt.Errorf("no load balancing algorithm %q", r.LBAlgorithm)
	}
	if len(r.LBEndpoints) == 0 {
		return errors.New("load balanced backend without endpoints")
	}
	for _, ep := range r.LBEndpoints {
		if plainEndpoint(ep.Address) {
			continue
		}
		if u, err := url.ParseRequestURI(ep.Address); err != nil || u.Host == "" {
			return fmt.Errorf("endpoint %q has no host", ep.Address)
		}
	}
	return nil
}

// plainEndpoint reports whether an address has the usual form of a pod's: http://10.2.0.1:8080.
func plainEndpoint(s string) bool {
	rest, ok := strings.CutPrefix(s, "http://")
	return ok && rest != "" && rest[0] != ':' && strings.Trim(rest, "0123456789.:") == "" && strings.Count(rest, ":") <= 1
}

// Filters checks the filters of a route, from left to right.
func (c *Catalogue) Filters(filters []*eskip.Filter) (Reason, error) {
	for _, f := range filters {
		known := c.filters[f.Name]
		switch {
		case slices.Contains(c.options.DisabledFilters, f.Name):
			return UnknownFilter, fmt.Errorf("filter %q is disabled", f.Name)
		case slices.Contains(c.options.ExtraFilters, f.Name):
		case known == nil:
			return UnknownFilter, fmt.Errorf("filter %q not found", f.Name)
		default:
			if err := known.check(f.Args); err != nil {
				return InvalidFilterParams, fmt.Errorf("%s: %w", f, err)
			}
		}
	}
	return "", nil
}

// AtLoad returns what a proxy does with the filter each time it loads a table: "runs code", "asks the network", or "". A script
// that never ends, or a server that does not answer, prevents a proxy from applying this table and every later one.
func (c *Catalogue) AtLoad(name string) string {
	known := c.filters[name]
	switch {
	case known == nil || slices.Contains(c.options.DisabledFilters, name):
		return ""
	case strings.Contains(known.depends, "script"):
		return "runs code"
	case known.depends == "network", known.depends == "environment": // the latter downloads a policy
		return "asks the network"
	default:
		return ""
	}
}

// Notes returns notes about filters that exist only in some proxies, or whose constructor may fail.
func (c *Catalogue) Notes(r *eskip.Route) []string {
	var notes []string
	if r.BackendType == eskip.ForwardBackend {
		return nil // a forward backend loses its filters
	}
	for _, f := range r.Filters {
		known := c.filters[f.Name]
		if known == nil {
			continue
		}
		if known.needs != "" {
			notes = append(notes, fmt.Sprintf("filter %s exists only in a proxy with %s; any other drops the route", f.Name, known.needs))
		}
		if known.depends != "" {
			notes = append(notes, fmt.Sprintf("filter %s depends on %s: a proxy drops the route if it fails", f.Name, known.depends))
		}
	}
	return notes
}

// Similar returns names that may be meant by an unknown one: with another case, or one or two other letters.
func (c *Catalogue) Similar(name string, predicates bool) []string {
	all := slices.Collect(maps.Keys(c.filters))
	if predicates {
		all = slices.AppendSeq(slices.Clone(matched), maps.Keys(c.predicates))
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(known string) bool {
		return !strings.EqualFold(known, name) && Distance(known, name) > min(2, len(name)/4)
	})
}

// Distance returns how many letters to insert, delete, replace or swap with their neighbour to get from a to b.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func checkFields(r *eskip.Route) (wrong error) {
	check := func(name, expr string) {
		if wrong != nil || plainExpression(expr) {
			return
		}
		if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
			wrong = fmt.Errorf("predicate %s: %w", name, err)
		}
	}
	for _, h := range r.HostRegexps {
		check("Host", h)
	}
	for _, p := range r.PathRegexps {
		check("PathRegexp", p)
	}
	for _, list := range r.HeaderRegexps {
		for _, e := range list {
			check("HeaderRegexp", e)
		}
	}
	for _, p := range r.Predicates {
		if n := expressionArgs[p.Name]; n > 0 && len(p.Args) == n {
			if expr, ok := p.Args[n-1].(string); ok {
				check(p.Name, expr)
			}
		}
	}
	return wrong
}

// expressionArgs is the number of arguments, the last an expression, of predicates that programs leave in the list.
var expressionArgs = map[string]int{"Host": 1, "PathRegexp": 1, "HeaderRegexp": 2}

// plainExpression reports whether an expression certainly compiles, in a tenth of the time of compiling it.
func plainExpression(expr string) bool {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '-' <= c && c <= '9' || c == '_' || c == '|' // - . / and digits
	}
	expr = strings.TrimPrefix(expr, "^")
	if group, ok := strings.CutPrefix(expr, "("); ok && strings.HasSuffix(group, ")$") {
		expr = strings.TrimSuffix(group, ")$")
	}
	for more := true; more; {
		expr = strings.TrimLeftFunc(expr, plain)
		expr, more = strings.CutPrefix(expr, "[.]")
		expr = strings.TrimPrefix(expr, "?(:[0-9]+)?")
	}
	return expr == ""
}
