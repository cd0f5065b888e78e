package match

import (
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// entry is a route prepared for matching.
type entry struct {
	route      *eskip.Route
	patterns   []pattern // one for Path or PathSubtree; none in the root stage; more only for a refused route
	weight     int
	conditions []condition
	hosts      []string // keys of all hosts that the route accepts; nil if unknown
	refusal    *Refusal // nil for a route that can win
	partly     bool     // some predicate has no condition and cannot be evaluated
}

// builder builds entries.
type builder struct {
	options   Options
	exprs     expressions
	catalogue *catalogue.Catalogue
	conds     map[*expression]func(*request) verdict // for Host

	extraPredicates map[string]bool
}

func newBuilder(o Options) *builder {
	extra := map[string]bool{}
	for _, n := range o.ExtraPredicates {
		extra[n] = true
	}
	return &builder{
		options: o, exprs: expressions{}, conds: map[*expression]func(*request) verdict{}, extraPredicates: extra,
		catalogue: catalogue.New(catalogue.Options{
			ForwardBackendURL: o.ForwardBackendURL, DisabledFilters: o.DisabledFilters, ExtraFilters: o.ExtraFilters,
			ExtraPredicates: o.ExtraPredicates,
		}),
	}
}

// entry fills in the entry of a route. It makes the checks of the reference in the same order; the first failure is the refusal.
// It still builds every condition that can be evaluated.
func (b *builder) entry(e *entry, r *eskip.Route) {
	e.route = r
	refuse := func(reason Reason, err error) {
		if err != nil && e.refusal == nil {
			e.refusal = &Refusal{Route: r, Reason: reason, Text: err.Error()}
		}
	}
	forward := r.BackendType == eskip.ForwardBackend
	refuse(FailedBackendSplit, b.catalogue.Backend(r))
	if !forward {
		refuse(b.catalogue.Filters(r.Filters))
	}
	b.predicates(e, refuse)
	b.paths(e, refuse)
	if r.BackendType == eskip.LBBackend {
		refuse(Dropped, catalogue.Balanced(r))
	}
	b.fields(e, refuse)
}

// predicates builds the conditions of the predicates without a field of their own, from left to right.
func (b *builder) predicates(e *entry, refuse func(Reason, error)) {
	for _, p := range e.route.Predicates {
		switch p.Name {
		case "*", "Any", "Path", "PathSubtree", "Host", "PathRegexp", "Method", "Header", "HeaderRegexp":
			continue
		case "Weight":
			n, err := numbers(p.Args, 1, 1)
			if err != nil {
				refuse(InvalidPredicateParams, fmt.Errorf("%s: %w", p, err))
				continue
			}
			e.weight += int(n[0])
			continue
		}
		e.weight++
		construct := constructors(p.Name)
		if b.extraPredicates[p.Name] {
			construct = unknown
		}
		if construct == nil {
			e.partly = true
			refuse(UnknownPredicate, fmt.Errorf("predicate %q not found", p.Name))
			continue
		}
		c, err := construct(b, p.Args)
		if err != nil {
			e.partly = true
			refuse(InvalidPredicateParams, fmt.Errorf("%s: %w", p, err))
			continue
		}
		if p.Name == "TrafficSegment" {
			e.weight--
		}
		c.source = p
		e.conditions = append(e.conditions, c)
	}
}

// unknown builds the condition of a predicate that only the proxies know.
func unknown(*builder, []any) (condition, error) {
	return condition{
		test: func(*request) verdict { return maybe }, chance: -1, why: "is a predicate that only the proxies know",
	}, nil
}

// paths determines the route's places in the tree of paths.
func (b *builder) paths(e *entry, refuse func(Reason, error)) {
	given := 0
	add := func(text string, subtree bool) {
		if text == "" {
			return // no path predicate
		}
		given++
		e.patterns = append(e.patterns, parsePattern(text, subtree, b.options.IgnoreTrailingSlash))
		if given > 1 {
			refuse(Other, errors.New("more than one of Path and PathSubtree"))
		}
	}
	add(e.route.Path, false)
	for _, p := range e.route.Predicates {
		if p.Name != "Path" && p.Name != "PathSubtree" {
			continue
		}
		t, err := texts(p.Args, 1, 1)
		if err != nil {
			refuse(Other, fmt.Errorf("%s: %w", p, err))
			continue
		}
		add(t[0], p.Name == "PathSubtree")
	}
}

// fields builds the conditions of the predicates that are built into the matcher. They come before all others.
func (b *builder) fields(e *entry, refuse func(Reason, error)) {
	r := folded(e.route)
	n := len(r.HostRegexps) + len(r.PathRegexps) + len(r.Headers) + len(r.HeaderRegexps) + len(e.conditions)
	if r.Method != "" {
		n++
	}
	conditions := make([]condition, 0, n)
	for _, text := range r.HostRegexps {
		x, err := b.exprs.get(text)
		e.weight++
		if err != nil {
			refuse(InvalidMatcher, fmt.Errorf("predicate Host: %w", err))
			if x, err = b.exprs.get(meantHost(text)); err != nil {
				e.partly = true
				continue
			}
		}
		if e.hosts == nil {
			e.hosts = x.hosts
		}
		conditions = append(conditions, condition{name: "Host", args: [2]string{text}, test: b.host(x)})
	}
	for _, text := range r.PathRegexps {
		x, err := b.exprs.get(text)
		e.weight++
		if err != nil {
			e.partly = true
			refuse(InvalidMatcher, fmt.Errorf("predicate PathRegexp: %w", err))
			continue
		}
		test := func(r *request) verdict { return verdictOf(x.match(r.path)) }
		conditions = append(conditions, condition{name: "PathRegexp", args: [2]string{text}, test: test})
	}
	if m := r.Method; m != "" {
		e.weight++
		test := func(r *request) verdict { return verdictOf(r.method == m) }
		conditions = append(conditions, condition{name: "Method", args: [2]string{m}, test: test})
	}
	conditions = b.headerFields(conditions, e, r, refuse)
	e.conditions = append(conditions, e.conditions...)
	for _, p := range e.patterns {
		refuse(InvalidMatcher, p.wrong)
		if p.dead {
			refuse(Dead, errors.New("a path with : or * inside a segment matches nothing"))
		}
	}
}

// meantHost returns the probable meaning of a wildcard in the host of an Ingress, which the compiler keeps and no proxy can
// compile. It is used only for warnings.
func meantHost(expr string) string { return strings.ReplaceAll(expr, "*[.]", "[^.]+[.]") }

// headerFields appends one condition for each distinct header name in canonical case; their number also counts for the weight.
func (b *builder) headerFields(conditions []condition, e *entry, r *eskip.Route, refuse func(Reason, error)) []condition {
	const arbitrary = "names one header in several spellings, of which a proxy keeps an arbitrary one"
	for _, names := range spellings(r.Headers) {
		test, _ := b.headers(names, func(name string) ([]func(string) bool, error) {
			want := r.Headers[name]
			return []func(string) bool{func(s string) bool { return s == want }}, nil
		})
		e.weight++
		conditions = append(conditions, condition{
			name: "Header", args: [2]string{names[0], r.Headers[names[0]]}, test: test, why: arbitrary, chance: -1,
		})
	}
	for _, names := range spellings(r.HeaderRegexps) {
		e.weight++
		var text string
		test, err := b.headers(names, func(name string) (tests []func(string) bool, err error) {
			for _, expr := range r.HeaderRegexps[name] {
				x, err := b.exprs.get(expr)
				if err != nil {
					return nil, err
				}
				text = expr
				tests = append(tests, x.match)
			}
			return tests, nil
		})
		if err != nil {
			e.partly = true
			refuse(InvalidMatcher, fmt.Errorf("predicate HeaderRegexp: %w", err))
			continue
		}
		conditions = append(conditions, condition{
			name: "HeaderRegexp", args: [2]string{names[0], text}, test: test, why: arbitrary, chance: -1,
		})
	}
	return conditions
}

// spellings groups the names of headers that differ only in case.
func spellings[V any](headers map[string]V) [][]string {
	if len(headers) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(headers))
	if len(names) == 1 {
		return [][]string{names}
	}
	var groups [][]string
	for _, n := range names {
		key := textproto.CanonicalMIMEHeaderKey(n)
		i := slices.IndexFunc(groups, func(g []string) bool { return textproto.CanonicalMIMEHeaderKey(g[0]) == key })
		if i < 0 {
			groups = append(groups, []string{n})
			continue
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// host returns the test of a host expression, shared by all routes.
func (b *builder) host(x *expression) func(*request) verdict {
	test := b.conds[x]
	if test == nil {
		test = func(r *request) verdict { return verdictOf(x.match(r.host)) }
		b.conds[x] = test
	}
	return test
}

// folded returns the route with predicates moved to their fields. The parser does that; routes created by programs may have them
// in the list of predicates.
func folded(r *eskip.Route) *eskip.Route {
	builtIn := func(p *eskip.Predicate) bool {
		switch p.Name {
		case "Host", "PathRegexp", "Method", "Header", "HeaderRegexp":
			return true
		}
		return false
	}
	if !slices.ContainsFunc(r.Predicates, builtIn) {
		return r
	}
	c := *r
	c.HostRegexps, c.PathRegexps = slices.Clone(r.HostRegexps), slices.Clone(r.PathRegexps)
	c.Headers, c.HeaderRegexps = map[string]string{}, map[string][]string{}
	maps.Copy(c.Headers, r.Headers)
	for name, list := range r.HeaderRegexps {
		c.HeaderRegexps[name] = slices.Clone(list)
	}
	for _, p := range r.Predicates {
		args, err := texts(p.Args, 1, 2)
		if err != nil || !builtIn(p) || len(args) < 2 && strings.HasPrefix(p.Name, "Header") {
			continue
		}
		switch p.Name {
		case "Host":
			c.HostRegexps = append(c.HostRegexps, args[0])
		case "PathRegexp":
			c.PathRegexps = append(c.PathRegexps, args[0])
		case "Method":
			c.Method = args[0]
		case "Header":
			c.Headers[args[0]] = args[1]
		case "HeaderRegexp":
			c.HeaderRegexps[args[0]] = append(c.HeaderRegexps[args[0]], args[1])
		}
	}
	return &c
}

// ask evaluates the conditions. It returns the verdict of all, and the first condition that does not hold.
func (e *entry) ask(r *request) (verdict, *condition) {
	v := yes
	for i := range e.conditions {
		switch e.conditions[i].test(r) {
		case no:
			return no, &e.conditions[i]
		case maybe:
			v = maybe
		}
	}
	return v, nil
}

// open returns the undecided conditions, and in failed those that do not hold.
func (e *entry) open(r *request) (open, failed []*condition) {
	for i := range e.conditions {
		switch c := &e.conditions[i]; c.test(r) {
		case no:
			failed = append(failed, c)
		case maybe:
			open = append(open, c)
		}
	}
	return open, failed
}
