package table

import (
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Parse parses an eskip document of routes with ids and returns them in the order of the document.
//
// If the document is a canonical text (one definition per line, "id: expression;", sorted by id, nothing else), every route keeps
// its text: New then returns a table with the bytes and the digest of the document. This holds for everything that a route server
// sends and WriteFile writes, whatever the spelling of expressions: for a RouteGroup the compiler writes Host("^(a)$"), which the
// printer would write as Host(/^(a)$/). The routes of any other document are all printed again.
//
// The error is the one of eskip.Parse; New detects duplicate and missing ids.
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
		parsed[i] = nil // frees half of the memory of a large document while the other half is printed
	}
	return routes, nil
}

// keepTexts gives the routes the lines of the text that they were parsed from. ok is false if the text is not canonical.
func keepTexts(text string, parsed []*eskip.Route) ([]Route, bool) {
	routes := make([]Route, len(parsed))
	for i, r := range parsed {
		line, rest, more := strings.Cut(text, "\n")
		text = rest
		if more != (i < len(parsed)-1) || i > 0 && r.Id <= parsed[i-1].Id {
			return nil, false
		}
		var ok bool
		if routes[i], ok = keepText(strings.Clone(line), r); !ok { // a clone, so that one route does not keep the document in memory
			return nil, false
		}
	}
	return routes, text == ""
}

// Reread returns the route that every reader of a table gets from the text of r, which parses as parsed. It returns false if the
// text is no line of a canonical text: a table with it would have other bytes, and another digest, for its readers.
func (r *Route) Reread(parsed *eskip.Route) (Route, bool) { return keepText(r.Text, parsed) }

// keepText gives the route the text that it was parsed from. ok is false if that is not a line of a canonical text.
func keepText(text string, r *eskip.Route) (Route, bool) {
	backend, ok := scanDefinition(text, r.Id)
	if !ok || strings.IndexByte(text, '\n') >= 0 {
		return Route{}, false
	}
	route := Route{Text: text, ID: text[:len(r.Id)], Hosts: hostExpressions(r)}
	if zoneAware(r) {
		// Zone tables depend on the printed form of endpoints.
		if text[backend:len(text)-len(";")] != string(appendBackend(nil, r)) {
			return Route{}, false
		}
		route.Backend = int32(backend)
	}
	return route, true
}

// appendBackend prints only the backend of r.
func appendBackend(dst []byte, r *eskip.Route) []byte {
	start := len(dst)
	dst, backend := eskip.AppendExpr(dst, &eskip.Route{
		BackendType: r.BackendType, LBAlgorithm: r.LBAlgorithm, LBEndpoints: r.LBEndpoints,
	})
	return append(dst[:start], dst[backend:]...)
}

// scanDefinition reports whether a line of a document that parses is exactly one complete definition of the id, and where its
// load balanced backend begins. For this it only needs to know where literals end. If it is true for all lines, no literal
// continues past the end of a line, and the only semicolon outside of literals is the last byte; so each line parses separately
// with the same result as in the document.
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
		case '<': // only a backend begins with it
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

// closingSlash is closingQuote for a regular expression: a slash in a character class does not end it. It also returns -1 for a
// comment, which begins like an empty expression.
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
