package budget

import (
	"reflect"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// maxParsed is how many changed routes are looked at. A change of more is not one of a few endpoints, and is urgent.
const maxParsed = 2000

// OnlyAddsEndpoints reports whether all that differs between two lists is that routes which have endpoints have more of them. A list
// with another set of ids, or a route with another predicate, filter, algorithm or zone of an endpoint, differs in more. The cost is that
// of the blocks that the lists do not share.
func OnlyAddsEndpoints(before, after table.List) bool {
	n := 0
	for was, is := range table.Changes(before, after) {
		if n++; was == nil || is == nil || n > maxParsed || !addsEndpoints(was.Text, is.Text) {
			return false
		}
	}
	return n > 0
}

// addsEndpoints compares two texts of a route.
func addsEndpoints(before, after string) bool {
	was, ok := parseOne(before)
	if !ok {
		return false
	}
	is, ok := parseOne(after)
	if !ok || is.BackendType != eskip.LBBackend {
		return false
	}
	had := make(map[eskip.LBEndpoint]bool)
	switch was.BackendType {
	case eskip.NetworkBackend:
		if was.Shunt {
			return false
		}
		// A route with one endpoint may be printed without an algorithm, and without the zone.
		had[eskip.LBEndpoint{Address: was.Backend}] = true
		for _, e := range is.LBEndpoints {
			if e.Address == was.Backend {
				delete(had, eskip.LBEndpoint{Address: e.Address})
			}
		}
		was.LBAlgorithm = is.LBAlgorithm
	case eskip.LBBackend:
		for _, e := range was.LBEndpoints {
			had[*e] = true
		}
		if len(had) == 0 {
			return false
		}
		for _, e := range is.LBEndpoints {
			delete(had, *e)
		}
	default:
		return false
	}
	if len(had) > 0 {
		return false
	}
	for _, r := range []*eskip.Route{was, is} {
		r.BackendType, r.Backend, r.LBEndpoints = eskip.LBBackend, "", nil
	}
	return reflect.DeepEqual(was, is)
}

func parseOne(text string) (*eskip.Route, bool) {
	routes, err := eskip.Parse(text)
	if err != nil || len(routes) != 1 {
		return nil, false
	}
	return routes[0], true
}
