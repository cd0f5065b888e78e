package rules

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

func predicate(name string, args ...any) *eskip.Predicate {
	return &eskip.Predicate{Name: name, Args: args}
}

func filter(name string, args ...any) *eskip.Filter { return &eskip.Filter{Name: name, Args: args} }

func shunt(id string, filters ...*eskip.Filter) *eskip.Route {
	return &eskip.Route{Id: id, Filters: filters, BackendType: eskip.ShuntBackend}
}

func isPathPredicate(p *eskip.Predicate) bool { return p.Name == "Path" || p.Name == "PathSubtree" }

// prepend adds filters before the filters of a route, in a new slice.
func prepend(r *eskip.Route, filters ...*eskip.Filter) {
	if len(filters) > 0 {
		r.Filters = slices.Concat(filters, r.Filters)
	}
}

// shallow copies the route with new slices of predicates and filters, to which the copy may append.
func shallow(r *eskip.Route) *eskip.Route {
	c := *r
	c.Predicates = slices.Clone(r.Predicates)
	c.Filters = slices.Clone(r.Filters)
	return &c
}

func (s *Set) application(r *eskip.Route, m *kube.Meta) {
	if s.ApplicationLabel == "" {
		return
	}
	if v := m.Labels.Get(s.ApplicationLabel); v != "" {
		prepend(r, filter(annotateFilter, "Application", v))
	}
}

func (s *Set) appendAnnotated(r *eskip.Route, annotations kube.Pairs, internal bool) {
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

// hostExpr returns the expression for hosts; "" for none. It only escapes dots, as the reference does.
func hostExpr(hosts ...string) string {
	if len(hosts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("^(")
	for i, h := range hosts {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(strings.ReplaceAll(h, ".", "[.]"))
		b.WriteString("[.]?(:[0-9]+)?")
	}
	b.WriteString(")$")
	return b.String()
}

// aboutWildcard begins the subject of the problem of a host with a wildcard.
const aboutWildcard = "wildcard "

func (f *findings) checkHost(host string) {
	if strings.Contains(host, "*") {
		f.ownf(Problem{Reason: InvalidExpression, Severity: Warning, About: aboutWildcard + host},
			"the host %q has a wildcard, which is not supported, so proxies ignore its routes", host)
	}
}
