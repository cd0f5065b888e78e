package match

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

type entry struct {
	route      *eskip.Route
	patterns   []pattern // one for Path or PathSubtree; none in the root stage; more only for a refused route
	weight     int
	conditions []condition
	hosts      []string // keys of all hosts that the route accepts; nil if unknown
	refusal    *Refusal // nil for a route that can win
	partly     bool     // some predicate has no condition and cannot be evaluated
}

type builder struct {
	options   Options
	exprs     expressions
	catalogue *catalogue.Catalogue
}

// entry fills in the entry of a route, with every condition of a refused one that can be evaluated.
func (b *builder) entry(e *entry, r *eskip.Route) {
	e.route = r
	if reason, err := b.catalogue.Check(r); err != nil {
		e.refusal = &Refusal{Route: r, Reason: reason, Text: err.Error()}
	}
	b.predicates(e)
	b.paths(e)
	b.fields(e)
	if e.refusal == nil && slices.ContainsFunc(e.patterns, func(p pattern) bool { return p.dead }) {
		e.refusal = &Refusal{Route: r, Reason: Dead, Text: "a path with : or * inside a segment matches nothing"}
	}
}

func (b *builder) predicates(e *entry) {
	for _, p := range e.route.Predicates {
		switch p.Name {
		case "*", "Any", "PathSubtree":
			continue
		}
		if e.refusal != nil { // otherwise all predicates are valid
			if _, err := b.catalogue.Predicate(p); err != nil {
				if p.Name != "Weight" {
					e.weight++
					e.partly = true
				}
				continue
			}
		}
		if p.Name == "Weight" {
			n, _ := catalogue.Number(p.Args[0])
			e.weight += int(n)
			continue
		}
		if p.Name != "TrafficSegment" {
			e.weight++
		}
		c := condition{test: undecidedTest, why: "is a predicate that only the proxies know"}
		if !slices.Contains(b.options.ExtraPredicates, p.Name) {
			c = b.condition(p)
		}
		c.text = p.String
		e.conditions = append(e.conditions, c)
	}
}

func undecidedTest(*request) verdict { return maybe }

func (b *builder) paths(e *entry) {
	add := func(text string, subtree bool) {
		if text != "" { // otherwise it is not a path predicate
			e.patterns = append(e.patterns, parsePattern(text, subtree, b.options.IgnoreTrailingSlash))
		}
	}
	add(e.route.Path, false)
	for _, p := range e.route.Predicates {
		if t := texts(p); p.Name == "PathSubtree" && len(t) == 1 {
			add(t[0], true)
		}
	}
}

// fields builds the conditions of the predicates that are built into the matcher. They come before all others.
func (b *builder) fields(e *entry) {
	r := e.route
	others := e.conditions
	e.conditions = make([]condition, 0, 4+len(others))
	add := func(of eskip.Route, test func(*request) bool) {
		c := plain(test)
		c.text, c.host = field(of), of.HostRegexps != nil
		e.conditions = append(e.conditions, c)
	}
	for _, text := range r.HostRegexps {
		e.weight++
		x, err := b.exprs.get(text)
		if err != nil {
			x, err = b.exprs.get(strings.ReplaceAll(text, "*[.]", "[^.]+[.]")) // the probable meaning of a wildcard, for warnings
		}
		if err != nil {
			e.partly = true
			continue
		}
		if e.hosts == nil {
			e.hosts = x.hosts
		}
		add(eskip.Route{HostRegexps: []string{text}}, func(r *request) bool { return x.match(r.host) })
	}
	for _, text := range r.PathRegexps {
		e.weight++
		x, err := b.exprs.get(text)
		if err != nil {
			e.partly = true
			continue
		}
		add(eskip.Route{PathRegexps: []string{text}}, func(r *request) bool { return x.match(r.path) })
	}
	if m := r.Method; m != "" {
		e.weight++
		add(eskip.Route{Method: m}, func(r *request) bool { return r.method == m })
	}
	exact := make(map[string][]string, len(r.Headers))
	for name, val := range r.Headers {
		exact[name] = []string{val}
	}
	e.headers(exact, func(name string) eskip.Route { return eskip.Route{Headers: map[string]string{name: r.Headers[name]}} },
		func(text string) (func(string) bool, error) { return func(s string) bool { return s == text }, nil })
	e.headers(r.HeaderRegexps, func(name string) eskip.Route {
		return eskip.Route{HeaderRegexps: map[string][]string{name: r.HeaderRegexps[name][len(r.HeaderRegexps[name])-1:]}}
	}, func(expr string) (func(string) bool, error) {
		x, err := b.exprs.get(expr)
		return x.match, err
	})
	e.conditions = append(e.conditions, others...)
}

// headers appends one condition for each distinct header name in canonical case; their number also counts for the weight. Of
// several spellings of a name the reference keeps an arbitrary one.
func (e *entry) headers(headers map[string][]string, of func(name string) eskip.Route, testOf func(string) (func(string) bool, error)) {
	spellings := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		key := textproto.CanonicalMIMEHeaderKey(name)
		spellings[key] = append(spellings[key], name)
	}
	for _, key := range slices.Sorted(maps.Keys(spellings)) {
		e.weight++
		var alternatives []func(lines []string) bool // of each spelling
		for _, name := range spellings[key] {
			var tests []func(string) bool
			for _, text := range headers[name] {
				if test, err := testOf(text); err != nil {
					e.partly = true
				} else {
					tests = append(tests, test)
				}
			}
			alternatives = append(alternatives, func(lines []string) bool {
				return !slices.ContainsFunc(tests, func(test func(string) bool) bool { return !slices.ContainsFunc(lines, test) })
			})
		}
		e.conditions = append(e.conditions, condition{
			text: field(of(spellings[key][0])), why: "names one header in several spellings; a proxy keeps an arbitrary one",
			test: func(r *request) verdict {
				first := verdictOf(alternatives[0](r.header[key]))
				for _, other := range alternatives[1:] {
					if verdictOf(other(r.header[key])) != first {
						return maybe
					}
				}
				return first
			},
		})
	}
}

func (e *entry) ask(r *request) verdict {
	v := yes
	for i := 0; i < len(e.conditions) && v != no; i++ {
		v = min(v, e.conditions[i].test(r))
	}
	return v
}

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
