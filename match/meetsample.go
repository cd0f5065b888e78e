package match

import (
	"regexp/syntax"
	"strings"
)

// sample returns a short text that an expression matches, as a rule: expressions with assertions in their middle may not match it.
// pick selects one of several. It is empty for an expression that is none.
func sample(expr string, pick int) string {
	rx, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	writeSample(&b, rx.Simplify(), pick)
	return b.String()
}

// beginning returns the text with which everything begins that an expression matches.
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

// maxSample limits a text that is made up: a repetition in a repetition can be long.
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

// letterOf returns a letter or digit of a class of characters if it has one, else its first character.
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
