package eskip

import (
	"encoding"
	"fmt"
	"io"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// PrettyPrintInfo chooses the layout of [Print] and [Fprint]. The zero value is one line per route.
type PrettyPrintInfo struct {
	// Pretty puts each filter and the backend on a line, and an empty line between routes.
	Pretty bool

	// IndentStr begins these lines.
	IndentStr string
}

const plainArrow = " -> "

func (info PrettyPrintInfo) arrow() string {
	if !info.Pretty {
		return plainArrow
	}
	return "\n" + info.IndentStr + "-> "
}

// String prints routes as a document, one per line. A single route without id is printed as an expression.
func String(routes ...*Route) string { return Print(PrettyPrintInfo{}, routes...) }

// Print is [String] with a layout.
func Print(pretty PrettyPrintInfo, routes ...*Route) string {
	var b strings.Builder
	Fprint(&b, pretty, routes...)
	return b.String()
}

const fprintBlock = 16 << 10

// Fprint writes the output of [Print] in blocks. It stops at the first error of w, which it does not report.
func Fprint(w io.Writer, prettyPrintInfo PrettyPrintInfo, routes ...*Route) {
	if len(routes) == 0 {
		return
	}
	arrow, separator := prettyPrintInfo.arrow(), "\n"
	if prettyPrintInfo.Pretty {
		separator = "\n\n"
	}
	bare := len(routes) == 1 && routes[0].Id == ""
	var buf []byte
	for i, r := range routes {
		if i > 0 {
			buf = append(buf, separator...)
		}
		if !bare {
			buf = append(append(buf, r.Id...), ": "...)
		}
		buf, _ = appendExpr(buf, r, arrow)
		if !bare {
			buf = append(buf, ';')
		}
		if len(buf) >= fprintBlock {
			if _, err := w.Write(buf); err != nil {
				return
			}
			buf = buf[:0]
		}
	}
	_, _ = w.Write(buf) // errors cannot be returned, see above
}

// String prints the expression of r on one line, without its id.
func (r *Route) String() string {
	var stack [1024]byte
	return string(AppendRoute(stack[:0], r))
}

// Print is [Route.String] with a layout.
func (r *Route) Print(prettyPrintInfo PrettyPrintInfo) string {
	var stack [1024]byte
	out, _ := appendExpr(stack[:0], r, prettyPrintInfo.arrow())
	return string(out)
}

// AppendRoute appends the expression of r, as returned by [Route.String], to dst.
func AppendRoute(dst []byte, r *Route) []byte {
	dst, _ = appendExpr(dst, r, plainArrow)
	return dst
}

// AppendExpr is [AppendRoute] that also returns where the text of the backend begins, behind the last arrow.
func AppendExpr(dst []byte, r *Route) (out []byte, backend int) {
	return appendExpr(dst, r, plainArrow)
}

func appendExpr(dst []byte, r *Route, arrow string) ([]byte, int) {
	dst = appendPredicates(dst, r)
	dst = append(dst, arrow...)
	for _, f := range r.Filters {
		dst = appendCall(dst, f.Name, f.Args)
		dst = append(dst, arrow...)
	}
	backend := len(dst)
	return appendBackend(dst, r), backend
}

const plainAnd = " && "

func appendPredicates(dst []byte, r *Route) []byte {
	start := len(dst)
	field := func(name, value string, literal func([]byte, string) []byte) {
		dst = append(append(dst, name...), '(')
		dst = append(literal(dst, value), ")"+plainAnd...)
	}
	if r.Path != "" {
		field("Path", r.Path, appendString)
	}
	for _, h := range r.HostRegexps {
		field("Host", h, appendRegexp)
	}
	for _, p := range r.PathRegexps {
		field("PathRegexp", p, appendRegexp)
	}
	if r.Method != "" {
		field("Method", r.Method, appendString)
	}
	dst = appendHeaders(dst, r)
	for _, p := range r.Predicates {
		if p.Name == "Any" || p.Name == "*" {
			continue
		}
		dst = appendCall(dst, p.Name, p.Args)
		dst = append(dst, plainAnd...)
	}
	if len(dst) == start {
		return append(dst, '*')
	}
	return dst[:len(dst)-len(plainAnd)]
}

// appendHeaders appends the predicates Header, then HeaderRegexp, each sorted by text.
func appendHeaders(dst []byte, r *Route) []byte {
	var exact, expressions []string
	for k, v := range r.Headers {
		exact = append(exact, "Header("+string(appendString(nil, k))+", "+string(appendString(nil, v))+")"+plainAnd)
	}
	for k, vs := range r.HeaderRegexps {
		for _, v := range vs {
			expressions = append(expressions, "HeaderRegexp("+string(appendString(nil, k))+", "+string(appendRegexp(nil, v))+")"+plainAnd)
		}
	}
	slices.Sort(exact)
	slices.Sort(expressions)
	for _, text := range append(exact, expressions...) {
		dst = append(dst, text...)
	}
	return dst
}

// appendBackend appends the backend of r. In routes built by programs, Shunt takes precedence over all types except LBBackend.
func appendBackend(dst []byte, r *Route) []byte {
	switch {
	case r.BackendType == LBBackend:
		return appendBalanced(dst, r)
	case r.Shunt || r.BackendType == ShuntBackend:
		return append(dst, "<shunt>"...)
	case r.BackendType == LoopBackend:
		return append(dst, "<loopback>"...)
	case r.BackendType == DynamicBackend:
		return append(dst, "<dynamic>"...)
	case r.BackendType == ForwardBackend:
		return append(dst, "<forward>"...)
	case r.BackendType == NetworkBackend:
		return closeAddress(append(append(dst, '"'), r.Backend...), len(r.Backend))
	default:
		return append(dst, r.Backend...) // not part of this language
	}
}

func appendBalanced(dst []byte, r *Route) []byte {
	dst = append(dst, '<')
	if r.LBAlgorithm != "" {
		dst = append(append(dst, r.LBAlgorithm...), ", "...)
	}
	for i, ep := range r.LBEndpoints {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, '"')
		n := len(dst)
		dst = appendEndpoint(dst, ep)
		dst = closeAddress(dst, len(dst)-n)
	}
	return append(dst, '>')
}

