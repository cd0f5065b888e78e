package table

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Hosts returns the distinct hosts in the table's host expressions, sorted: each expression is split at the alternatives of its
// outermost group, so that ^(a[.]org|b[.]org)$ counts as two hosts. They are for counting and comparing, not for matching. The
// slice is shared: it must not be changed.
func (t *Table) Hosts() []string { return t.hosts() }

// hostsOf returns the distinct hosts of all blocks, sorted.
func hostsOf(blocks []*Block) []string {
	distinct := make(map[string]struct{})
	for _, b := range blocks {
		for _, hosts := range b.hosts {
			for host := range splitHosts(hosts) {
				distinct[host] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// HostsOf yields the hosts of a route as [Table.Hosts] lists them, possibly more than once; nothing for a route that answers every
// host. The strings belong to the route.
func (r *Route) HostsOf() iter.Seq[string] { return splitHosts(r.Hosts) }

// splitHosts yields the alternatives of the host expressions of a route.
func splitHosts(hosts string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if hosts == "" {
			return
		}
		for expr := range strings.SplitSeq(hosts, "\n") {
			for host := range alternatives(expr) {
				if !yield(host) {
					return
				}
			}
		}
	}
}

// alternatives yields the alternatives of the expression's outermost group: the compiler joins the hosts of a RouteGroup to
// ^(host|host)$ and wraps the host of an Ingress rule in the same way. An expression of another form is one host.
func alternatives(expr string) iter.Seq[string] {
	return func(yield func(string) bool) {
		inner := expr
		if cut, ok := strings.CutPrefix(expr, "^("); ok {
			if cut, ok := strings.CutSuffix(cut, ")$"); ok && balanced(cut) {
				inner = cut
			}
		}
		start := 0
		for end := range topLevel(inner, '|') {
			if !yield(inner[start:end]) {
				return
			}
			start = end + 1
		}
		yield(inner[start:])
	}
}

// balanced reports whether every closing parenthesis has an opening one before it, so that the outer pair belongs together.
func balanced(expr string) bool {
	for range topLevel(expr, ')') {
		return false
	}
	return true
}

// topLevel yields the offsets of c outside of groups, character classes and escapes.
func topLevel(expr string, c byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth, class := 0, false
		for i := 0; i < len(expr); i++ {
			switch b := expr[i]; {
			case b == '\\':
				i++
			case class:
				class = b != ']'
			case b == '[':
				class = true
			case b == c && depth == 0:
				if !yield(i) {
					return
				}
			case b == '(':
				depth++
			case b == ')' && depth > 0:
				depth--
			}
		}
	}
}
