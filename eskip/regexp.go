package eskip

import "regexp/syntax"

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
