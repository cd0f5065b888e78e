// Package catalogue knows the filters and predicates of Skipper, and which routes a proxy refuses.
//
// A proxy that cannot make a filter or predicate of a route leaves that route out, and tells nobody but its log. What is refused
// is known of Skipper v0.27.65 by probing its constructors. Some of it depends on the flags of a proxy, or on files and networks:
// such routes count as good.
package catalogue

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/eskip"
)

// The texts have the filters and predicates, and what their constructors accept. Their heads describe the columns.
var (
	//go:embed filters.txt
	filtersText string
	//go:embed predicates.txt
	predicatesText string
)

// The texts are read once; nobody changes what was read.
var (
	knownFilters    = sync.OnceValue(func() map[string]*spec { return readSpecs(filtersText) })
	knownPredicates = sync.OnceValue(func() map[string]*spec { return readSpecs(predicatesText) })
)

// Reason is why a proxy does not use a route. Those but Dropped are labels of the metric skipper_route_invalid.
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
	Dropped                Reason = "dropped" // the load balancer does not accept the backend; no metric shows it
)

// Options are the differences of the proxies from a Skipper without flags. The zero value is that Skipper.
type Options struct {
	ForwardBackendURL string // -forward-backend-url

	// DisabledFilters are the names of -disabled-filters. ExtraFilters and ExtraPredicates are names that a build of Skipper
	// knows beyond its own: their arguments are not looked at.
	DisabledFilters, ExtraFilters, ExtraPredicates []string
}

// Catalogue is what proxies know. It is immutable and safe for concurrent use.
type Catalogue struct {
	forwardURL          string
	filters, predicates map[string]*spec
	disabled            map[string]bool
	extraFilters        map[string]bool
	extraPredicates     map[string]bool
}

