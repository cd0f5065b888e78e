package eskip

import (
	"fmt"
	"regexp"
	"slices"
)

// DefaultFilters adds filters to all routes.
type DefaultFilters struct {
	// Prepend and Append are added before and after the filters of each route. The routes share them.
	Prepend, Append []*Filter
}

// Do returns new routes, which share everything except their filter slice with routes.
func (df *DefaultFilters) Do(routes []*Route) []*Route {
	if len(df.Prepend) == 0 && len(df.Append) == 0 {
		return routes
	}
	out := make([]*Route, len(routes))
	for i, r := range routes {
		c := *r
		c.Filters = slices.Concat(df.Prepend, r.Filters, df.Append)
		out[i] = &c
	}
	return out
}

// Editor changes predicates and filters by their text. Use [NewEditor].
type Editor struct {
	reg  *regexp.Regexp
	repl string
}

// Clone adds changed copies of routes. Use [NewClone].
type Clone Editor

const clonePrefix = "clone_"

// NewEditor returns an Editor that replaces matches of reg with repl, which may have $1 and so on. A nil reg does nothing.
func NewEditor(reg *regexp.Regexp, repl string) *Editor {
	return &Editor{reg, repl}
}

// NewClone returns a Clone that replaces matches of reg with repl, which may have $1 and so on. A nil reg does nothing.
func NewClone(reg *regexp.Regexp, repl string) *Clone {
	return &Clone{reg, repl}
}

// Do is [Editor.DoWithErrors] for callers that ignore the errors.
func (e *Editor) Do(routes []*Route) []*Route {
	out, _ := e.DoWithErrors(routes)
	return out
}

// DoWithErrors applies the expression to each predicate and filter of each [Canonical] route, as its String method prints it,
// so a host is Host("^a[.]b$"). If that changes the text, it is parsed: its first predicate or filter replaces the old one,
// which is dropped if there is none. If it does not parse, an error is returned, and the old one stays.
//
// Edited routes, which are canonical, replace the originals in routes, which is also returned. The original structs, and routes
// without a match, do not change.
func (e *Editor) DoWithErrors(routes []*Route) ([]*Route, []error) {
	if e.reg == nil {
		return routes, nil
	}
	errs := e.apply(routes, func(i int, edited *Route) { routes[i] = edited })
	return routes, errs
}

// Do is [Clone.DoWithErrors] for callers that ignore the errors.
func (c *Clone) Do(routes []*Route) []*Route {
	out, _ := c.DoWithErrors(routes)
	return out
}

// DoWithErrors appends what [Editor.DoWithErrors] would make of routes that it edits, with ids that begin with "clone_".
func (c *Clone) DoWithErrors(routes []*Route) ([]*Route, []error) {
	if c.reg == nil {
		return routes, nil
	}
	out := slices.Clone(routes)
	errs := (*Editor)(c).apply(routes, func(_ int, clone *Route) {
		clone.Id = clonePrefix + clone.Id
		out = append(out, clone)
	})
	return out, errs
}

func (e *Editor) apply(routes []*Route, use func(i int, edited *Route)) (errs []error) {
	for i, r := range routes {
		if r == nil {
			continue
		}
		c := Canonical(r)
		var predicates, filters bool
		c.Predicates, predicates = editAll(e, &errs, c.Id, "predicate", c.Predicates, (*Predicate).String, ParsePredicates)
		c.Filters, filters = editAll(e, &errs, c.Id, "filter", c.Filters, (*Filter).String, ParseFilters)
		if predicates || filters {
			use(i, c)
		}
	}
	return errs
}

func editAll[T any](e *Editor, errs *[]error, id, what string, in []*T, format func(*T) string, parse func(string) ([]*T, error)) (
	out []*T, changed bool) {
	for _, item := range in {
		text := format(item)
		replaced := e.reg.ReplaceAllString(text, e.repl)
		if replaced == text {
			out = append(out, item)
			continue
		}
		parsed, err := parse(replaced)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("parse %s: %w, after %s of route %q was edited", what, err, text, id))
			out = append(out, item)
			continue
		}
		changed = true
		if len(parsed) > 0 {
			out = append(out, parsed[0])
		}
	}
	return out, changed
}

type fwdBackend struct{ url string }

// ForwardPreProcessor returns a pre-processor whose method Do changes each route with a ForwardBackend, in place, to a route
// with the address s and without filters: the receiver of the request applies its own.
func ForwardPreProcessor(s string) *fwdBackend { return &fwdBackend{url: s} }

// Do changes the routes in place and returns them.
func (f *fwdBackend) Do(routes []*Route) []*Route {
	for _, r := range routes {
		if r.BackendType == ForwardBackend {
			r.BackendType = NetworkBackend
			r.Backend = f.url
			r.Filters = nil
		}
	}
	return routes
}
