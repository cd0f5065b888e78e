package table

import (
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Parse reads an eskip document of routes with ids and returns them in the order of the document.
//
// Of a document in the form of a canonical text (one definition per line, "id: expression;", sorted by id, nothing else)
// every route keeps its text as it is: New then gives a table with the bytes and the digest of the document. This holds for
// what a route server sends and what WriteFile writes, whichever spelling the expressions have: the compiler makes
// Host("^(a)$") of a RouteGroup, which the parser reads and the printer would write as Host(/^(a)$/). The routes of any
// other document are all printed anew.
//
// The error is that of eskip.Parse; duplicate and missing ids are found by New.
func Parse(text string) ([]Route, error) {
	parsed, err := eskip.Parse(text)
	if err != nil {
		return nil, err
	}
	if routes, ok := keepTexts(text, parsed); ok {
		return routes, nil
	}
	routes := make([]Route, len(parsed))
	for i, r := range parsed {
		routes[i] = NewRoute(r)
		parsed[i] = nil // half of the memory of a large document can go while the other half is printed
	}
	return routes, nil
}

// keepTexts gives the routes the lines of the text that they were parsed of. It is false if the text is not in canonical
// form.
func keepTexts(text string, parsed []*eskip.Route) ([]Route, bool) {
	routes := make([]Route, len(parsed))
	for i, r := range parsed {
		line, rest, more := strings.Cut(text, "\n")
		text = rest
		if more != (i < len(parsed)-1) || i > 0 && r.Id <= parsed[i-1].Id {
			return nil, false
		}
		var ok bool
		if routes[i], ok = keepText(strings.Clone(line), r); !ok { // a clone: one route must not keep the document
			return nil, false
		}
	}
	return routes, text == ""
}

// keepText gives the route the text that it was parsed of. It is false if that is no line of a canonical text.
func keepText(text string, r *eskip.Route) (Route, bool) {
	backend, ok := scanDefinition(text, r.Id)
	if !ok || strings.IndexByte(text, '\n') >= 0 {
		return Route{}, false
	}
	route := Route{Text: text, ID: text[:len(r.Id)], Hosts: hostExpressions(r)}
	if zoneAware(r) {
		// Zone tables are made of the printed form of endpoints.
		if text[backend:len(text)-len(";")] != string(appendBackend(nil, r)) {
			return Route{}, false
		}
		route.Backend = int32(backend)
	}
	return route, true
}

// appendBackend prints the backend of r alone.
func appendBackend(dst []byte, r *eskip.Route) []byte {
	start := len(dst)
	dst, backend := eskip.AppendExpr(dst, &eskip.Route{
		BackendType: r.BackendType, LBAlgorithm: r.LBAlgorithm, LBEndpoints: r.LBEndpoints,
	})
	return append(dst[:start], dst[backend:]...)
}

// scanDefinition reports whether a line of a document that parses is one whole definition of the id, and where its load
// balanced backend begins. It knows as much of the language as that takes: where literals end. No literal goes on behind
// the end of the line, and the only semicolon outside of literals is the last byte; so if this is true for all lines, each
// of them parses on its own, to the same as in the document.
func scanDefinition(line, id string) (backend int, ok bool) {
	rest, ok := strings.CutPrefix(line, id)
	if !ok || id == "" || !strings.HasPrefix(rest, ": ") {
		return 0, false
	}
	for i := len(id); i < len(line); i++ {
		switch c := line[i]; c {
		case '"', '`':
			i = closingQuote(line, i+1, c)
		case '/':
			i = closingSlash(line, i+1)
		case '<': // nothing but a backend begins with it
			backend = i
		case ';':
			return backend, i == len(line)-1
		}
		if i < 0 {
			return 0, false
		}
	}
	return 0, false
}

// closingQuote returns the offset of the quote that ends the literal whose content starts at i, or -1.
func closingQuote(s string, i int, quote byte) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case quote:
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// closingSlash is closingQuote for a regular expression: a slash in a character class does not end it. It is -1 for a
// comment, too, which begins like an expression without content.
func closingSlash(s string, i int) int {
	if strings.HasPrefix(s[i:], "/") {
		return -1
	}
	class := false
	for ; i < len(s); i++ {
		switch s[i] {
		case '/':
			if !class {
				return i
			}
		case '[':
			class = true
		case ']':
			class = false
		case '\\':
			i++
		}
	}
	return -1
}
