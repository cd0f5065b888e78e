package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

const routeGroupClassAnnotation = "zalando.org/routegroup.class"

type routeGroupBuilder struct {
	*Unit
	rg       *kube.RouteGroup
	ns       string // never empty
	backends map[string]*kube.RouteGroupBackend
}

type routeGroupPass struct {
	*routeGroupBuilder
	hosts    []string
	hostExpr string // of all hosts of the pass; its routes share the string
	internal bool
	redirect bool
	eastWest bool // routes get deprecated copies: not if one of the hosts is already in the domain
	// built means that there is a main route, hostOnly that one has no predicate except Host, even if its entry fails.
	built, hostOnly bool
}

func compileRouteGroup(u *Unit, rg *kube.RouteGroup) {
	b := &routeGroupBuilder{
		Unit: u, rg: rg,
		ns:       kube.NamespaceOrDefault(rg.Namespace),
		backends: make(map[string]*kube.RouteGroupBackend, len(rg.Spec.Backends)),
	}
	for _, be := range rg.Spec.Backends {
		b.backends[be.Name] = be
	}
	u.list = appendNulls(u.list, u.owner, rg.Nulls)
	for _, h := range rg.Spec.Hosts {
		if u.checkHost(h); h == "" {
			u.ownf(Problem{Reason: InvalidExpression, Severity: Warning}, "an empty host matches no request")
		}
	}
	// Checked and reported, but redirects of RouteGroups use the code of the options.
	redirectCode(rg.Annotations, u.set.HTTPSRedirectCode, &u.findings)

	external, internal := b.splitHosts()
	if len(external) > 0 || len(rg.Spec.Hosts) == 0 {
		p := &routeGroupPass{routeGroupBuilder: b, hosts: external, redirect: b.set.redirects(rg.Annotations)}
		inDomain := func(h string) bool { return strings.HasSuffix(h, b.set.EastWestDomain) }
		p.eastWest = b.set.EastWest && !slices.ContainsFunc(external, inDomain)
		if failed := p.compile(); failed != nil {
			u.backendFailed("Error transforming external hosts: ", *failed)
			return // the internal hosts are skipped, too
		}
	}
	if len(internal) > 0 {
		p := &routeGroupPass{routeGroupBuilder: b, hosts: internal, internal: true}
		if failed := p.compile(); failed != nil {
			u.backendFailed("Error transforming internal hosts: ", *failed)
		}
	}
}

func (b *routeGroupBuilder) splitHosts() (external, internal []string) {
	for _, h := range b.rg.Spec.Hosts { // validated to be unique
		if b.set.eastWestRange(h) > 0 {
			internal = append(internal, h)
		} else {
			external = append(external, h)
		}
	}
	return external, internal
}

// compile compiles the routes of the pass. A returned problem ends the whole group.
func (p *routeGroupPass) compile() *Problem {
	p.hostExpr = hostExpr(p.hosts...)
	if len(p.rg.Spec.Routes) == 0 {
		if failed := p.entry(0, &kube.RouteSpec{}); failed != nil { // a route for each default backend
			return failed
		}
	}
	for i, spec := range p.rg.Spec.Routes {
		if failed := p.entry(i, spec); failed != nil {
			p.backendFailed("Ignoring route: ", *failed)
		}
	}
	p.catchAlls()
	return nil
}

// entry compiles the i-th entry: a route for each method and backend. A backend that fails removes all of them, and only these.
func (p *routeGroupPass) entry(i int, spec *kube.RouteSpec) *Problem {
	refs := spec.Backends
	if len(refs) == 0 {
		refs = p.rg.Spec.DefaultBackends
	}
	methods := kube.Distinct(spec.Methods)
	if len(methods) == 0 {
		methods = []string{""}
	}
	filters, predicates := p.texts(spec)
	shares := p.shares(refs)
	failing, failed := p.failing(refs)
	for _, method := range methods {
		for j, ref := range refs {
			if j == failing {
				return failed
			}
			r := &eskip.Route{Id: routeid.RouteGroup(p.ns, p.rg.Name, cmp.Or(strings.ToLower(method), "all"), i, j, p.internal)}
			p.match(r, spec, method)
			r.Predicates = append(r.Predicates, predicates...)
			shares[ref.BackendName].split(r)
			p.built = true
			p.hostOnly = p.hostOnly || !slices.ContainsFunc(r.Predicates, func(p *eskip.Predicate) bool { return p.Name != "Host" })
			be := p.backends[ref.BackendName]
			if failed == nil {
				r.Filters = slices.Clone(filters)
				p.setBackend(r, be)
			}
			p.defaultFilters(r, be)
			p.set.application(r, &p.rg.Meta)
			if failed == nil {
				p.finishMain(r)
			}
		}
	}
	return nil
}

// texts parses the filters and predicates of an entry once: it may have thousands of routes.
func (p *routeGroupPass) texts(spec *kube.RouteSpec) (filters []*eskip.Filter, predicates []*eskip.Predicate) {
	for _, text := range spec.Filters {
		fs, _ := eskip.ParseFilters(text)
		filters = append(filters, fs...)
	}
	for _, text := range spec.Predicates {
		ps, _ := eskip.ParsePredicates(text)
		predicates = append(predicates, ps...)
	}
	return filters, predicates
}

func (p *routeGroupPass) failing(refs []*kube.BackendReference) (at int, why *Problem) {
	for i, ref := range refs {
		if why := p.checkBackend(p.backends[ref.BackendName]); why != nil {
			return i, why
		}
	}
	return -1, nil
}

func (p *routeGroupPass) match(r *eskip.Route, spec *kube.RouteSpec, method string) {
	for _, want := range [][2]string{
		{"Path", spec.Path}, {"PathSubtree", spec.PathSubtree}, {"PathRegexp", spec.PathRegexp}, {"Host", p.hostExpr},
		{"Method", strings.ToUpper(method)},
	} {
		if name, arg := want[0], want[1]; arg != "" {
			r.Predicates = append(r.Predicates, predicate(name, arg))
		}
	}
}

// shares splits the traffic among referenced backends; those with weight 0 get Traffic(0) or an empty segment.
func (p *routeGroupPass) shares(refs []*kube.BackendReference) map[string]share {
	names := make([]string, len(refs))
	weights := make([]float64, len(refs))
	for i, ref := range refs {
		names[i], weights[i] = ref.BackendName, float64(ref.Weight)
	}
	p.checkWeights(names, weights)
	return p.set.TrafficAlgorithm.split(names, weights, true)
}

func (p *routeGroupPass) defaultFilters(r *eskip.Route, be *kube.RouteGroupBackend) {
	if typ, _ := routeGroupBackendType(be.Type); typ != serviceBackend {
		return
	}
	filters, err := p.lookups.defaultFilters(kube.ServiceKey{Namespace: p.ns, Name: be.ServiceName})
	if err != nil {
		p.addf(Problem{Reason: DefaultFilters, Severity: Error}, "Failed to retrieve default filters: error while applying "+
			"default filters for route group and service: %s/%s %s, [eskip] default filters: %v", p.ns, p.rg.Name, be.ServiceName, err)
		return
	}
	prepend(r, filters...)
}
