package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

const redirectWeight = 1000.0

// redirectCompanion returns the companion of a path rule for http requests, if it needs one, and records the decision for the
// catch-all of the host.
func (b *ingressBuilder) redirectCompanion(host string, r *eskip.Route) *eskip.Route {
	if b.ann.redirect.ignore {
		return nil
	}
	var companion *eskip.Route
	switch asked := b.rememberRedirect(host); {
	case asked.Code != 0:
		companion = enablingCompanion(r, asked.Code)
	case asked.Disabled:
		companion = disablingCompanion(r)
	default:
		return nil
	}
	b.forward(companion)
	return companion
}

// rememberRedirect records what annotations and options ask for the catch-all of a host, and returns it. Custom routes have no companion,
// and there is no exception for authors who match the header themselves.
func (b *ingressBuilder) rememberRedirect(host string) Redirect {
	a := &b.ann.redirect
	switch {
	case a.enable, !a.disable && b.set.HTTPSRedirect:
		b.unit.group(host).Redirect.Code = a.code
		return Redirect{Code: a.code}
	case a.disable:
		b.unit.group(host).Redirect.Disabled = true
		return Redirect{Disabled: true}
	}
	return Redirect{}
}

// enablingCompanion returns a companion that redirects the http requests of the route.
func enablingCompanion(r *eskip.Route, code int) *eskip.Route {
	c := httpCompanion(r, routeid.SuffixRedirect)
	c.Filters = []*eskip.Filter{redirectFilter(code)}
	c.BackendType = eskip.ShuntBackend
	c.Backend, c.LBAlgorithm, c.LBEndpoints = "", "", nil
	return c
}

// disablingCompanion returns a companion that exempts the http requests of the route from the global redirect.
func disablingCompanion(r *eskip.Route) *eskip.Route {
	return httpCompanion(r, routeid.SuffixDisableRedirect)
}

func httpCompanion(r *eskip.Route, suffix string) *eskip.Route {
	c := shallow(r)
	c.Id += suffix
	c.Headers = map[string]string{forwardedProtoHeader: "http"} // the route has no header fields: header predicates of annotations are in the list of predicates
	c.Predicates = slices.Insert(c.Predicates, 0, predicate("Weight", redirectWeight))
	return c
}

func redirectFilter(code int) *eskip.Filter { return filter("redirectTo", float64(code), "https:") }

// globalRedirect returns the route that redirects all http requests that no other route takes.
func globalRedirect(code int) *eskip.Route {
	return &eskip.Route{
		Id:          routeid.Redirect,
		Headers:     map[string]string{forwardedProtoHeader: "http"},
		Predicates:  []*eskip.Predicate{predicate("Weight", redirectWeight)},
		Filters:     []*eskip.Filter{redirectFilter(code)},
		BackendType: eskip.ShuntBackend,
	}
}

// eastWestCompanion adds the deprecated east-west companion of a route: a copy for the host NAME.NAMESPACE.DOMAIN.
func (b *ingressBuilder) eastWestCompanion(r *eskip.Route, sharers int) {
	if !b.set.EastWest {
		return
	}
	host := b.ing.Name + "." + b.ing.Namespace + "." + b.set.EastWestDomain
	c := shallow(r)
	c.Id = routeid.EastWest(r.Id)
	c.HostRegexps = []string{hostExpr(host)}
	b.forward(c) // it is forwarded like every route of a host, so it loses the filters that the options append
	b.addToHost(host, c, companion, sharers)
}

// defaultEastWestCompanion returns the companion of a default backend. Its host has name and namespace swapped, as in the
// reference.
func (b *ingressBuilder) defaultEastWestCompanion(r *eskip.Route) *eskip.Route {
	c := shallow(r)
	c.Id = routeid.EastWest(r.Id)
	c.HostRegexps = []string{hostExpr(b.ing.Namespace + "." + b.ing.Name + "." + b.set.EastWestDomain)}
	return c
}

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
