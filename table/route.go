package table

import (
	"strings"

	"github.com/routesrv/routesrv/eskip"
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
		if f.Name == zoneOptOutFilter && len(f.Args) == 2 && isString(f.Args[0], zoneOptOutKey) && isString(f.Args[1], zoneOptOutValue) {
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

// isString compares type and value; == on the interface would panic for arguments of an incomparable type.
func isString(arg any, want string) bool {
	s, ok := arg.(string)
	return ok && s == want
}
