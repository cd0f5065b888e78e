package rules

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

const routeGroupClassAnnotation = "zalando.org/routegroup.class"

// routeGroupBuilder compiles one RouteGroup into its unit: one pass for its external hosts and one for the internal hosts.
type routeGroupBuilder struct {
	set      *Set
	out      finisher
	rg       *kube.RouteGroup
	ns       string // never empty
	backends map[string]*kube.RouteGroupBackend
	unit     *Unit
	reader   *eskip.Reader // of filters and predicates
}

// routeGroupPass is one of the passes with its results.
type routeGroupPass struct {
	*routeGroupBuilder
	hosts    []string
	hostExpr string // of all hosts of the pass; its routes share the string
	internal bool
	redirect bool
	eastWest bool
	// routes are the unfinished routes of the pass: catch-alls and additions come after all of them.
	routes []groupRoute
	// built means that there is a main route, hostOnly that one has no predicate except Host.
	built, hostOnly bool
}

// groupRoute is a route of a pass with its role.
type groupRoute struct {
	*eskip.Route
	role role
}

// compileRouteGroup compiles one valid RouteGroup of the right class into an empty unit.
func compileRouteGroup(set *Set, u *Unit, rg *kube.RouteGroup) {
	reader := set.reader()
	defer set.readers.Put(reader)
	b := &routeGroupBuilder{
		set: set, out: finisher{set: set}, rg: rg, unit: u, reader: reader,
		ns:       kube.NamespaceOrDefault(rg.Namespace),
		backends: make(map[string]*kube.RouteGroupBackend, len(rg.Spec.Backends)),
	}
	for _, be := range rg.Spec.Backends {
		b.backends[be.Name] = be
	}
	u.list = appendNulls(u.list, u.owner, rg.Nulls)
	u.checkRouteGroup(rg.Spec)
	// Checked and reported, but redirects of RouteGroups use the code of the options.
	redirectCode(rg.Annotations, set.HTTPSRedirectCode, &u.findings)

	external, internal := b.splitHosts()
	if len(external) > 0 || len(rg.Spec.Hosts) == 0 {
		p := &routeGroupPass{
			routeGroupBuilder: b, hosts: external, hostExpr: hostExpr(external...),
			redirect: b.redirects(), eastWest: b.eastWestCopies(external),
		}
		if err := p.compile(); err != nil {
			u.backendFailed("Error transforming external hosts: ", err)
			return // the internal hosts are skipped, too
		}
		p.finish()
	}
	if len(internal) > 0 {
		p := &routeGroupPass{routeGroupBuilder: b, hosts: internal, hostExpr: hostExpr(internal...), internal: true}
		if err := p.compile(); err != nil {
			u.backendFailed("Error transforming internal hosts: ", err)
			return
		}
		p.finish()
	}
}

// splitHosts returns the external and the internal hosts, in order.
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

// redirects reports whether the group's routes get https redirect copies.
func (b *routeGroupBuilder) redirects() bool {
	switch b.rg.Annotations.Get(redirectAnnotation) {
	case "true":
		return true
	case "false":
		return false
	}
	return b.set.HTTPSRedirect
}

// eastWestCopies reports whether the group's routes get deprecated east-west copies: not if one of its hosts is already in the
// domain.
func (b *routeGroupBuilder) eastWestCopies(hosts []string) bool {
	return b.set.EastWest && !slices.ContainsFunc(hosts, func(h string) bool {
		return strings.HasSuffix(h, b.set.EastWestDomain)
	})
}

// compile creates the main routes of the pass with their copies. An error ends the whole group.
func (p *routeGroupPass) compile() error {
	if p.set.TLS {
		p.unit.checkTLS(p.rg.Spec.TLS, p.rg.Spec.Hosts, p.rg.Namespace, "routegroup hosts", "RouteGroup")
	}
	if len(p.rg.Spec.Routes) == 0 {
		return p.implicitRoutes()
	}
	for i, spec := range p.rg.Spec.Routes {
		// One failing combination removes all routes of this entry, and only those.
		routes, err := p.explicitRoutes(i, spec)
		if err != nil {
			p.unit.backendFailed("Ignoring route: ", err)
			continue
		}
		p.routes = append(p.routes, routes...)
	}
	return nil
}

