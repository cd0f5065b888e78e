package compile

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// unit is what one object compiles to. It depends on the options, on the object and on what it looked up, and on
// nothing else; so it is kept until one of these changes.
type unit struct {
	lookups lookups
	findings

	// global are the routes outside of host groups: of default backends, and all of a RouteGroup.
	global []*table.Route
	// companions are the deprecated east-west companions of default backends, which come after all host groups.
	companions []*table.Route
	// groups are the routes by host, in the order in which the hosts appeared.
	groups []hostGroup
	// certificates are those that were accepted for hosts, in order.
	certificates []certificate
}

// hostGroup is what one object adds to a host.
type hostGroup struct {
	host   string
	routes []*table.Route
	// made counts all routes of the object in this group, those included that were left out when they were printed.
	made int
	// firstHosts are the host expressions of the first route; the catch-all of the host takes them over.
	firstHosts []string
	// catchAll says that one of the routes counts as a catch-all.
	catchAll bool
	// redirectCode and redirectDisabled are what the object says about redirecting the catch-all of the host; 0 is
	// nothing.
	redirectCode     int
	redirectDisabled bool
}

type certificate struct {
	host      string
	notBefore time.Time
}

// group finds or makes the group of the host.
func (u *unit) group(host string) *hostGroup {
	for i := range u.groups {
		if u.groups[i].host == host {
			return &u.groups[i]
		}
	}
	u.groups = append(u.groups, hostGroup{host: host})
	return &u.groups[len(u.groups)-1]
}

// finisher does what is done to every finished route: process, print, parse back.
type finisher struct{ set *settings }

// finish appends the printed forms of the route to dst: usually one, none if it does not survive printing, more with
// clone rules. The route is not changed and not kept. Problems go to f.
func (p finisher) finish(dst []*table.Route, r *eskip.Route, f *findings) []*table.Route {
	routes := []*eskip.Route{r}
	if p.set.DefaultFilters != nil {
		routes = p.set.DefaultFilters.Do(routes)
	}
	return p.edit(dst, routes, f)
}

// edit is finish without the default filters.
func (p finisher) edit(dst []*table.Route, routes []*eskip.Route, f *findings) []*table.Route {
	var failed []error
	for _, e := range p.set.EditRoutes {
		var errs []error
		routes, errs = e.DoWithErrors(routes)
		failed = append(failed, errs...)
	}
	for _, c := range p.set.CloneRoutes {
		var errs []error
		routes, errs = c.DoWithErrors(routes)
		failed = append(failed, errs...)
	}
	for _, err := range failed {
		f.add(Problem{Route: routes[0].Id, Reason: ProcessingFailed, Severity: Error, Message: err.Error()})
	}
	for _, r := range routes {
		printed := table.NewRoute(r)
		if err := parseBack(r, printed.Text); err != nil {
			f.add(Problem{
				Route: r.Id, Reason: NotParsable, Severity: Error,
				Message: fmt.Sprintf("route %s left out, it would make the whole table unreadable: %v", r.Id, err),
			})
			continue
		}
		dst = append(dst, &printed)
	}
	return dst
}

// parseBack holds the law that keeps one object from breaking the table of all: the text of a route, read alone, is that
// route.
func parseBack(r *eskip.Route, text string) error {
	if !eskip.ValidID(r.Id) {
		return fmt.Errorf("%q is not a route id", r.Id)
	}
	back, err := eskip.Parse(text)
	if err != nil {
		return err
	}
	if len(back) != 1 || !eskip.Equivalent(back[0], r) {
		return fmt.Errorf("it reads as a different route: %s", eskip.String(back...))
	}
	return nil
}

// shallow copies the route with lists of its own, so that neither copy sees what is appended to the other.
func shallow(r *eskip.Route) *eskip.Route {
	c := *r
	c.Predicates = slices.Clone(r.Predicates)
	c.Filters = slices.Clone(r.Filters)
	c.HostRegexps = slices.Clone(r.HostRegexps)
	c.PathRegexps = slices.Clone(r.PathRegexps)
	return &c
}

// countsAsCatchAll is the test of the reference: no path expression, or "^/" among them. Path and PathSubtree predicates
// are not looked at.
func countsAsCatchAll(r *eskip.Route) bool {
	return len(r.PathRegexps) == 0 || slices.Contains(r.PathRegexps, "^/")
}

// application prepends the filter that names the application of the object.
func (s *settings) application(r *eskip.Route, m *kube.Meta) {
	if s.ApplicationLabel == "" {
		return
	}
	if v := m.Labels[s.ApplicationLabel]; v != "" {
		prepend(r, filter(annotateFilter, "Application", v))
	}
}

// appendAnnotated appends the predicates and filters that the options give to objects with certain annotations.
func (s *settings) appendAnnotated(r *eskip.Route, annotations map[string]string, internal bool) {
	predicates, filters := s.AnnotationPredicates, s.AnnotationFiltersAppend
	if internal {
		predicates, filters = s.EastWestRangeAnnotationPredicates, s.EastWestRangeAnnotationFilters
	}
	for _, p := range predicates {
		if v, ok := annotations[p.Key]; ok && v == p.Value {
			r.Predicates = append(r.Predicates, p.Predicates...)
		}
	}
	for _, p := range filters {
		if v, ok := annotations[p.Key]; ok && v == p.Value {
			r.Filters = append(r.Filters, p.Filters...)
		}
	}
}
