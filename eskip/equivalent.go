package eskip

import "slices"

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
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return a.Id == b.Id &&
		eqCalls(a.Filters, b.Filters) &&
		eqBackend(a, b) &&
		(eqWrittenPredicates(a, b) || equivalentPredicates(meaningful(a), meaningful(b)))
}

// isDropped reports whether the parser drops a predicate: it has no other sign of a Path or Method than a text that is not empty.
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
