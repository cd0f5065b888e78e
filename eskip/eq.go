package eskip

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Canonical returns a new route that means the same as r, in the form that [Eq] compares and the JSON form shows: all
// predicates are in Predicates, sorted by name, those of one name in their order; endpoints are sorted by address, then zone;
// Shunt has become the type ShuntBackend; unused fields are empty. It shares predicates, filters and endpoints with r.
func Canonical(r *Route) *Route {
	if r == nil {
		return nil
	}
	c := &Route{
		Id:          r.Id,
		Predicates:  canonicalPredicates(r),
		Filters:     r.Filters,
		BackendType: canonicalType(r),
	}
	switch c.BackendType {
	case NetworkBackend:
		c.Backend = r.Backend
	case LBBackend:
		c.LBAlgorithm = r.LBAlgorithm
		c.LBEndpoints = sortedEndpoints(r.LBEndpoints)
	}
	return c
}

// CanonicalList returns the canonical form of each route, in the order of l. It is nil for an empty list.
func CanonicalList(l []*Route) []*Route {
	if len(l) == 0 {
		return nil
	}
	return each(l, Canonical)
}

func canonicalType(r *Route) BackendType {
	if r.BackendType == NetworkBackend && r.Shunt {
		return ShuntBackend
	}
	return r.BackendType
}

func canonicalPredicates(r *Route) []*Predicate {
	n := 2 + len(r.HostRegexps) + len(r.PathRegexps) + len(r.Headers) + len(r.HeaderRegexps) + len(r.Predicates)
	ps := make([]*Predicate, 0, n)
	add := func(name string, args ...interface{}) {
		ps = append(ps, &Predicate{Name: name, Args: args})
	}
	if r.Method != "" {
		add("Method", r.Method)
	}
	ps = append(ps, r.Predicates...)
	if r.Path != "" && !slices.ContainsFunc(r.Predicates, func(p *Predicate) bool { return p.Name == "Path" }) {
		add("Path", r.Path)
	}
	for _, h := range r.HostRegexps {
		add("Host", h)
	}
	for _, p := range r.PathRegexps {
		add("PathRegexp", p)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Headers)) {
		add("Header", k, r.Headers[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.HeaderRegexps)) {
		// In printing order: all predicates must match, so their order has no meaning.
		for _, v := range slices.Sorted(slices.Values(r.HeaderRegexps[k])) {
			add("HeaderRegexp", k, v)
		}
	}
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b *Predicate) int { return strings.Compare(a.Name, b.Name) })
	return ps
}

func sortedEndpoints(eps []*LBEndpoint) []*LBEndpoint {
	out := append([]*LBEndpoint{}, eps...)
	slices.SortStableFunc(out, func(a, b *LBEndpoint) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Zone, b.Zone))
	})
	return out
}

// Eq reports whether all routes have the same id and [Canonical] forms with equal predicates, filters and backends. The order
// of endpoints and of predicates with different names makes no difference; the order of filters, and of predicates with the
// same name, does. An int 1 is not a float64 1. Fewer than two routes are always equal.
func Eq(r ...*Route) bool {
	for i := 1; i < len(r); i++ {
		if !eq(r[i-1], r[i]) {
			return false
		}
	}
	return true
}

func eq(a, b *Route) bool {
	return same(a, b, func() bool { return slices.EqualFunc(canonicalPredicates(a), canonicalPredicates(b), eqPredicate) })
}

// same compares two routes, if possible without canonical predicates: nearly all are equal and written the same way.
func same(a, b *Route, predicates func() bool) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Id == b.Id && eqBackend(a, b) && eqCalls(a.Filters, b.Filters) && (eqWrittenPredicates(a, b) || predicates())
}

func eqBackend(a, b *Route) bool {
	t := canonicalType(a)
	if t != canonicalType(b) {
		return false
	}
	switch t {
	case NetworkBackend:
		return a.Backend == b.Backend
	case LBBackend:
		return a.LBAlgorithm == b.LBAlgorithm && eqEndpoints(a.LBEndpoints, b.LBEndpoints)
	default:
		return true
	}
}

func eqEndpoints(a, b []*LBEndpoint) bool {
	equal := func(x, y *LBEndpoint) bool { return *x == *y }
	return slices.EqualFunc(a, b, equal) || len(a) == len(b) && slices.EqualFunc(sortedEndpoints(a), sortedEndpoints(b), equal)
}

