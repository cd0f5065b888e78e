package eskip

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Canonical returns a new route that means the same as r, in the form that [Eq] compares and the JSON form shows:
//
//   - all predicates are in Predicates, sorted by name. Those of one name keep their order; Header and HeaderRegexp that
//     come from the fields of the route are sorted by header name and value.
//   - a network route with Shunt set has the type ShuntBackend, and Shunt is not set.
//   - endpoints are sorted by address, then zone.
//   - fields that the type of the backend does not use are empty, and so are Name and Namespace.
//
// The new route shares predicates, filters, the filter slice and endpoints with r. Canonical(nil) is nil.
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

// canonicalType returns the type of the backend, taking the legacy field for shunts into account.
func canonicalType(r *Route) BackendType {
	if r.BackendType == NetworkBackend && r.Shunt {
		return ShuntBackend
	}
	return r.BackendType
}

// canonicalPredicates returns all predicates of r in canonical order, or nil if there are none.
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

// sortedEndpoints returns a copy of eps in the canonical order, which is not nil.
func sortedEndpoints(eps []*LBEndpoint) []*LBEndpoint {
	out := append([]*LBEndpoint{}, eps...)
	slices.SortStableFunc(out, func(a, b *LBEndpoint) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Zone, b.Zone))
	})
	return out
}

// Eq reports whether all routes have the same id and mean the same: whether their [Canonical] forms have equal predicates,
// filters and backends. The order of endpoints and of predicates with different names makes no difference; the order of filters
// does. So does the order of predicates with the same name, as in the reference; [Equivalent] ignores it. Arguments are equal if
// they have the same type and value: an int 1 is not a float64 1. A nil route equals only nil, and fewer than two routes are
// always equal.
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

// same compares two routes, if possible without the canonical forms of their predicates: nearly all compared routes are equal and
// written the same way.
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

// eqWrittenPredicates reports whether the predicates are the same in the same order, which is stricter than equality.
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

// eqArg compares arguments with ==, and by content if their type does not support == (such as a list read from JSON).
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

// EqLists reports whether all lists have the same routes, in any order. The ids in each list must be unique: if one occurs twice,
// the result is false, even for a single list. It returns true without lists. It does not change the lists.
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

// sortedByID returns l sorted by id: l itself if it is already sorted, and nil if an id occurs twice.
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

// Equivalent reports whether two routes have the same id and mean the same to a proxy. It is [Eq] except for differences without
// a meaning, which the text form does not preserve:
//
//   - predicates are a multiset: their order does not matter, and Any is ignored. So are Path("") and Method(""), which the parser
//     drops.
//   - an expression of Host, PathRegexp or HeaderRegexp may have a control character where the other one has its escape, if both
//     match the same.
//
// So Equivalent(r, Parse(String(r))) holds for a route that can be printed and parsed.
func Equivalent(a, b *Route) bool {
	return same(a, b, func() bool { return equivalentPredicates(meaningful(a), meaningful(b)) })
}

// isDropped reports whether the parser drops a predicate: in a [Route], an empty Path or Method means none.
func isDropped(p *Predicate) bool {
	return (p.Name == "Path" || p.Name == "Method") && len(p.Args) == 1 && p.Args[0] == ""
}

func eqCalls(a, b []*Filter) bool {
	return slices.EqualFunc(a, b, func(f, g *Filter) bool { return eqCall(f.Name, f.Args, g.Name, g.Args) })
}

// meaningful returns the canonical predicates without those that always hold.
func meaningful(r *Route) []*Predicate {
	return slices.DeleteFunc(canonicalPredicates(r), func(p *Predicate) bool { return p.Name == "Any" || p.Name == "*" || isDropped(p) })
}

// equivalentPredicates compares two lists that are sorted by name. It modifies both.
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
