package table

import (
	"maps"
	"slices"
	"strings"
)

// hostAlternatives returns the distinct alternatives of the host expressions, sorted.
func hostAlternatives(routes []*Route) []string {
	distinct := make(map[string]struct{})
	seen := make(map[string]struct{}) // many routes have the same host: split each expression once
	for _, r := range routes {
		hosts := r.Hosts
		if hosts == "" {
			continue
		}
		if _, ok := seen[hosts]; ok {
			continue
		}
		seen[hosts] = struct{}{}
		for expr := range strings.SplitSeq(hosts, "\n") {
			for alternative := range alternatives(expr) {
				distinct[alternative] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// alternatives yields the alternatives of the expression's outermost group: the compiler joins the hosts of a RouteGroup
// to ^(host|host)$ and wraps the host of an Ingress rule the same way. An expression of another form is one host.
func alternatives(expr string) func(yield func(string) bool) {
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

// balanced reports whether no parenthesis closes that was not opened, so that the outer pair belongs together.
func balanced(expr string) bool {
	for range topLevel(expr, ')') {
		return false
	}
	return true
}

// topLevel yields the offsets of c outside of groups, character classes and escapes.
func topLevel(expr string, c byte) func(yield func(int) bool) {
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
