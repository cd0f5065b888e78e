package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

// finishMain finishes a main route, and its copies after it.
func (p *routeGroupPass) finishMain(r *eskip.Route) {
	var copies []*eskip.Route
	if p.eastWest {
		copies = append(copies, p.eastWestCopy(r))
	}
	if p.redirect && !matchesForwardedProto(r) {
		copies = append(copies, p.redirectCopy(r))
	}
	p.finish(r, mainRoute)
	for _, c := range copies {
		p.finish(c, companion)
	}
}

// finish applies the additions of the pass to a route, and prints it.
func (p *routeGroupPass) finish(r *eskip.Route, role role) {
	if p.internal {
		r.Predicates = append(r.Predicates, p.set.EastWestRangePredicates...)
	}
	p.set.appendAnnotated(r, p.rg.Annotations, p.internal)
	p.unit.Global = p.out.finish(p.unit.Global, r, p.unit, role)
}

// catchAlls adds the catch-alls of the hosts, unless a route takes all their requests.
func (p *routeGroupPass) catchAlls() {
	if !p.built || p.hostOnly || p.set.DisableCatchAllRoutes {
		return
	}
	for _, h := range p.hosts {
		p.finish(&eskip.Route{
			Id:          routeid.RouteGroupCatchAll(h, p.internal),
			Predicates:  []*eskip.Predicate{predicate("Host", hostExpr(h))},
			BackendType: eskip.ShuntBackend,
		}, companion)
	}
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
