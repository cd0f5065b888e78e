package rules

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

type ingressBuilder struct {
	*Unit
	ing *kube.Ingress
	ann ingressAnnotations

	hostExpr string // of the host of the rule; its routes share the string
}

func compileIngress(u *Unit, ing *kube.Ingress) {
	b := &ingressBuilder{Unit: u, ing: ing}
	if err := b.parse(); err != nil {
		u.invalid("[ingress] ", err)
		return
	}
	if ing.Namespace == "" || ing.Name == "" || ing.Spec == nil {
		b.addf(Problem{Reason: InvalidObject, Severity: Error, Plain: true}, "invalid ingress item: missing Metadata or Spec")
		return
	}
	b.list = appendNulls(b.list, b.owner, ing.Nulls)
	b.evaluate()
	b.defaultBackend()
	for i := range ing.Spec.Rules {
		b.rule(&ing.Spec.Rules[i])
	}
	b.checkWeightNames()
}

func (b *ingressBuilder) rule(r *kube.IngressRule) {
	if !r.HTTP {
		b.addf(Problem{Reason: RuleWithoutHTTP, Severity: Info}, "Skipping rule without http definition")
		return
	}
	b.checkHost(r.Host)
	b.hostExpr = hostExpr(r.Host)
	shares := b.shares(r)
	for i := range r.Paths {
		p := &r.Paths[i]
		b.customRoutes(r.Host, p)
		if p.Backend == nil {
			b.addf(Problem{Reason: MissingBackend, Severity: Error}, "Ignoring path without backend: host %q, path %q", r.Host, p.Path)
			continue
		}
		if s := shares[pathBackend{p.Path, p.Backend.Service}]; !s.none {
			b.pathRule(r.Host, p, s)
		}
	}
}

type pathBackend struct{ path, service string }

// shares splits the traffic among the backends of each path. One that is not in the result has all of it.
func (b *ingressBuilder) shares(r *kube.IngressRule) map[pathBackend]share {
	if len(r.Paths) < 2 {
		return nil
	}
	var order []string // of the paths
	names := make(map[string][]string, len(r.Paths))
	for _, p := range r.Paths {
		if _, known := names[p.Path]; !known {
			order = append(order, p.Path)
			names[p.Path] = nil
		}
		if p.Backend != nil {
			names[p.Path] = append(names[p.Path], p.Backend.Service)
		}
	}
	result := make(map[pathBackend]share, len(r.Paths))
	for _, path := range order {
		services := names[path]
		weights := make([]float64, len(services))
		for i, name := range services {
			weights[i] = b.ann.weights[name]
		}
		b.checkWeights(services, weights)
		for name, s := range b.set.TrafficAlgorithm.split(services, weights, false) {
			result[pathBackend{path, name}] = s
		}
	}
	return result
}

// pathRule compiles one path of a host: its route and companions. The order of the steps determines the text.
func (b *ingressBuilder) pathRule(host string, p *kube.IngressPath, traffic share) {
	target, ok := b.resolve(p.Backend, false)
	if !ok {
		return
	}
	r := &eskip.Route{}
	if host != "" {
		r.HostRegexps = []string{b.hostExpr}
	}
	if target.external {
		// The whole host goes to an external name: no path, no traffic split.
		r.Id = routeid.Ingress(b.ing.Namespace, b.ing.Name, host, "", target.externalName)
	} else {
		r.Id = routeid.Ingress(b.ing.Namespace, b.ing.Name, host, p.Path, p.Backend.Service)
		setPath(r, b.ann.pathMode, p)
		traffic.split(r)
	}
	b.setBackend(r, target)
	if r.BackendType != eskip.ShuntBackend {
		prepend(r, b.ann.filters...)
	}
	b.defaultFilters(r, p.Backend.Service)
	b.appendPredicates(r)
	b.set.application(r, &b.ing.Meta)
	b.forward(r)

	internal := b.set.eastWestRange(host) > 0
	domainHost := b.set.EastWestDomain != "" && strings.HasSuffix(host, b.set.EastWestDomain)
	// The companion is copied before the option-driven additions, which only the route gets, and comes after the route.
	var redirects []*eskip.Route
	if !internal && !domainHost && !b.ann.ownRedirect {
		b.group(host).Redirect = b.ann.redirect
		redirects = b.ann.redirect.companions(r)
	}
	filters := len(r.Filters)
	b.set.appendAnnotated(r, b.ing.Annotations, internal || domainHost)
	shared, apart := b.sharers(), 1 // by the route with its east-west companion, by the other companion
	if len(redirects) > 0 && b.ann.redirect.Disabled && len(r.Filters) == filters {
		shared++
		apart = shared
	}
	b.addToHost(host, r, mainRoute, shared)
	for _, c := range redirects {
		b.forward(c)
		b.addToHost(host, c, companion, apart)
	}
	b.eastWestCompanion(r, shared)
}

// sharers returns how many routes share the filters of a route: it may have an east-west companion.
func (b *ingressBuilder) sharers() int {
	if b.set.EastWest {
		return 2
	}
	return 1
}

func (b *ingressBuilder) addToHost(host string, r *eskip.Route, role role, sharers int) {
	for range b.set.eastWestRange(host) {
		r = shallow(r)
		r.Predicates = append(r.Predicates, b.set.EastWestRangePredicates...)
	}
	g := b.group(host)
	if len(g.Routes) == 0 {
		g.FirstHosts = r.HostRegexps
	}
	g.CatchAll = g.CatchAll || len(r.PathRegexps) == 0 || slices.Contains(r.PathRegexps, "^/") // as in the reference
	b.finish(&g.Routes, r, role, sharers)
}

func setPath(r *eskip.Route, mode PathMode, p *kube.IngressPath) {
	switch {
	case p.Path == "":
	case p.PathType == "Exact":
		r.Predicates = append(r.Predicates, predicate("Path", p.Path))
	case p.PathType == "Prefix", mode == PathModePathPrefix:
		r.Predicates = append(r.Predicates, predicate("PathSubtree", p.Path))
	case mode == PathModePathRegexp:
		r.PathRegexps = []string{p.Path}
	case p.Path == "/":
		r.PathRegexps = []string{"^/"}
	default:
		r.PathRegexps = []string{"^(" + p.Path + ")"}
	}
}

// appendPredicates appends the annotated predicates. In the mode path-prefix, paths among them replace the route's.
func (b *ingressBuilder) appendPredicates(r *eskip.Route) {
	if b.ann.pathMode == PathModePathPrefix {
		for _, p := range b.ann.predicates {
			if at := slices.IndexFunc(r.Predicates, isPathPredicate); at >= 0 && isPathPredicate(p) {
				r.Predicates = append(r.Predicates[:at:at], r.Predicates[at+1:]...)
			}
		}
	}
	r.Predicates = append(r.Predicates, b.ann.predicates...)
}

func (b *ingressBuilder) defaultFilters(r *eskip.Route, service string) {
	filters, err := b.lookups.defaultFilters(kube.ServiceKey{Namespace: b.ing.Namespace, Name: service})
	if err != nil {
		b.addf(Problem{Reason: DefaultFilters, Severity: Error}, "Failed to retrieve default filters: [eskip] default filters: %v", err)
		return
	}
	prepend(r, filters...)
}

// forward replaces the route's backend and filters. A custom route that is written as a shunt stays one.
func (b *ingressBuilder) forward(r *eskip.Route) {
	if !b.ann.forward {
		return
	}
	r.BackendType = eskip.NetworkBackend
	r.Backend = b.set.ForwardBackendURL
	r.LBAlgorithm, r.LBEndpoints = "", nil
	r.Filters = nil
}