// String prints the predicate as in an expression.
func (p *Predicate) String() string {
	var stack [128]byte
	return string(appendCall(stack[:0], p.Name, p.Args))
}

// String prints the filter as in an expression.
func (f *Filter) String() string { return (*Predicate)(f).String() }

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

// closeAddress ends a literal of n bytes. An address that does not parse as itself, on one line, is escaped.
func closeAddress(dst []byte, n int) []byte {
	text := dst[len(dst)-n:]
	if readsAsItself(text) {
		return append(dst, '"')
	}
	s := string(text)
	return appendString(dst[:len(dst)-n-1], s)
}

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

// appendRegexp appends s as a regexp literal, or, if that cannot represent it, as a string, which means the same to predicates.
// Control characters are written as escapes, as in the reference: the parser returns these, see [spelledRegexp].
func appendRegexp(dst []byte, s string) []byte {
	if !literalRegexp(s) {
		return appendString(dst, s)
	}
	dst = append(dst, '/')
	start := 0
	for i := range len(s) {
		if c := s[i]; c == '/' || c == '\\' || c >= '\a' && c <= '\r' {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', escapeLetter(c))
			start = i + 1
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '/')
}

// literalRegexp reports whether a regexp literal can represent s. An empty one would be a comment, and one that ends inside an
// apparent character class would not end: its backslashes are printed twice, so an escaped bracket also opens a class.
func literalRegexp(s string) bool {
	inClass := strings.LastIndexByte(s, '[') > strings.LastIndexByte(s, ']')
	return s != "" && !inClass && (!strings.ContainsAny(s, escapedControls) || sameRegexp(s, withEscapes(s)))
}

var withEscapes = strings.NewReplacer("\a", `\a`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`).Replace

// sameRegexp reports whether two expressions match the same texts, as far as their syntax shows. It detects escapes with
// another meaning: \b is a word boundary, and inside \Q...\E there are none.
func sameRegexp(x, y string) bool {
	a, errA := syntax.Parse(x, syntax.Perl)
	b, errB := syntax.Parse(y, syntax.Perl)
	if errA != nil || errB != nil {
		return errA != nil && errB != nil
	}
	return a.Equal(b)
}

func spelledRegexp(s string) string {
	if strings.ContainsAny(s, escapedControls) && literalRegexp(s) {
		return withEscapes(s)
	}
	return s
}
