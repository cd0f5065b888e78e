package eskip

import (
	"io"
	"slices"
	"strings"
)

// PrettyPrintInfo chooses the layout of [Print] and [Fprint]. The zero value is one line per route.
type PrettyPrintInfo struct {
	// Pretty puts each filter and the backend on a separate line, and an empty line between routes.
	Pretty bool

	// IndentStr begins the lines of filters and backends. It is not used unless Pretty is set.
	IndentStr string
}

const plainArrow = " -> "

// arrow returns the separator of the parts of an expression.
func (info PrettyPrintInfo) arrow() string {
	if !info.Pretty {
		return plainArrow
	}
	return "\n" + info.IndentStr + "-> "
}

// String prints routes as a document, one definition per line without a line feed at the end. A single route without id is
// printed as an expression. [Parse] can parse the result if each id and name is a [ValidID] and each endpoint of a load balanced
// backend is a URI.
func String(routes ...*Route) string { return Print(PrettyPrintInfo{}, routes...) }

// Print is [String] with a layout.
func Print(pretty PrettyPrintInfo, routes ...*Route) string {
	var b strings.Builder
	Fprint(&b, pretty, routes...)
	return b.String()
}

// fprintBlock is the size of the buffer at which Fprint writes, in bytes.
const fprintBlock = 16 << 10

// Fprint writes the output of [Print] in blocks of about 16 kB. It stops at the first error of w, which it does not report:
// callers that need it must use a writer that remembers errors.
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

// AppendExpr is [AppendRoute] that also returns where the text of the backend begins: out[backend:] is that text. Before it, from
// len(dst) on, come the predicates and filters, each with the arrow that follows it.
func AppendExpr(dst []byte, r *Route) (out []byte, backend int) {
	return appendExpr(dst, r, plainArrow)
}

// appendExpr appends an expression whose parts are separated by arrow, and returns the offset of the backend.
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

// appendPredicates appends all predicates of r in the order that the language defines for the legacy ones.
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

// appendBackend appends the backend of r. The order of the cases matters for routes built by programs: Shunt takes precedence
// over all types except LBBackend.
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

// appendBalanced appends a load balanced backend.
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
