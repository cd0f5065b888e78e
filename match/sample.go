package match

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Literal reports whether a route has no expression for hosts, paths, methods or headers, and no other predicates.
func Literal(r *eskip.Route) bool {
	for _, expr := range r.HostRegexps {
		if plainHosts(expr) == nil {
			return false
		}
	}
	for _, p := range r.Predicates {
		switch p.Name {
		case "PathSubtree", "HostAny", "Methods", "Weight", "True", "False", "*", "Any":
		default:
			return false
		}
	}
	return !slices.ContainsFunc(r.PathRegexps, func(expr string) bool { return !everyPath(expr) }) && len(r.HeaderRegexps) == 0
}

func everyPath(expr string) bool { return expr == "^/" || expr == "/" || expr == "^" || expr == "" }

// Size returns the number of instructions in the compiled expressions of a route, including arguments of predicates.
func Size(r *eskip.Route) (size int) {
	add := func(exprs ...string) {
		for _, expr := range exprs {
			if rx, err := syntax.Parse(expr, syntax.Perl); err == nil {
				size += sizeOf(rx)
			}
		}
	}
	for _, expr := range r.HostRegexps {
		if plainHosts(expr) == nil {
			add(expr)
		}
	}
	add(r.PathRegexps...)
	for _, exprs := range r.HeaderRegexps {
		add(exprs...)
	}
	for _, p := range r.Predicates {
		if p.Name != "PathSubtree" && p.Name != "HostAny" {
			add(texts(p)...)
		}
	}
	return size
}

func sizeOf(rx *syntax.Regexp) int {
	size := 1 + len(rx.Rune)
	for _, sub := range rx.Sub {
		size += sizeOf(sub)
	}
	if rx.Op == syntax.OpRepeat {
		size *= max(rx.Min, rx.Max, 1)
	}
	return size
}

// sample returns a short text that an expression usually matches, unless it has assertions. pick selects one of several.
func sample(expr string, pick int) string {
	rx, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	writeSample(&b, rx.Simplify(), pick)
	return b.String()
}

func beginning(expr string) string {
	rx, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	rx = rx.Simplify()
	if rx.Op != syntax.OpConcat || rx.Sub[0].Op != syntax.OpBeginText || rx.Sub[1].Op != syntax.OpLiteral || rx.Sub[1].Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(rx.Sub[1].Rune)
}

// maxSample limits the length of a sample: nested repetitions can be long.
const maxSample = 1 << 10

func writeSample(b *strings.Builder, rx *syntax.Regexp, pick int) {
	if b.Len() > maxSample {
		return
	}
	switch rx.Op {
	case syntax.OpLiteral:
		for _, r := range rx.Rune {
			b.WriteRune(r)
		}
	case syntax.OpCharClass:
		b.WriteRune(letterOf(rx.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate:
		writeSample(b, rx.Sub[pick%len(rx.Sub)], pick/len(rx.Sub))
	case syntax.OpStar, syntax.OpQuest:
		if pick%2 == 1 {
			writeSample(b, rx.Sub[0], pick/2)
		}
	default: // captures, repetitions, sequences; assertions have no text
		for _, sub := range rx.Sub {
			writeSample(b, sub, pick)
		}
	}
}

func letterOf(ranges []rune) rune {
	for _, want := range "xab1" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= want && want <= ranges[i+1] {
				return want
			}
		}
	}
	if len(ranges) == 0 {
		return 'x'
	}
	return ranges[0]
}
