// Package rules compiles one object into a unit: the routes that Skipper's own route server, the reference, makes of it, and
// its problems. Package compile assembles the units of a snapshot into a table. A [Set] is the rules with the options of a
// program: [Set.View] is what the objects of a snapshot see, and [Set.Compile], [Set.CatchAll] and [Set.Fixed] make units. All
// are pure: no I/O, no clock, no log.
//
// An Ingress (ingress.go) is validated, its annotations are parsed, and each path of each rule becomes the custom routes of the
// annotation zalando.org/skipper-routes, then the route of the path. That one gets, in this order, host, path, traffic split,
// backend with endpoints, filters of annotations, default filters of the service, and predicates. A RouteGroup (routegroup.go)
// is compiled in one pass for its external hosts and one for its internal ones; each entry becomes a route for each of its
// methods and backends.
//
// Every route then goes through finish.go: default filters of the options, edits and clones; it is printed, parsed back, and
// validated the way a proxy would. A route that a proxy could not read, or would not survive, is left out.
//
// An object sees the rest of the cluster only through the lookups of its unit (index.go): as long as they have the same
// results, [Unit.Holds], the unit is the same. A panic, or a size beyond the limit, costs an object only its own routes
// (isolate.go), and every fault is a [Problem] with its owner (problem.go, reason.go).
//
// Other modules should not import it: it may change with every release.
package rules

import (
	"regexp"
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

// Compile compiles an Ingress or a RouteGroup. The objects of a view are compiled in the order of their names.
func (s *Set) Compile(o kube.Object, v *View) *Unit {
	v.user = o.Ref()
	u := &Unit{
		set: s, lookups: lookups{view: v, filters: v.filters}, findings: findings{owner: o.Ref(), size: size{most: s.MaxObjectBytes}},
	}
	u.isolated(func() {
		if !s.admits(o, u) {
			u.Refused = true
			return
		}
		switch of := o.(type) {
		case *kube.Ingress:
			compileIngress(u, of)
		case *kube.RouteGroup:
			compileRouteGroup(u, of)
		}
		u.checkSize()
	})
	return u.done()
}

// CatchAll compiles the route for requests that no other route of the host takes, with its redirect companions.
func (s *Set) CatchAll(host string, redirect Redirect, expressions []string) *Unit {
	r := shunt(routeid.CatchAll(host))
	r.HostRegexps = expressions
	u := &Unit{set: s}
	u.isolated(func() {
		for _, r := range append([]*eskip.Route{r}, redirect.companions(r)...) {
			u.finish(&u.Global, r, companion, 1)
		}
	})
	return u.done()
}

// Fixed compiles the routes that depend only on the options.
func (s *Set) Fixed() *Unit {
	u := &Unit{set: s}
	if s.Healthcheck {
		for _, r := range healthcheckRoutes(s) {
			u.finish(&u.Global, r, companion, 1)
		}
	}
	if s.HTTPSRedirect {
		u.finish(&u.Global, globalRedirect(s.HTTPSRedirectCode), companion, 1)
	}
	if s.OAuthGrantCallback {
		r := shunt(routeid.OAuthCallback, filter("grantCallback"))
		r.Path = s.OAuthCallbackPath
		u.edit(&u.Global, r, companion, 1) // added after the default filters, so it has none
	}
	return u.done()
}

// admits reports whether an object is compiled, and adds the problem of one that is not. It validates RouteGroups before it
// checks the class, so invalid ones of foreign classes are reported, too.
func (s *Set) admits(o kube.Object, u *Unit) bool {
	switch of := o.(type) {
	case *kube.Ingress:
		return u.hasClass(s.ingressClass, of.Annotations.Get(ingressClassAnnotation), "the annotation "+ingressClassAnnotation) &&
			(of.Spec == nil || u.hasClass(s.ingressClass, of.Spec.IngressClassName, "spec.ingressClassName"))
	case *kube.RouteGroup:
		if prefix, err := validateRouteGroup(of); err != nil {
			u.invalid("[routegroup] "+prefix, err)
			return false
		}
		return u.hasClass(s.routeGroupClass, of.Annotations.Get(routeGroupClassAnnotation), "the annotation "+routeGroupClassAnnotation)
	}
	return true
}

func (u *Unit) hasClass(served *regexp.Regexp, class, where string) bool {
	if class == "" || served.MatchString(class) {
		return true
	}
	u.ownf(Problem{Reason: NotSelected, Severity: Info},
		"its class is %q (%s), and only classes that match %q are served here, so nothing of it is served", class, where, served)
	return false
}

// healthcheckNetworks may use the health-check routes: the private networks and the local host.
var healthcheckNetworks = []string{
	"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "127.0.0.1/8", "fd00::/8", "::1/128",
}

const healthcheckPath = "/kube-system/healthz"

func healthcheckRoutes(set *Set) []*eskip.Route {
	source := "Source"
	if set.ReverseSource {
		source = "SourceFromLast"
	}
	var networks []any
	for _, n := range slices.Concat(healthcheckNetworks, set.HealthcheckCIDRs) {
		networks = append(networks, n)
	}
	up := shunt(routeid.HealthzUp, filter("disableAccessLog", 200.0), filter("status", 200.0))
	if set.HealthcheckAccessLog {
		up.Filters = up.Filters[1:]
	}
	down := shunt(routeid.HealthzDown, filter("status", 503.0))
	up.Path, down.Path = healthcheckPath, healthcheckPath
	up.Predicates = []*eskip.Predicate{predicate(source, networks...)}
	down.Predicates = []*eskip.Predicate{predicate(source, networks...), predicate("Shutdown")}
	return []*eskip.Route{up, down}
}
