// Package eskip is the route language: its types, parser, printer and equality. Each definition of a routing table consists of
// the id of a route, conditions for requests (predicates), steps in their processing (filters), and a destination (the
// backend):
//
//	shop: Host(/^shop[.]example[.]org$/) && PathSubtree("/")
//	  -> setRequestHeader("X-Shop", "1")
//	  -> <roundRobin, "http://10.2.0.7:8080?zone=a", "http://10.2.0.8:8080?zone=b">;
//
// The exported API has the identifiers, signatures and struct fields of the package eskip of github.com/zalando/skipper, so a
// program that uses that package only needs another import path. The additions are [AppendRoute], [AppendExpr], [ValidID],
// [Equivalent], [Reader], [Editor.DoWithErrors] and [Clone.DoWithErrors].
//
// [Parse] accepts every document of the language and no other, and never panics. A document is all or nothing: one invalid
// definition makes it return no routes. It copies the strings of a large text, so one route does not keep the document.
//
// [String] prints what [Parse] reads: printing and parsing again gives routes that are [Eq]. A value that its usual literal
// cannot represent is printed in another spelling. Routes built by programs may not parse: an id must be a [ValidID], an
// endpoint a URI. The text does not preserve whether a literal was a string or a regular expression, and a printed int is
// parsed as a float64.
//
// Only [Editor], ForwardPreProcessor and UnmarshalJSON modify their arguments, and only [GenerateIfNeeded] returns a different
// result each time. All other functions are pure, and safe for concurrent use as long as no routes are modified.
//
// Where Skipper's package loses or invents something, this one does not: <forward>, long numbers, regular expressions and
// addresses of any content are printed in a form that parses; [Canonical], [Eq] and the JSON form are the same in every run;
// arguments whose type does not support == are compared by content; a zone is added to an endpoint's existing query; an
// [Editor] drops what is replaced with nothing, does not change the original routes, and reports what it could not parse; a
// failed [ParseFilters] returns no filters.
//
// Names are not checked against any registry, and regular expressions are not compiled.
//
// Other modules may import it: the exported API is stable within a major version.
package eskip

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// The kinds of backend. They are untyped constants for use as [BackendType].
const (
	NetworkBackend = iota // one address: "https://www.example.org"
	ShuntBackend          // <shunt>: the proxy itself answers
	LoopBackend           // <loopback>: the request is routed again
	DynamicBackend        // <dynamic>: a filter sets the target
	LBBackend             // <roundRobin, "http://10.0.0.1", "http://10.0.0.2">
	ForwardBackend        // <forward>: replaced by ForwardPreProcessor
)

// BackendType is the kind of a route's backend. The zero value is NetworkBackend.
type BackendType int

var backendNames = [...]string{
	NetworkBackend: "network", ShuntBackend: "shunt", LoopBackend: "loopback", DynamicBackend: "dynamic", LBBackend: "lb", ForwardBackend: "forward",
}

// BackendTypeFromString is the inverse of [BackendType.String]. The empty string means network; errors have the type -1.
func BackendTypeFromString(s string) (BackendType, error) {
	if s == "" {
		return NetworkBackend, nil
	}
	t := slices.Index(backendNames[:], s)
	if t < 0 {
		return -1, fmt.Errorf("unsupported backend type: %s", s)
	}
	return BackendType(t), nil
}

// String returns the name used in JSON, or "unknown" for a value that is not one of the constants.
func (t BackendType) String() string {
	if t < 0 || int(t) >= len(backendNames) {
		return "unknown"
	}
	return backendNames[t]
}

// Predicate is a condition for requests, in addition to those with their own fields in [Route].
type Predicate struct {
	// Name is a symbol, see [ValidID].
	Name string `json:"name"`

	// Args has only float64 and string values if it comes from the parser. It is nil if there are none.
	Args []interface{} `json:"args"`
}

// Filter is a step in the processing of a request and its response.
type Filter struct {
	// Name is a symbol, see [ValidID].
	Name string `json:"name"`

	// Args has only float64 and string values if it comes from the parser. It is nil if there are none.
	Args []interface{} `json:"args"`
}

// Route is one definition of a routing table. Some predicates have their own fields for historical reasons; one of the same
// name in Predicates means the same. A shared route must not be modified: see [Route.Copy].
type Route struct {
	// Id is the name of the route, unique in a table. It is empty for an expression without id.
	Id string

	// Path is the argument of the predicate Path. Empty if there is none.
	Path string

	// HostRegexps are the arguments of the predicates Host, in source order. All of them must match.
	HostRegexps []string

	// PathRegexps are the arguments of the predicates PathRegexp, in source order. All of them must match.
	PathRegexps []string

	// Method is the argument of the predicate Method. Empty if there is none.
	Method string

	// Headers has the arguments of the predicates Header: name to exact value.
	Headers map[string]string

	// HeaderRegexps has the arguments of the predicates HeaderRegexp: name to regular expressions, in source order.
	HeaderRegexps map[string][]string

	// Predicates are all other predicates, in source order.
	Predicates []*Predicate

	// Filters are applied in this order to a request, and in the reverse order to its response.
	Filters []*Filter

	// Shunt is set, in addition to BackendType, for <shunt>. A network route with Shunt set is a shunt.
	Shunt bool

	// BackendType is the kind of the backend.
	BackendType BackendType

	// Backend is the address of a network backend. It is not validated by the parser.
	Backend string

	// LBAlgorithm is the name of the load balancing algorithm of an LBBackend. Empty leaves the choice to the proxy.
	LBAlgorithm string

	// LBEndpoints are the targets of an LBBackend.
	LBEndpoints []*LBEndpoint

	// Name is not used.
	Name string

	// Namespace is not used.
	Namespace string
}

