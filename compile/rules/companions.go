package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

const redirectWeight = 1000.0

// companions returns the companions of a route for http requests: one redirects them, the other exempts them from the global redirect.
func (a Redirect) companions(r *eskip.Route) (all []*eskip.Route) {
	if a.Code != 0 {
		c := httpCompanion(r, routeid.SuffixRedirect)
		c.Filters = []*eskip.Filter{redirectFilter(a.Code)}
		c.BackendType = eskip.ShuntBackend
		c.Backend, c.LBAlgorithm, c.LBEndpoints = "", "", nil
		all = append(all, c)
	}
	if a.Disabled {
		all = append(all, httpCompanion(r, routeid.SuffixDisableRedirect))
	}
	return all
}

func httpCompanion(r *eskip.Route, suffix string) *eskip.Route {
	c := shallow(r)
	c.Id += suffix
	c.Headers = map[string]string{forwardedProtoHeader: "http"} // the route has no header fields: header predicates of annotations are in the list of predicates
	c.Predicates = slices.Insert(c.Predicates, 0, predicate("Weight", redirectWeight))
	return c
}

func redirectFilter(code int) *eskip.Filter { return filter("redirectTo", float64(code), "https:") }

func globalRedirect(code int) *eskip.Route {
	r := shunt(routeid.Redirect, redirectFilter(code))
	r.Headers = map[string]string{forwardedProtoHeader: "http"}
	r.Predicates = []*eskip.Predicate{predicate("Weight", redirectWeight)}
	return r
}

func (b *ingressBuilder) eastWestCompanion(r *eskip.Route, sharers int) {
	if !b.set.EastWest {
		return
	}
	host := b.ing.Name + "." + b.ing.Namespace + "." + b.set.EastWestDomain
	c := eastWestCopy(r, host)
	b.forward(c) // it is forwarded like every route of a host, so it loses the filters that the options append
	b.addToHost(host, c, companion, sharers)
}

func eastWestCopy(r *eskip.Route, host string) *eskip.Route {
	c := shallow(r)
	c.Id = routeid.EastWest(r.Id)
	c.HostRegexps = []string{hostExpr(host)}
	return c
}

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

func (p *routeGroupPass) finish(r *eskip.Route, role role) {
	if p.internal {
		r.Predicates = append(r.Predicates, p.set.EastWestRangePredicates...)
	}
	p.set.appendAnnotated(r, p.rg.Annotations, p.internal)
	p.Unit.finish(&p.Global, r, role, 1)
}

func (p *routeGroupPass) catchAlls() {
	if !p.built || p.hostOnly || p.set.DisableCatchAllRoutes {
		return
	}
	for _, h := range p.hosts {
		r := shunt(routeid.RouteGroupCatchAll(h, p.internal))
		r.Predicates = []*eskip.Predicate{predicate("Host", hostExpr(h))}
		p.finish(r, companion)
	}
}

func matchesForwardedProto(r *eskip.Route) bool {
	return slices.ContainsFunc(r.Predicates, func(p *eskip.Predicate) bool {
		return (p.Name == "Header" || p.Name == "HeaderRegexp") && len(p.Args) > 0 && p.Args[0] == forwardedProtoHeader
	})
}

func (p *routeGroupPass) eastWestCopy(r *eskip.Route) *eskip.Route {
	c := eskip.Copy(r)
	c.Id = routeid.EastWest(r.Id)
	c.Predicates = slices.DeleteFunc(c.Predicates, func(p *eskip.Predicate) bool { return p.Name == "Host" })
	c.Predicates = append(c.Predicates, predicate("Host", hostExpr(p.rg.Name+"."+p.ns+"."+p.set.EastWestDomain)))
	return c
}

func (p *routeGroupPass) redirectCopy(r *eskip.Route) *eskip.Route {
	c := shunt(r.Id+routeid.SuffixRedirect, redirectFilter(p.set.HTTPSRedirectCode))
	c.Predicates = append(eskip.Copy(r).Predicates, predicate("Header", forwardedProtoHeader, "http"))
	return c
}