// New makes the catalogue. The first call costs as much as reading some hundred lines.
func New(o Options) *Catalogue {
	set := func(names []string) map[string]bool {
		m := make(map[string]bool, len(names))
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	return &Catalogue{
		forwardURL: o.ForwardBackendURL, filters: knownFilters(), predicates: knownPredicates(),
		disabled: set(o.DisabledFilters), extraFilters: set(o.ExtraFilters), extraPredicates: set(o.ExtraPredicates),
	}
}

// Check says why a proxy would refuse or drop the route: the first of its mistakes, in the order in which a proxy looks for
// them. Without one the reason is empty. Nothing of the route is kept.
func (c *Catalogue) Check(r *eskip.Route) (Reason, error) {
	if err := c.Backend(r); err != nil {
		return FailedBackendSplit, err
	}
	if r.BackendType != eskip.ForwardBackend { // which loses its filters
		if reason, err := c.Filters(r.Filters); err != nil {
			return reason, err
		}
	}
	if reason, err := c.predicatesOf(r.Predicates); err != nil {
		return reason, err
	}
	if err := checkPaths(r); err != nil {
		return Other, err
	}
	if r.BackendType == eskip.LBBackend {
		if err := Balanced(r); err != nil {
			return Dropped, err
		}
	}
	if err := checkFields(r); err != nil {
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
		address = c.forwardURL
	}
	if address == "" || plainEndpoint(address) {
		return nil // without an address it is valid, and answered with 500
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

// Balanced checks a load balanced backend. What is wrong with one makes the route vanish without a trace.
func Balanced(r *eskip.Route) error {
	switch r.LBAlgorithm {
	case "", "roundRobin", "random", "consistentHash", "powerOfRandomNChoices", "weightedRoundRobin", "leastRequests":
	default:
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

// plainEndpoint reports whether an address is that of a pod, as nearly all are: http://10.2.0.1:8080.
func plainEndpoint(s string) bool {
	rest, ok := strings.CutPrefix(s, "http://")
	return ok && rest != "" && rest[0] != ':' && strings.Trim(rest, "0123456789.:") == "" && strings.Count(rest, ":") <= 1
}

// Filters checks the filters of a route, from left to right.
func (c *Catalogue) Filters(filters []*eskip.Filter) (Reason, error) {
	for _, f := range filters {
		known := c.filters[f.Name]
		switch {
		case c.disabled[f.Name]:
			return UnknownFilter, fmt.Errorf("filter %q is disabled", f.Name)
		case c.extraFilters[f.Name]:
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

// Notes are about filters that exist only in some proxies, or whose constructor may fail.
func (c *Catalogue) Notes(r *eskip.Route) []string {
	var notes []string
	if r.BackendType == eskip.ForwardBackend {
		return nil // it loses its filters
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

// Similar gives the names of filters, or of predicates, that somebody may have meant by a name that does not exist: those that
// differ from it by case or by one or two letters, sorted.
func (c *Catalogue) Similar(name string, predicates bool) []string {
	all := c.filters
	if predicates {
		all = c.predicates
	}
	var found []string
	for known := range all {
		if strings.EqualFold(known, name) || distance(known, name) <= min(2, len(name)/4) {
			found = append(found, known)
		}
	}
	if predicates {
		for _, known := range []string{"Path", "PathSubtree", "PathRegexp", "Host", "Method", "Header", "HeaderRegexp"} {
			if strings.EqualFold(known, name) || distance(known, name) <= min(2, len(name)/4) {
				found = append(found, known)
			}
		}
	}
	slices.Sort(found)
	return found
}

// distance is how many letters have to be added, taken away or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// checkFields checks the expressions and paths of the predicates that are built into the matcher.
func checkFields(r *eskip.Route) error {
	expression := func(name, expr string) error {
		if plainExpression(expr) {
			return nil
		}
		if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
			return fmt.Errorf("predicate %s: %w", name, err)
		}
		return nil
	}
	for _, h := range r.HostRegexps {
		if err := expression("Host", h); err != nil {
			return err
		}
	}
	for _, p := range r.PathRegexps {
		if err := expression("PathRegexp", p); err != nil {
			return err
		}
	}
	for _, list := range r.HeaderRegexps {
		for _, e := range list {
			if err := expression("HeaderRegexp", e); err != nil {
				return err
			}
		}
	}
	for _, p := range r.Predicates {
		if name, arg, ok := builtIn(p); ok {
			if err := expression(name, arg); err != nil {
				return err
			}
		}
	}
	return checkPatterns(r)
}

// builtIn gives the expression of a predicate that has a field of its own and stands among the others, as in routes that a
// program made. The parser puts them where they belong, and leaves those out that are not complete.
func builtIn(p *eskip.Predicate) (name, expr string, ok bool) {
	args := 1
	switch p.Name {
	case "Host", "PathRegexp":
	case "HeaderRegexp":
		args = 2
	default:
		return "", "", false
	}
	if len(p.Args) != args {
		return "", "", false
	}
	expr, ok = p.Args[args-1].(string)
	return p.Name, expr, ok
}

// plainExpression reports whether an expression is one of a host as compilers make it, or has no byte that means anything but
// itself: those compile, and to find that out so costs a tenth.
func plainExpression(expr string) bool {
	inner, ok := strings.CutPrefix(expr, "^(")
	if ok {
		inner, ok = strings.CutSuffix(inner, ")$")
	}
	if !ok {
		inner = strings.TrimPrefix(expr, "^")
	}
	for inner != "" {
		switch b := inner[0]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '-', b == '_', b == '/', b == '.', 'A' <= b && b <= 'Z':
			inner = inner[1:]
		case b == '|' && len(inner) > 1 && inner[1] != '|':
			inner = inner[1:]
		case strings.HasPrefix(inner, "[.]?(:[0-9]+)?"):
			inner = inner[len("[.]?(:[0-9]+)?"):]
		case strings.HasPrefix(inner, "[.]"):
			inner = inner[len("[.]"):]
		default:
			return false
		}
	}
	return true
}
