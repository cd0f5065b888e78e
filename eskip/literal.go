package eskip

import (
	"encoding"
	"fmt"
	"math"
	"regexp/syntax"
	"strconv"
	"strings"
)

// String prints the predicate as in an expression.
func (p *Predicate) String() string {
	var stack [128]byte
	return string(appendCall(stack[:0], p.Name, p.Args))
}

// String prints the filter as in an expression.
func (f *Filter) String() string {
	var stack [128]byte
	return string(appendCall(stack[:0], f.Name, f.Args))
}

// appendCall appends a predicate or filter.
func appendCall(dst []byte, name string, args []interface{}) []byte {
	dst = append(append(dst, name...), '(')
	for i, a := range args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		switch v := a.(type) {
		case string:
			dst = appendString(dst, v)
		case float64:
			dst = appendFloat(dst, v)
		case int:
			dst = strconv.AppendInt(dst, int64(v), 10)
		default:
			dst = appendOther(dst, v)
		}
	}
	return append(dst, ')')
}

// appendOther appends an argument created by a program as a string, if the language has no literal for it.
func appendOther(dst []byte, v interface{}) []byte {
	m, ok := v.(encoding.TextMarshaler)
	if !ok {
		return appendString(dst, fmt.Sprint(v))
	}
	text, err := m.MarshalText()
	if err != nil {
		return append(dst, `"[error]"`...)
	}
	return appendString(dst, string(text))
}

// appendFloat appends v without an exponent, which numbers of the language do not have.
func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...) // no number is parsed as this value
	case math.IsInf(v, 0):
		// It has no literal either, but an out-of-range number is parsed as infinity.
		if v < 0 {
			dst = append(dst, '-')
		}
		return append(append(dst, '1'), strings.Repeat("0", 309)...)
	case v != math.Trunc(v):
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	default:
		return strconv.AppendFloat(dst, v, 'f', 0, 64)
	}
}

// appendString appends s as a string literal.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		if class[s[i]]&escapeByte != 0 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', escapeLetter(s[i]))
			start = i + 1
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// closeAddress ends a string literal whose text is the last n bytes of dst. An address is printed unchanged if it parses as itself
// and has no control characters with an escape, and otherwise escaped: a table is one route per line.
func closeAddress(dst []byte, n int) []byte {
	text := dst[len(dst)-n:]
	if readsAsItself(text) {
		return append(dst, '"')
	}
	s := string(text)
	return appendString(dst[:len(dst)-n-1], s)
}

// readsAsItself reports whether text between quotes is its own value, on one line.
func readsAsItself(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if class[text[i]]&escapeByte == 0 {
			continue
		}
		if text[i] != '\\' {
			return false
		}
		i++
		if i == len(text) || class[text[i]]&escapeByte != 0 || escapeValue(text[i]) != 0 {
			return false
		}
	}
	return true
}

// appendRegexp appends s as a regexp literal, or, if a regexp literal cannot represent it, as a string, which means the same to
// every predicate that accepts one. Control characters are written as escapes, as in the reference: the parser returns the
// escapes, see [spelledRegexp].
func appendRegexp(dst []byte, s string) []byte {
	if !literalRegexp(s) {
		return appendString(dst, s)
	}
	dst = append(dst, '/')
	start := 0
	for i := range len(s) {
		if c := s[i]; c == '/' || c == '\\' || isControl(c) {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', escapeLetter(c))
			start = i + 1
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '/')
}

// literalRegexp reports whether a regexp literal can represent s. An empty one would be a comment, and one that ends inside an
// apparent character class would not end: for the lexer, an escaped bracket also opens a class, because its backslash is printed
// twice. Control characters are possible if their escapes mean the same.
func literalRegexp(s string) bool {
	inClass, controls := false, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		case isControl(c):
			controls = true
		}
	}
	return s != "" && !inClass && (!controls || sameRegexp(s, withEscapes(s)))
}

// isControl reports whether c is one of the characters that the printer escapes with a letter.
func isControl(c byte) bool { return c >= '\a' && c <= '\r' }

// withEscapes returns the parsed value of the regexp literal for s: the lexer does not decode these escapes.
func withEscapes(s string) string {
	out := make([]byte, 0, len(s)+4)
	for i := range len(s) {
		if isControl(s[i]) {
			out = append(out, '\\', escapeLetter(s[i]))
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// sameRegexp reports whether two expressions match the same texts, as far as their syntax shows. Two expressions that no proxy
// can compile also count as the same. It detects the rare cases in which an escape has another meaning: \b is a word boundary,
// and inside \Q...\E or after a backslash there are no escapes.
func sameRegexp(x, y string) bool {
	a, errA := syntax.Parse(x, syntax.Perl)
	b, errB := syntax.Parse(y, syntax.Perl)
	if errA != nil || errB != nil {
		return errA != nil && errB != nil
	}
	return a.Equal(b)
}

// spelledRegexp returns the parsed value of the printed expression s: s itself, except for control characters.
func spelledRegexp(s string) string {
	for i := range len(s) {
		if isControl(s[i]) {
			if literalRegexp(s) {
				return withEscapes(s)
			}
			return s
		}
	}
	return s
}
