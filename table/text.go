package table

import (
	"iter"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// parsePart parses a part of a document: a line, or several. A route keeps the text if that is a line of a canonical text; otherwise it
// is printed again.
func parsePart(part string) ([]*Route, error) {
	parsed, err := eskip.Parse(part)
	if err != nil {
		return nil, err
	}
	var routes []*Route
	for _, r := range parsed {
		route, ok := (&Route{Text: part}).Reread(r)
		if !ok {
			route = NewRoute(r)
		}
		if err := route.Check(); err != nil {
			return nil, err
		}
		routes = append(routes, &route)
	}
	return routes, nil
}

// Reread returns the route that every reader of a table gets from the text of r, which parses as parsed. It returns false if the
// text is no line of a canonical text: a table with it would have other bytes, and another digest, for its readers. Such a line has the
// id, and a single semicolon outside of literals at the end, so it parses separately with the same result as in the document.
func (r *Route) Reread(parsed *eskip.Route) (Route, bool) {
	rest, ok := strings.CutPrefix(r.Text, parsed.Id)
	if !ok || parsed.Id == "" || !strings.HasPrefix(rest, ": ") || strings.IndexByte(r.Text, '\n') >= 0 {
		return Route{}, false
	}
	for i := range outside(r.Text) {
		if r.Text[i] == ';' {
			return Route{Text: r.Text, ID: r.Text[:len(parsed.Id)], Hosts: hostExpressions(parsed)}, i == len(r.Text)-1
		}
	}
	return Route{}, false // a comment, or no end
}

// outside yields the offsets in a definition that are not part of literals, up to the first comment.
func outside(text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '"' || c == '`':
				i = closingQuote(text, i+1, c)
			case c == '/':
				i = closingSlash(text, i+1)
			case !yield(i):
				return
			}
			if i < 0 {
				return
			}
		}
	}
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
