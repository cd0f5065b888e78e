package table

import (
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// parseDefinition parses the text of one definition, or of none. The route keeps the text if that is a line of a canonical text;
// otherwise it is printed again.
func parseDefinition(reader *eskip.Reader, text string) ([]*Route, error) {
	parsed, err := reader.Parse(text)
	if err != nil {
		return nil, err
	}
	var routes []*Route
	for _, r := range parsed {
		route, ok := keepText(text, r)
		if !ok {
			route = NewRoute(r)
		}
		if err := check(&route); err != nil {
			return nil, err
		}
		routes = append(routes, &route)
	}
	return routes, nil
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
// load balanced backend begins. If it is true for all lines, no literal continues past the end of a line, and the only semicolon outside
// of literals is the last byte; so each line parses separately with the same result as in the document.
func scanDefinition(line, id string) (backend int, ok bool) {
	if rest, ok := strings.CutPrefix(line, id); !ok || id == "" || !strings.HasPrefix(rest, ": ") {
		return 0, false
	}
	end, backend, comment := scan(line)
	return backend, end == len(line) && !comment
}

// bytesOf is text of either type.
type bytesOf interface{ ~string | ~[]byte }

// scan finds the end of the definition that a document begins with: the offset behind its semicolon, or -1 if it has none. It also
// returns where the load balanced backend of the definition begins, and whether it contains a comment. For this it only needs to know
// where literals end.
func scan[T bytesOf](s T) (end, backend int, comment bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '`':
			i = closingQuote(s, i+1, c)
		case '/':
			if i+1 == len(s) || s[i+1] != '/' {
				i = closingSlash(s, i+1)
				break
			}
			for comment = true; i < len(s) && s[i] != '\n'; i++ {
			}
		case '<': // only a backend begins with it
			backend = i
		case ';':
			return i + 1, backend, comment
		}
		if i < 0 {
			break
		}
	}
	return -1, 0, comment
}

// closingQuote returns the offset of the quote that ends the literal whose content starts at i, or -1.
func closingQuote[T bytesOf](s T, i int, quote byte) int {
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
func closingSlash[T bytesOf](s T, i int) int {
	if i < len(s) && s[i] == '/' {
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
