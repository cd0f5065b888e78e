package eskip

import (
	"maps"
	"slices"
)

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
		(eqWrittenPredicates(a, b) || eqConditions(a, b) || equivalentPredicates(meaningful(a), meaningful(b)))
}

// eqConditions reports whether both have the same predicates in the same order, each kind by itself, where one may have in a field
// what the other has as a predicate. It is most of what Equivalent says, and allocates nothing.
func eqConditions(a, b *Route) bool {
	if !maps.Equal(a.Headers, b.Headers) || !maps.EqualFunc(a.HeaderRegexps, b.HeaderRegexps, slices.Equal[[]string]) {
		return false
	}
	for _, name := range []string{"Host", "PathRegexp", "Path", "Method"} {
		x, y := conditionsOf(a, name), conditionsOf(b, name)
		for {
			s, more := x.next()
			t, otherMore := y.next()
			if s != t || more != otherMore {
				return false
			}
			if !more {
				break
			}
		}
	}
	i, j := 0, 0
	for {
		i, j = nextOther(a.Predicates, i), nextOther(b.Predicates, j)
		if i == len(a.Predicates) || j == len(b.Predicates) {
			return i == len(a.Predicates) && j == len(b.Predicates)
		}
		if !eqPredicate(a.Predicates[i], b.Predicates[j]) {
			return false
		}
		i, j = i+1, j+1
	}
}

// nextOther is the index of the first predicate from i on that no field could have instead, and that means something.
func nextOther(all []*Predicate, i int) int {
	for i < len(all) && (fieldText(all[i], "Host", "PathRegexp", "Path", "Method") != "" || isDropped(all[i])) {
		i++
	}
	return i
}

// isDropped reports whether the parser drops a predicate: it has no other sign of a Path or Method than a text that is not empty.
func isDropped(p *Predicate) bool {
	return (p.Name == "Path" || p.Name == "Method") && len(p.Args) == 1 && p.Args[0] == ""
}

// fieldText is the argument of a predicate of one of the names that a field could have instead; "" if none could.
func fieldText(p *Predicate, names ...string) string {
	if len(p.Args) != 1 || !slices.Contains(names, p.Name) {
		return ""
	}
	text, _ := p.Args[0].(string)
	return text
}

// conditions are the texts of one kind of predicate: those of the list and then those of the field.
type conditions struct {
	name  string
	list  []*Predicate
	field []string
	text  string // of a field that has one text
}

func conditionsOf(r *Route, name string) conditions {
	c := conditions{name: name, list: r.Predicates}
	switch name {
	case "Host":
		c.field = r.HostRegexps
	case "PathRegexp":
		c.field = r.PathRegexps
	case "Method":
		c.text = r.Method
	case "Path":
		// A predicate counts in the place of the field.
		if !slices.ContainsFunc(r.Predicates, func(p *Predicate) bool { return p.Name == "Path" }) {
			c.text = r.Path
		}
	}
	return c
}

// next takes the next text; false if there is none.
func (c *conditions) next() (string, bool) {
	for len(c.list) > 0 {
		p := c.list[0]
		c.list = c.list[1:]
		if text := fieldText(p, c.name); text != "" {
			return text, true
		}
	}
	if len(c.field) > 0 {
		text := c.field[0]
		c.field = c.field[1:]
		return text, true
	}
	text := c.text
	c.text = ""
	return text, text != ""
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
