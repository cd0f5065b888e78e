package compile

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
	dst = append(dst, groupRoute{r, mainRoute})
	if p.eastWest {
		dst = append(dst, groupRoute{p.eastWestCopy(r), companion})
	}
	if p.redirect && !matchesForwardedProto(r) {
		dst = append(dst, groupRoute{p.redirectCopy(r), companion})
	}
	return dst
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
		p.unit.global = p.out.finish(p.unit.global, r.Route, &p.unit.findings, r.role)
	}
}
