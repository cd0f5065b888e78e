package compile

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

const redirectWeight = 1000.0

// redirectCompanion makes the companion of a path rule that takes the http requests, if there is to be one, and
// remembers for the catch-all of the host what was decided.
func (b *ingressBuilder) redirectCompanion(host string, r *eskip.Route) *eskip.Route {
	a := &b.ann.redirect
	var companion *eskip.Route
	switch {
	case a.ignore:
		return nil
	case a.enable, !a.disable && b.set.HTTPSRedirect:
		b.unit.group(host).redirectCode = a.code
		companion = enablingCompanion(r, a.code)
	case a.disable:
		b.unit.group(host).redirectDisabled = true
		companion = disablingCompanion(r)
	default:
		return nil
	}
	b.forward(companion)
	return companion
}

// rememberCustomRedirect is what custom routes do to the catch-all of their host: no companion, and no exception for
// authors who match the header themselves.
func (b *ingressBuilder) rememberCustomRedirect(host string) {
	a := &b.ann.redirect
	switch {
	case a.enable, !a.disable && b.set.HTTPSRedirect:
		b.unit.group(host).redirectCode = a.code
	case a.disable:
		b.unit.group(host).redirectDisabled = true
	}
}

// enablingCompanion redirects the http requests that the route would have taken.
func enablingCompanion(r *eskip.Route, code int) *eskip.Route {
	c := httpCompanion(r, routeid.SuffixRedirect)
	c.Filters = []*eskip.Filter{redirectFilter(code)}
	c.BackendType = eskip.ShuntBackend
	c.Backend, c.LBAlgorithm, c.LBEndpoints = "", "", nil
	return c
}

// disablingCompanion takes the http requests of the route away from the global redirect.
func disablingCompanion(r *eskip.Route) *eskip.Route {
	return httpCompanion(r, routeid.SuffixDisableRedirect)
}

func httpCompanion(r *eskip.Route, suffix string) *eskip.Route {
	c := shallow(r)
	c.Id += suffix
	c.Headers = map[string]string{forwardedProtoHeader: "http"} // the route has none: those of annotations are predicates
	c.Predicates = slices.Insert(c.Predicates, 0, predicate("Weight", redirectWeight))
	return c
}

func redirectFilter(code int) *eskip.Filter { return filter("redirectTo", float64(code), "https:") }

// globalRedirect is the route that redirects all http requests that no other route takes.
func globalRedirect(code int) *eskip.Route {
	return &eskip.Route{
		Id:          routeid.Redirect,
		Headers:     map[string]string{forwardedProtoHeader: "http"},
		Predicates:  []*eskip.Predicate{predicate("Weight", redirectWeight)},
		Filters:     []*eskip.Filter{redirectFilter(code)},
		BackendType: eskip.ShuntBackend,
	}
}