// RouteInfo is a route together with the error of parsing it.
type RouteInfo struct {
	Route

	// ParseError is nil if Route is usable.
	ParseError error
}

// RoutePredicate reports whether a route is selected.
type RoutePredicate func(*Route) bool

// ValidID reports whether s is valid as an id or a name: an ASCII letter or underscore, then letters, digits and underscores.
func ValidID(s string) bool {
	return s != "" && class[s[0]]&symbolStart != 0 && isOnly(s, symbolByte)
}

// GenerateIfNeeded returns existingId, or if that is empty, "route" and 16 random letters and digits.
//
// Deprecated: nothing can refer to a generated id.
func GenerateIfNeeded(existingId string) string {
	if existingId != "" {
		return existingId
	}
	const chars = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	id := []byte("route################")
	for i := len("route"); i < len(id); i++ {
		id[i] = chars[rand.IntN(len(chars))]
	}
	return string(id)
}

// Copy returns a [Canonical] copy of r with its own predicates, filters and slices, which are not nil. It shares endpoints and
// the values of arguments. See [Route.Copy] for a copy in the same form.
func Copy(r *Route) *Route {
	if r == nil {
		return nil
	}
	c := Canonical(r)
	c.Predicates = CopyPredicates(c.Predicates)
	c.Filters = CopyFilters(c.Filters)
	c.LBEndpoints = append([]*LBEndpoint{}, c.LBEndpoints...)
	return c
}

// each applies a function to each element. The result is not nil.
func each[T, U any](list []T, one func(T) U) []U {
	out := make([]U, len(list))
	for i := range list {
		out[i] = one(list[i])
	}
	return out
}

// CopyRoutes applies [Copy] to each route. The result is not nil.
func CopyRoutes(r []*Route) []*Route { return each(r, Copy) }

// CopyPredicate returns a copy with its own slice of arguments, which is not nil. CopyPredicate(nil) is nil.
func CopyPredicate(p *Predicate) *Predicate {
	if p == nil {
		return nil
	}
	return &Predicate{Name: p.Name, Args: append([]interface{}{}, p.Args...)}
}

// CopyPredicates applies [CopyPredicate] to each predicate. The result is not nil.
func CopyPredicates(p []*Predicate) []*Predicate { return each(p, CopyPredicate) }

// CopyFilter returns a copy with its own slice of arguments, which is not nil. CopyFilter(nil) is nil.
func CopyFilter(f *Filter) *Filter { return (*Filter)(CopyPredicate((*Predicate)(f))) }

// CopyFilters applies [CopyFilter] to each filter. The result is not nil.
func CopyFilters(f []*Filter) []*Filter { return each(f, CopyFilter) }

// Copy returns a copy in the same form, which shares only the values of arguments with r.
func (r *Route) Copy() *Route {
	if r == nil {
		return nil
	}
	c := *r
	c.HostRegexps = slices.Clone(r.HostRegexps)
	c.PathRegexps = slices.Clone(r.PathRegexps)
	c.Headers = maps.Clone(r.Headers)
	c.HeaderRegexps = maps.Clone(r.HeaderRegexps)
	for k, v := range c.HeaderRegexps {
		c.HeaderRegexps[k] = slices.Clone(v)
	}
	if c.Predicates != nil {
		c.Predicates = each(c.Predicates, (*Predicate).Copy)
	}
	if c.Filters != nil {
		c.Filters = each(c.Filters, (*Filter).Copy)
	}
	if c.LBEndpoints != nil {
		c.LBEndpoints = each(c.LBEndpoints, (*LBEndpoint).copy)
	}
	return &c
}

// Copy returns a copy that shares only the values of arguments with p.
func (p *Predicate) Copy() *Predicate {
	if p == nil {
		return nil
	}
	return &Predicate{Name: p.Name, Args: slices.Clone(p.Args)}
}

// Copy returns a copy that shares only the values of arguments with f.
func (f *Filter) Copy() *Filter { return (*Filter)((*Predicate)(f).Copy()) }

func (ep *LBEndpoint) copy() *LBEndpoint {
	if ep == nil {
		return nil
	}
	c := *ep
	return &c
}