func eqWrittenPredicates(a, b *Route) bool {
	return a.Path == b.Path &&
		a.Method == b.Method &&
		slices.Equal(a.HostRegexps, b.HostRegexps) &&
		slices.Equal(a.PathRegexps, b.PathRegexps) &&
		slices.EqualFunc(a.Predicates, b.Predicates, eqPredicate) &&
		maps.Equal(a.Headers, b.Headers) &&
		maps.EqualFunc(a.HeaderRegexps, b.HeaderRegexps, slices.Equal[[]string])
}

func eqPredicate(p, q *Predicate) bool { return eqCall(p.Name, p.Args, q.Name, q.Args) }

func eqCall(name string, args []interface{}, otherName string, otherArgs []interface{}) bool {
	return name == otherName && slices.EqualFunc(args, otherArgs, eqArg)
}

func eqArg(x, y interface{}) bool {
	switch v := x.(type) {
	case string:
		w, ok := y.(string)
		return ok && v == w
	case float64:
		w, ok := y.(float64)
		return ok && v == w
	case nil:
		return y == nil
	}
	if reflect.ValueOf(x).Comparable() {
		return y != nil && reflect.ValueOf(y).Comparable() && x == y
	}
	return reflect.DeepEqual(x, y)
}

// EqLists reports whether all lists have the same routes, in any order. If an id occurs twice in one list, the result is false.
func EqLists(r ...[]*Route) bool {
	sorted := make([][]*Route, len(r))
	for i, l := range r {
		if sorted[i] = sortedByID(l); sorted[i] == nil {
			return false
		}
	}
	for i := 1; i < len(sorted); i++ {
		if !slices.EqualFunc(sorted[i-1], sorted[i], eq) {
			return false
		}
	}
	return true
}

func sortedByID(l []*Route) []*Route {
	compare := func(a, b *Route) int { return strings.Compare(idOf(a), idOf(b)) }
	if l == nil {
		return []*Route{}
	}
	if !slices.IsSortedFunc(l, compare) {
		l = slices.SortedFunc(slices.Values(l), compare)
	}
	for i := 1; i < len(l); i++ {
		if compare(l[i-1], l[i]) == 0 {
			return nil
		}
	}
	return l
}

func idOf(r *Route) string {
	if r == nil {
		return ""
	}
	return r.Id
}

// Equivalent is [Eq] except for differences without a meaning, which the text form does not preserve: the order of all
// predicates; Any, Path("") and Method(""); an expression with a control character or its escape, if both match the same. So
// Equivalent(r, Parse(String(r))) holds for a route that can be printed and parsed.
func Equivalent(a, b *Route) bool {
	return same(a, b, func() bool { return equivalentPredicates(meaningful(a), meaningful(b)) })
}

func isDropped(p *Predicate) bool {
	return (p.Name == "Path" || p.Name == "Method") && len(p.Args) == 1 && p.Args[0] == ""
}

func eqCalls(a, b []*Filter) bool {
	return slices.EqualFunc(a, b, func(f, g *Filter) bool { return eqCall(f.Name, f.Args, g.Name, g.Args) })
}

func meaningful(r *Route) []*Predicate {
	return slices.DeleteFunc(canonicalPredicates(r), func(p *Predicate) bool { return p.Name == "Any" || p.Name == "*" || isDropped(p) })
}

func equivalentPredicates(a, b []*Predicate) bool {
	if len(a) != len(b) {
		return false
	}
	for i, p := range a {
		// Usually the partner is in the same position. It is moved there, so that each element has one partner.
		at := i
		for at < len(b) && b[at].Name == p.Name && !equivalentPredicate(p, b[at]) {
			at++
		}
		if at == len(b) || b[at].Name != p.Name {
			return false
		}
		b[i], b[at] = b[at], b[i]
	}
	return true
}

func equivalentPredicate(p, q *Predicate) bool {
	if eqPredicate(p, q) {
		return true
	}
	if p.Name != q.Name || len(p.Args) != len(q.Args) || len(p.Args) == 0 {
		return false
	}
	last := len(p.Args) - 1
	switch {
	case (p.Name == "Host" || p.Name == "PathRegexp") && last == 0:
	case p.Name == "HeaderRegexp" && last == 1 && eqArg(p.Args[0], q.Args[0]):
	default:
		return false
	}
	x, isText := p.Args[last].(string)
	y, otherIsText := q.Args[last].(string)
	return isText && otherIsText && spelledRegexp(x) == spelledRegexp(y)
}
