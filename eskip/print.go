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
	b.Grow(sizeHint(routes))
	Fprint(&b, pretty, routes...)
	return b.String()
}

const (
	fprintBlock = 16 << 10 // buffer size at which Fprint writes
	sampled     = 32       // routes that are printed to estimate the size of all
)

// sizeHint estimates the size of the plain text of routes, to avoid copying a large text while it grows.
func sizeHint(routes []*Route) int {
	if len(routes) <= sampled {
		return 0 // Fprint writes them directly
	}
	var buf []byte
	for i := range sampled {
		buf = AppendRoute(buf, routes[i*(len(routes)/sampled)])
	}
	const idAndMargin = 48
	return len(routes) * (len(buf)/sampled + idAndMargin)
}

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
	if r.Path != "" {
		dst = append(dst, "Path("...)
		dst = appendString(dst, r.Path)
		dst = append(dst, ")"+plainAnd...)
	}
	for _, h := range r.HostRegexps {
		dst = append(dst, "Host("...)
		dst = appendRegexp(dst, h)
		dst = append(dst, ")"+plainAnd...)
	}
	for _, p := range r.PathRegexps {
		dst = append(dst, "PathRegexp("...)
		dst = appendRegexp(dst, p)
		dst = append(dst, ")"+plainAnd...)
	}
	if r.Method != "" {
		dst = append(dst, "Method("...)
		dst = appendString(dst, r.Method)
		dst = append(dst, ")"+plainAnd...)
	}
	if len(r.Headers)+len(r.HeaderRegexps) > 0 {
		dst = appendHeaders(dst, r)
	}
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
	// Only headers that need sorting are printed to separate texts: nearly all routes with headers have one.
	var texts []string
	sort := len(r.Headers) > 1
	for k, v := range r.Headers {
		start := len(dst)
		dst = appendString(append(dst, "Header("...), k)
		dst = appendString(append(dst, ", "...), v)
		dst = append(dst, ")"+plainAnd...)
		if sort {
			texts = append(texts, string(dst[start:]))
			dst = dst[:start]
		}
	}
	dst, texts = appendSorted(dst, texts), nil
	for k, vs := range r.HeaderRegexps {
		sort = len(r.HeaderRegexps) > 1 || len(vs) > 1
		for _, v := range vs {
			start := len(dst)
			dst = appendString(append(dst, "HeaderRegexp("...), k)
			dst = appendRegexp(append(dst, ", "...), v)
			dst = append(dst, ")"+plainAnd...)
			if sort {
				texts = append(texts, string(dst[start:]))
				dst = dst[:start]
			}
		}
	}
	return appendSorted(dst, texts)
}

func appendSorted(dst []byte, texts []string) []byte {
	slices.Sort(texts)
	for _, t := range texts {
		dst = append(dst, t...)
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
