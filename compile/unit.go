package compile

import (
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// unit is the compiled form of one object. It depends only on the options, the object and its lookups, so it is kept until one of
// these changes.
type unit struct {
	lookups lookups
	findings

	// global are the routes outside of host groups: of default backends, and all routes of a RouteGroup.
	global []made
	// companions are the deprecated east-west companions of default backends, which come after all host groups.
	companions []made
	// groups are the routes by host, in the order of appearance of the hosts.
	groups []hostGroup
	// certificates are the certificates accepted for hosts, in order.
	certificates []certificate
}

// hostGroup is the contribution of one object to a host.
type hostGroup struct {
	host   string
	routes []made
	// firstHosts are the host expressions of the first route; the catch-all of the host uses them.
	firstHosts []string
	// catchAll means that one of the routes counts as a catch-all.
	catchAll bool
	// redirectCode and redirectDisabled are the object's settings for redirecting the catch-all of the host; 0 means none.
	redirectCode     int
	redirectDisabled bool
}

type certificate struct {
	host      string
	notBefore time.Time
}

// group returns the group of the host and creates it on first use.
func (u *unit) group(host string) *hostGroup {
	for i := range u.groups {
		if u.groups[i].host == host {
			return &u.groups[i]
		}
	}
	u.groups = append(u.groups, hostGroup{host: host})
	return &u.groups[len(u.groups)-1]
}

// shallow copies the route with new slices of predicates and filters, so that appending to one copy does not affect the other.
// Nothing is appended to its expressions.
func shallow(r *eskip.Route) *eskip.Route {
	c := *r
	c.Predicates = slices.Clone(r.Predicates)
	c.Filters = slices.Clone(r.Filters)
	return &c
}

// countsAsCatchAll is the reference's test: no path expression, or "^/" among them. It ignores Path and PathSubtree predicates.
func countsAsCatchAll(r *eskip.Route) bool {
	return len(r.PathRegexps) == 0 || slices.Contains(r.PathRegexps, "^/")
}

// application prepends the filter that names the application of the object.
func (s *settings) application(r *eskip.Route, m *kube.Meta) {
	if s.ApplicationLabel == "" {
		return
	}
	if v := m.Labels.Get(s.ApplicationLabel); v != "" {
		prepend(r, filter(annotateFilter, "Application", v))
	}
}

// appendAnnotated appends the predicates and filters that the options define for objects with certain annotations.
func (s *settings) appendAnnotated(r *eskip.Route, annotations kube.Pairs, internal bool) {
	predicates, filters := s.AnnotationPredicates, s.AnnotationFiltersAppend
	if internal {
		predicates, filters = s.EastWestRangeAnnotationPredicates, s.EastWestRangeAnnotationFilters
	}
	for _, p := range predicates {
		if v, ok := annotations.Lookup(p.Key); ok && v == p.Value {
			r.Predicates = append(r.Predicates, p.Predicates...)
		}
	}
	for _, p := range filters {
		if v, ok := annotations.Lookup(p.Key); ok && v == p.Value {
			r.Filters = append(r.Filters, p.Filters...)
		}
	}
}
