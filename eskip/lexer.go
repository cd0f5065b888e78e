package eskip

import "strings"

// Byte classes of the language.
const (
	space       uint8 = 1 << iota // separates tokens
	symbolStart                   // may begin a symbol
	symbolByte                    // may continue a symbol
	digit                         // decimal digit
	hostByte                      // letters, digits, '.' and '-': literal in host names and zones
	escapeByte                    // must be escaped when printed in a string
)

var class = makeClass()

func makeClass() (c [256]uint8) {
	for _, b := range []byte(" \n\t\v\f\r\x85\xa0") {
		c[b] |= space
	}
	for _, b := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		c[b] |= symbolStart | symbolByte | hostByte
	}
	c['_'] |= symbolStart | symbolByte
	for _, b := range []byte("0123456789") {
		c[b] |= symbolByte | digit | hostByte
	}
	c['.'] |= hostByte
	c['-'] |= hostByte
	for _, b := range []byte(escapedControls + "\"\\") {
		c[b] |= escapeByte
	}
	return c
}

func isOnly(s string, classes uint8) bool {
	for i := range len(s) {
		if class[s[i]]&classes == 0 {
			return false
		}
	}
	return true
}

type tokenKind uint8

const (
	tokEnd     tokenKind = iota // end of input
	tokInvalid                  // a lexical error, see lexer.reason
	tokSymbol
	tokNumber
	tokString
	tokRegexp
	tokAnd   // &&
	tokAny   // *
	tokArrow // ->
	tokOpen  // (
	tokClose // )
	tokColon
	tokComma
	tokSemicolon
	tokLess
	tokGreater
	tokShunt
	tokLoopback
	tokDynamic
	tokForward
)

// Reasons of lexical errors.
const (
	reasonUnexpected = "unexpected token"
	reasonInvalid    = "invalid character"
	reasonIncomplete = "incomplete token"
)

// token is a piece of the input. A literal starts and ends inside its delimiters.
type token struct {
	kind    tokenKind
	escaped bool // a literal with backslashes: its value must be decoded
	start   int
	end     int
}

// lexer splits the input into tokens. It works on bytes, and keeps non-ASCII text in literals unchanged.
type lexer struct {
	src    string
	pos    int    // start of the unread input; after an error, the position of the error
	tok    token  // the current token
	last   token  // the last valid token: tok, unless that is tokEnd or tokInvalid
	reason string // of tokInvalid

	incomplete bool  // an incomplete number was passed over
	passed     int   // end of the last of them
	before     token // the last valid token before it
}

// next reads a token into l.tok. Like the reference, it passes over numbers that end with a point: see [parser.next].
func (l *lexer) next() {
	for !l.read() {
	}
}

// read is next, unless it passes over an incomplete number: then it returns false.
func (l *lexer) read() bool {
	l.skip()
	src, i := l.src, l.pos
	if i >= len(src) {
		l.tok = token{kind: tokEnd}
		return true
	}
	c := src[i]
	switch {
	case class[c]&symbolStart != 0:
		for i < len(src) && class[src[i]]&symbolByte != 0 {
			i++
		}
		l.emit(tokSymbol, i)
	case c == '"' || c == '`':
		l.quoted(c)
	case class[c]&digit != 0 || c == '.':
		return l.number()
	case c == '/':
		l.regexp()
	case c == '-' && i+1 < len(src) && (class[src[i+1]]&digit != 0 || src[i+1] == '.'):
		return l.number()
	default:
		l.punctuation()
	}
	return true
}

func (l *lexer) skip() {
	src, i := l.src, l.pos
	for i < len(src) {
		if class[src[i]]&space != 0 {
			i++
			continue
		}
		if src[i] != '/' || i+1 >= len(src) || src[i+1] != '/' {
			break
		}
		n := strings.IndexByte(src[i:], '\n')
		if n < 0 {
			i = len(src)
			break
		}
		i += n
	}
	l.pos = i
}

func (l *lexer) emit(k tokenKind, end int) {
	l.tok = token{kind: k, start: l.pos, end: end}
	l.last = l.tok
	l.pos = end
}

