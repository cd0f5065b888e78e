package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

// addMain adds a main route and its copies, and records what the decision about catch-alls needs, even for routes of an entry
// that fails later.
func (p *routeGroupPass) addMain(dst []groupRoute, r *eskip.Route) []groupRoute {
	p.built = true
	p.hostOnly = p.hostOnly || onlyHosts(r)
	dst = p.append(dst, r, mainRoute)
	if p.eastWest {
		dst = p.append(dst, p.eastWestCopy(r), companion)
	}
	if p.redirect && !matchesForwardedProto(r) {
		dst = p.append(dst, p.redirectCopy(r), companion)
	}
	return dst
}

// append adds a route and counts it: all routes of a pass are in memory at once.
func (p *routeGroupPass) append(dst []groupRoute, r *eskip.Route, role role) []groupRoute {
	p.unit.size.add(&p.unit.built, leastText(r))
	return append(dst, groupRoute{r, role})
}

// leastText returns a number of bytes that the text of a route does not go below.
func leastText(r *eskip.Route) int {
	n := len("id: * -> <shunt>;")
	count := func(name string, args []any) {
		n += len(name) + len("() ->")
		for _, a := range args {
			n += len("1")
			if s, ok := a.(string); ok {
				n += len(s)
			}
		}
	}
	for _, p := range r.Predicates {
		count(p.Name, p.Args)
	}
	for _, f := range r.Filters {
		count(f.Name, f.Args)
	}
	for _, e := range r.LBEndpoints {
		n += len(e.Address)
	}
	return n
}

// onlyHosts reports whether a route has no predicate except Host, and so takes all requests to its hosts.
func onlyHosts(r *eskip.Route) bool {
	return !slices.ContainsFunc(r.Predicates, func(p *eskip.Predicate) bool { return p.Name != "Host" })
}

// matchesForwardedProto reports whether the author matches X-Forwarded-Proto explicitly. The comparison is case-sensitive.
func matchesForwardedProto(r *eskip.Route) bool {
	return slices.ContainsFunc(r.Predicates, func(p *eskip.Predicate) bool {
		return (p.Name == "Header" || p.Name == "HeaderRegexp") && len(p.Args) > 0 && p.Args[0] == forwardedProtoHeader
	})
}

// eastWestCopy returns the deprecated companion for the host NAME.NAMESPACE.DOMAIN.
func (p *routeGroupPass) eastWestCopy(r *eskip.Route) *eskip.Route {
	c := eskip.Copy(r)
	c.Id = routeid.EastWest(r.Id)
	c.Predicates = slices.DeleteFunc(c.Predicates, func(p *eskip.Predicate) bool { return p.Name == "Host" })
	c.Predicates = append(c.Predicates, predicate("Host", hostExpr(p.rg.Name+"."+p.ns+"."+p.set.EastWestDomain)))
	return c
}

// redirectCopy returns a copy that redirects the http requests of the route.
func (p *routeGroupPass) redirectCopy(r *eskip.Route) *eskip.Route {
	c := eskip.Copy(r)
	return &eskip.Route{
		Id:          r.Id + routeid.SuffixRedirect,
		Predicates:  append(c.Predicates, predicate("Header", forwardedProtoHeader, "http")),
		Filters:     []*eskip.Filter{redirectFilter(p.set.HTTPSRedirectCode)},
		BackendType: eskip.ShuntBackend,
	}
}

// finish adds the catch-alls, applies the additions of the pass to every route, and prints the routes.
func (p *routeGroupPass) finish() {
	if p.built && !p.hostOnly && !p.set.DisableCatchAllRoutes {
		for _, h := range p.hosts {
			p.routes = append(p.routes, groupRoute{role: companion, Route: &eskip.Route{
				Id:          routeid.RouteGroupCatchAll(h, p.internal),
				Predicates:  []*eskip.Predicate{predicate("Host", hostExpr(h))},
				BackendType: eskip.ShuntBackend,
			}})
		}
	}
	for _, r := range p.routes {
		if p.internal {
			r.Predicates = append(r.Predicates, p.set.EastWestRangePredicates...)
		}
		p.set.appendAnnotated(r.Route, p.rg.Annotations, p.internal)
		p.unit.Global = p.out.finish(p.unit.Global, r.Route, p.unit, r.role)
	}
}
