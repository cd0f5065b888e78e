package table

import (
	"fmt"
	"iter"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Route is one line of a table: the printed text of a route, with the facts that are needed later.
type Route struct {
	// ID is unique within a table and matches [A-Za-z_][A-Za-z0-9_]*.
	ID string
	// Text is "ID: expression;" on one line: as eskip.String prints it, or as spelled in the document that Parse read.
	Text string
	// Hosts are the route's host expressions, in the order of its text, joined by "\n"; empty if it has none.
	Hosts string
}

// NewRoute prints r. It keeps only the id and host expressions of r.
func NewRoute(r *eskip.Route) Route {
	text := make([]byte, 0, 512)
	text = append(text, r.Id...)
	text = append(text, ": "...)
	text, _ = eskip.AppendExpr(text, r)
	text = append(text, ';')

	printed := string(text)
	return Route{ID: printed[:len(r.Id)], Text: printed, Hosts: hostExpressions(r)} // the id shares the memory of the text
}

// Parse parses the text of the route. The error names the route. Texts from the compiler always parse.
func (r *Route) Parse() (*eskip.Route, error) {
	routes, err := eskip.Parse(r.Text)
	if err == nil && len(routes) != 1 {
		err = fmt.Errorf("%d routes in one line", len(routes))
	}
	if err != nil {
		return nil, fmt.Errorf("route %s: %w", r.ID, err)
	}
	return routes[0], nil
}

// MaxRoute is the maximum length of a route's text in bytes.
const MaxRoute = 1 << 20

// Check returns an error if no table can have the route. It wraps ErrTooLarge if the text is too long.
func (r *Route) Check() error {
	if !eskip.ValidID(r.ID) {
		return fmt.Errorf("invalid route id: %q", r.ID)
	}
	rest, ok := strings.CutPrefix(r.Text, r.ID)
	if !ok || !strings.HasPrefix(rest, ": ") || !strings.HasSuffix(rest, ";") || strings.IndexByte(r.Text, '\n') >= 0 {
		return fmt.Errorf(`route text is not "id: expression;" in one line: %q`, r.ID)
	}
	if len(r.Text) > MaxRoute {
		return fmt.Errorf("%w: route %q has %d bytes, and may have %d", ErrTooLarge, r.ID, len(r.Text), MaxRoute)
	}
	return nil
}

// hostExpressions joins the Host expressions in the field, which the Ingress compiler sets, and in predicates.
func hostExpressions(r *eskip.Route) string {
	var hosts []string
	hosts = append(hosts, r.HostRegexps...)
	for _, p := range r.Predicates {
		if p.Name != "Host" || len(p.Args) != 1 {
			continue
		}
		if host, ok := p.Args[0].(string); ok {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, "\n")
}

// HostsOf yields the hosts of a route for counting and comparing, possibly more than once; none if it answers every host. An
// expression ^(a[.]org|b[.]org)$ is split at each "|"; every other one is one host.
func (r *Route) HostsOf() iter.Seq[string] {
	return func(yield func(string) bool) {
		if r.Hosts == "" {
			return
		}
		for expr := range strings.SplitSeq(r.Hosts, "\n") {
			parts := []string{expr}
			if strings.HasPrefix(expr, "^(") && strings.HasSuffix(expr, ")$") {
				parts = strings.Split(expr[len("^("):len(expr)-len(")$")], "|")
			}
			for _, host := range parts {
				if !yield(host) {
					return
				}
			}
		}
	}
}

// Path returns the argument of the first predicate Path, PathSubtree or PathRegexp (then expr is set), as spelled between the
// quotes; empty if there is none. It does not parse the text, because a table has more than 100,000 routes.
func (r *Route) Path() (path string, expr bool) {
	text := strings.TrimPrefix(r.Text, r.ID)
	begin := 0 // of the name that ends at the offset, if there is one
	for i := range outside(text) {
		switch c := text[i]; {
		case c == '<', strings.HasPrefix(text[i:], "->"):
			return "", false
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		default:
			if name := text[begin:i]; name == "Path" || name == "PathSubtree" || name == "PathRegexp" {
				return literal(text[i:]), name == "PathRegexp"
			}
			begin = i + 1
		}
	}
	return "", false
}

// literal returns the content of the first literal of an argument list, which begins with a parenthesis.
func literal(args string) string {
	args = strings.TrimLeft(args, " \t(")
	end := -1
	if strings.HasPrefix(args, "/") {
		end = closingSlash(args, 1)
	} else if args != "" {
		end = closingQuote(args, 1, args[0])
	}
	if end < 0 {
		return ""
	}
	return args[1:end]
}

// parsePart parses one or more lines of a document. A route keeps its line of a canonical text, or is printed again.
func parsePart(reader *eskip.Reader, part string) ([]*Route, error) {
	parsed, err := reader.Parse(part)
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

// Reread returns the route that every reader of a table gets from the text of r, which parses as parsed. It returns false if
// the text is not a canonical line, because readers would have another digest.
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

// closingSlash is closingQuote for a regular expression, in whose classes slashes are literal. It returns -1 for a comment.
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