func (l *lexer) literal(k tokenKind, end int, escaped bool) {
	l.tok = token{kind: k, start: l.pos + 1, end: end, escaped: escaped}
	l.last = l.tok
	l.pos = end + 1
}

func (l *lexer) invalid(reason string, pos int) {
	l.tok = token{kind: tokInvalid}
	l.reason = reason
	l.pos = pos
}

// single has the tokens of one character with which no other token begins.
var single = [256]tokenKind{
	'*': tokAny, '(': tokOpen, ')': tokClose, ':': tokColon, ',': tokComma, ';': tokSemicolon, '>': tokGreater,
}

// fixed are the other tokens with a fixed text. A bracket opens a load balanced backend if no other one begins with it.
var fixed = []struct {
	text string
	kind tokenKind
}{
	{"->", tokArrow},
	{"&&", tokAnd},
	{"<shunt>", tokShunt},
	{"<loopback>", tokLoopback},
	{"<dynamic>", tokDynamic},
	{"<forward>", tokForward},
	{"<", tokLess},
}

func (l *lexer) punctuation() {
	if k := single[l.src[l.pos]]; k != tokEnd {
		l.emit(k, l.pos+1)
		return
	}
	for _, f := range fixed {
		if strings.HasPrefix(l.src[l.pos:], f.text) {
			l.emit(f.kind, l.pos+len(f.text))
			return
		}
	}
	l.invalid(reasonUnexpected, l.pos)
}

// number reads a number. It returns false if that ends with the point; the reference then continues after the point.
func (l *lexer) number() bool {
	src, i := l.src, l.pos
	if src[i] == '-' {
		i++
	}
	for point := false; i < len(src); i++ {
		if src[i] == '.' && !point {
			point = true
		} else if class[src[i]]&digit == 0 {
			break
		}
	}
	if src[i-1] == '.' {
		l.incomplete, l.passed, l.before = true, i, l.last
		l.pos = i
		return false
	}
	l.emit(tokNumber, i)
	return true
}

// quoted reads a string literal, in which backticks have escapes, too.
func (l *lexer) quoted(delimiter byte) {
	src, escaped := l.src, false
	for i := l.pos + 1; i < len(src); i++ {
		switch src[i] {
		case delimiter:
			l.literal(tokString, i, escaped)
			return
		case '\\':
			escaped = true
			i++
		}
	}
	l.invalid(reasonIncomplete, len(src))
}

// regexp reads a regexp literal, which ends at the first slash that is neither escaped nor in a character class.
func (l *lexer) regexp() {
	src, escaped, inClass := l.src, false, false
	if l.pos+1 == len(src) {
		l.invalid(reasonInvalid, l.pos)
		return
	}
	for i := l.pos + 1; i < len(src); i++ {
		switch src[i] {
		case '/':
			if !inClass {
				l.literal(tokRegexp, i, escaped)
				return
			}
		case '[':
			inClass = true
		case ']':
			inClass = false
		case '\\':
			escaped = true
			i++
		}
	}
	l.invalid(reasonIncomplete, len(src))
}

func (l *lexer) raw(t token) string { return l.src[t.start:t.end] }

func unescape(k tokenKind, delimiter byte, raw string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 || i+1 == len(raw) {
			out.WriteString(raw)
			return out.String()
		}
		out.WriteString(raw[:i])
		c := raw[i+1]
		raw = raw[i+2:]
		switch v := escapeValue(c); {
		case c == delimiter || c == '\\':
			out.WriteByte(c)
		case k == tokString && v != 0:
			out.WriteByte(v)
		default:
			out.WriteByte('\\')
			out.WriteByte(c)
		}
	}
}

const (
	escapedControls = "\a\b\f\n\r\t\v"
	escapeLetters   = "abfnrtv"
)

func escapeValue(c byte) byte {
	if i := strings.IndexByte(escapeLetters, c); i >= 0 {
		return escapedControls[i]
	}
	return 0
}

func escapeLetter(c byte) byte {
	if i := strings.IndexByte(escapedControls, c); i >= 0 {
		return escapeLetters[i]
	}
	return c
}
