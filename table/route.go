package table

import (
	"errors"
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Errors of routes that no table can have. They are wrapped with the id.
var (
	ErrDuplicateID = errors.New("duplicate route id")
	ErrInvalidID   = errors.New("invalid route id")
	ErrInvalidText = errors.New(`route text is not "id: expression;" in one line`)
)

// Route is one line of a table: the printed text of a route with the few facts that are needed later, so that no parsed route
// must be kept. It is a value; tables share its strings.
type Route struct {
	// ID is unique within a table and matches [A-Za-z_][A-Za-z0-9_]*.
	ID string
	// Text is "ID: expression;" on one line without a trailing newline: as eskip.String prints it in a document, or as spelled in
	// the document that Parse read.
	Text string
	// Hosts are the route's host expressions, in the order of its text, joined by "\n"; empty if it has none.
	Hosts string
	// Backend is the byte offset in Text at which the backend starts. It is set only if a zone table may differ: the route
	// balances load over endpoints of which at least one has a zone, and it does not opt out with the filter
	// annotate("zalando.org/traffic-zone-aware", "false"). Otherwise it is 0.
	Backend int32
}

// The filter that excludes a route from zone selection, with exactly these two arguments.
const (
	zoneOptOutFilter = "annotate"
	zoneOptOutKey    = "zalando.org/traffic-zone-aware"
	zoneOptOutValue  = "false"
)

// NewRoute prints r. It keeps only the id and host expressions of r.
func NewRoute(r *eskip.Route) Route {
	text := make([]byte, 0, 512)
	text = append(text, r.Id...)
	text = append(text, ": "...)
	text, backend := eskip.AppendExpr(text, r)
	text = append(text, ';')

	route := Route{Text: string(text), Hosts: hostExpressions(r)}
	if strings.HasPrefix(route.Text, r.Id) {
		route.ID = route.Text[:len(r.Id)] // saves a string for each of 124,000 routes
	}
	if zoneAware(r) {
		route.Backend = int32(backend)
	}
	return route
}

// MaxRoute is the maximum length of a route's text in bytes. Every [Decoder] accepts a route of that length.
const MaxRoute = leastDefinition

// Check returns an error if no table can have the route: it wraps ErrInvalidID or ErrInvalidText and names the id, or it is
// ErrTooLarge. It is the rule of New and [List.With] for each route, except that these accept routes of any length.
func (r *Route) Check() error {
	if err := check(r); err != nil {
		return err
	}
	if len(r.Text) > MaxRoute {
		return fmt.Errorf("%w: route %q has %d bytes, and may have %d", ErrTooLarge, r.ID, len(r.Text), MaxRoute)
	}
	return nil
}

func check(r *Route) error {
	if !isSymbol(r.ID) {
		return fmt.Errorf("%w: %q", ErrInvalidID, r.ID)
	}
	rest, ok := strings.CutPrefix(r.Text, r.ID)
	if !ok || !strings.HasPrefix(rest, ": ") || !strings.HasSuffix(rest, ";") || int(r.Backend) >= len(r.Text) || r.Backend < 0 ||
		strings.IndexByte(r.Text, '\n') >= 0 {
		return fmt.Errorf("%w: %q", ErrInvalidText, r.ID)
	}
	return nil
}

// isSymbol reports whether s is a symbol of eskip, as every id must be so that the document parses.
func isSymbol(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// hostExpressions joins the Host expressions of both kinds: the legacy field, which the Ingress compiler sets, and predicates
// with the name Host, which the RouteGroup compiler uses.
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

func zoneAware(r *eskip.Route) bool {
	if r.BackendType != eskip.LBBackend {
		return false
	}
	for _, f := range r.Filters {
		if f.Name == zoneOptOutFilter && len(f.Args) == 2 && f.Args[0] == zoneOptOutKey && f.Args[1] == zoneOptOutValue {
			return false
		}
	}
	for _, ep := range r.LBEndpoints {
		if ep.Zone != "" {
			return true
		}
	}
	return false
}

// Path returns the argument of the first predicate Path, PathSubtree or PathRegexp, as it is spelled between the quotes in the
// route's text; empty if there is none. expr means that it is a regular expression. It searches only the text before the filters,
// without parsing it, because a table has more than 100,000 routes.
func (r *Route) Path() (path string, expr bool) {
	text := r.Text
	for i := len(r.ID); i >= 0 && i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '`':
			if i = closingQuote(text, i+1, c); i < 0 {
				return "", false
			}
		case c == '/':
			if i = closingSlash(text, i+1); i < 0 {
				return "", false
			}
		case c == '<', c == '-' && strings.HasPrefix(text[i:], "->"):
			return "", false
		case c == 'P':
			end := i
			for end < len(text) && isLetter(text[end]) {
				end++
			}
			name := text[i:end]
			i = end - 1
			if name == "Path" || name == "PathSubtree" || name == "PathRegexp" {
				return literal(text[end:]), name == "PathRegexp"
			}
		case isLetter(c): // the middle of another name
			for i+1 < len(text) && isLetter(text[i+1]) {
				i++
			}
		}
	}
	return "", false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// literal returns the content of the first literal of an argument list, which begins with a parenthesis.
func literal(args string) string {
	args = strings.TrimLeft(args, " \t")
	args = strings.TrimLeft(strings.TrimPrefix(args, "("), " \t")
	if args == "" {
		return ""
	}
	end := -1
	switch args[0] {
	case '"', '`':
		end = closingQuote(args, 1, args[0])
	case '/':
		end = closingSlash(args, 1)
	}
	if end < 0 {
		return ""
	}
	return args[1:end]
}
