package publish

import (
	"reflect"
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// maxParsed is how many changed routes are compared. A larger change is treated as urgent.
const maxParsed = 2000

// onlyAddsEndpoints reports whether two lists differ only in that routes with endpoints have additional endpoints. It returns
// false if the set of ids, or a predicate, filter, algorithm or the zone of an endpoint differs. The cost depends on the blocks
// that the lists do not share.
func onlyAddsEndpoints(before, after table.List) bool {
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
	switch {
	case was.BackendType == eskip.LBBackend && len(was.LBEndpoints) > 0:
		has := make(map[eskip.LBEndpoint]bool, len(is.LBEndpoints))
		for _, e := range is.LBEndpoints {
			has[*e] = true
		}
		if slices.ContainsFunc(was.LBEndpoints, func(e *eskip.LBEndpoint) bool { return !has[*e] }) {
			return false
		}
	case was.BackendType == eskip.NetworkBackend && !was.Shunt:
		// A route with one endpoint is printed without an algorithm and without the zone.
		if !slices.ContainsFunc(is.LBEndpoints, func(e *eskip.LBEndpoint) bool { return e.Address == was.Backend }) {
			return false
		}
		was.LBAlgorithm = is.LBAlgorithm
	default:
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
