package guard

import (
	"strings"

	"github.com/routesrv/routesrv/table"
)

// minBackends is how many requests must have lost their endpoints for a table to be suspicious. In a small cluster, or a test
// environment that is scaled to zero at night, half of them belong to a few services.
const minBackends = 20

// backend is where a route finally sends a request, as far as its text shows.
type backend int

const (
	otherBackend     backend = iota // <loopback>, <dynamic>, <forward>
	shuntBackend                    // the proxy itself answers: 502 for a service without endpoints
	endpointsBackend                // one or more addresses
)

// backendOf determines the kind of backend from the end of the route's text, without parsing the text, because a table has more
// than 100,000 routes.
func backendOf(r *table.Route) backend {
	const space = " \t\r\n"
	text := strings.TrimRight(strings.TrimSuffix(r.Text, ";"), space)
	if endsQuoted(text) {
		return endpointsBackend
	}
	list, ok := strings.CutSuffix(text, ">")
	if !ok {
		return otherBackend
	}
	list = strings.TrimRight(list, space)
	switch {
	case endsQuoted(list):
		return endpointsBackend
	case strings.HasSuffix(list, "shunt"):
		return shuntBackend
	default:
		return otherBackend
	}
}

// endsQuoted reports whether the text ends with a string literal.
func endsQuoted(text string) bool {
	return strings.HasSuffix(text, `"`) || strings.HasSuffix(text, "`")
}