// implicitRoutes returns the routes of a group without routes: one for each default backend.
func (p *routeGroupPass) implicitRoutes() error {
	shares := p.shares(p.rg.Spec.DefaultBackends)
	for j, ref := range p.rg.Spec.DefaultBackends {
		r := &eskip.Route{Id: routeid.RouteGroup(p.ns, p.rg.Name, "all", 0, j, p.internal)}
		be := p.backends[ref.BackendName]
		if err := p.setBackend(r, be); err != nil {
			return err
		}
		p.appendHost(r)
		r.Predicates = append(r.Predicates, shares[ref.BackendName].predicates...)
		p.defaultFilters(r, be)
		p.set.application(r, &p.rg.Meta)
		p.routes = p.addMain(p.routes, r)
	}
	return nil
}

// explicitRoutes returns the routes of the i-th entry: one for each method and backend.
func (p *routeGroupPass) explicitRoutes(i int, spec *kube.RouteSpec) ([]groupRoute, error) {
	refs := spec.Backends
	if len(refs) == 0 {
		refs = p.rg.Spec.DefaultBackends
	}
	methods := uniqueStrings(spec.Methods)
	if len(methods) == 0 {
		methods = []string{""}
	}
	shares := p.shares(refs)
	var routes []groupRoute
	for _, method := range methods {
		for j, ref := range refs {
			r := &eskip.Route{Id: routeid.RouteGroup(p.ns, p.rg.Name, methodID(method), i, j, p.internal)}
			p.match(r, spec, method)
			for _, text := range spec.Filters {
				fs, _ := p.reader.ParseFilters(text) // validated before
				r.Filters = append(r.Filters, fs...)
			}
			be := p.backends[ref.BackendName]
			if err := p.setBackend(r, be); err != nil {
				return nil, err
			}
			p.defaultFilters(r, be)
			r.Predicates = append(r.Predicates, shares[ref.BackendName].predicates...)
			p.set.application(r, &p.rg.Meta)
			routes = p.addMain(routes, r)
		}
	}
	return routes, nil
}

func methodID(method string) string {
	if method == "" {
		return "all"
	}
	return strings.ToLower(method)
}

func uniqueStrings(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// match sets the route's predicates: paths, hosts, method, then the predicates of the entry.
func (p *routeGroupPass) match(r *eskip.Route, spec *kube.RouteSpec, method string) {
	switch {
	case spec.Path != "":
		r.Predicates = append(r.Predicates, predicate("Path", spec.Path))
	case spec.PathSubtree != "":
		r.Predicates = append(r.Predicates, predicate("PathSubtree", spec.PathSubtree))
	}
	if spec.PathRegexp != "" {
		r.Predicates = append(r.Predicates, predicate("PathRegexp", spec.PathRegexp))
	}
	p.appendHost(r)
	if method != "" {
		r.Predicates = append(r.Predicates, predicate("Method", strings.ToUpper(method)))
	}
	for _, text := range spec.Predicates {
		ps, _ := p.reader.ParsePredicates(text) // validated before
		r.Predicates = append(r.Predicates, ps...)
	}
}

func (p *routeGroupPass) appendHost(r *eskip.Route) {
	if len(p.hosts) > 0 {
		r.Predicates = append(r.Predicates, predicate("Host", p.hostExpr))
	}
}

// shares splits the traffic among referenced backends; those with weight 0 get Traffic(0) or an empty segment.
func (p *routeGroupPass) shares(refs []*kube.BackendReference) map[string]share {
	names := make([]string, len(refs))
	weights := make([]float64, len(refs))
	for i, ref := range refs {
		names[i], weights[i] = ref.BackendName, float64(ref.Weight)
	}
	p.unit.checkWeights(names, weights)
	return p.set.TrafficAlgorithm.split(&p.unit.findings, names, weights, true)
}

// defaultFilters prepends the default filters of a service backend.
func (p *routeGroupPass) defaultFilters(r *eskip.Route, be *kube.RouteGroupBackend) {
	if typ, _ := routeGroupBackendType(be.Type); typ != serviceBackend {
		return
	}
	filters, err := p.unit.lookups.defaultFilters(kube.ServiceKey{Namespace: p.ns, Name: be.ServiceName})
	if err != nil {
		p.unit.errorf(DefaultFilters, "Failed to retrieve default filters: error while applying default filters for "+
			"route group and service: %s/%s %s, [eskip] default filters: %v", p.ns, p.rg.Name, be.ServiceName, err)
		return
	}
	prepend(r, filters...)
}
