package compile

import (
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Inspection describes one object of a snapshot. The data it points to is shared and immutable.
type Inspection struct {
	Object kube.Object
	Meta   *kube.Meta
	// Compiled is false for an object without routes because of its class, or because validation refused it.
	Compiled bool
	// Problems are in the order of detection.
	Problems []rules.Problem
	Routes   []InspectedRoute
	// Services are the services that the object references, including missing ones, in the order of the lookups.
	Services []rules.Service
}

// InspectedRoute is a route that an object requests.
type InspectedRoute struct {
	ID string
	// Route is nil if it was left out.
	Route *table.Route
	// Main is false for a companion of another route, such as a redirect.
	Main bool
	// Keeper is the object that has the id instead. It is the zero Ref if this object has it, or if the other route belongs only
	// to the server.
	Keeper kube.Ref
	// Wins is false for a route that another one keeps out of the table.
	Wins bool
}

// Inspect describes an Ingress or RouteGroup. ok is false if the snapshot has none with that name. It searches all objects.
func (r *Result) Inspect(ref kube.Ref) (Inspection, bool) {
	a := r.all
	o := a.find(ref)
	if o.object == nil {
		return Inspection{}, false
	}
	found := Inspection{Object: o.Object, Meta: o.meta, Compiled: o.unit != nil, Problems: r.ProblemsOf(o.Ref())}
	if !found.Compiled {
		return found, true
	}
	var texts rules.Texts
	for i := range a.sections {
		if s := &a.sections[i]; s.asker() == o.object {
			for at := range s.routes {
				found.Routes = append(found.Routes, a.claims.inspect(claim{s, at}, &texts))
			}
		}
	}
	found.Services = o.unit.Services()
	return found, true
}

// inspect describes a route.
func (c *claims) inspect(of claim, texts *rules.Texts) InspectedRoute {
	u, r := of.section.unit, of.route()
	found := InspectedRoute{ID: texts.ID(u, r), Route: texts.Route(u, r), Main: r.Match != 0, Wins: c.has(r)}
	if !found.Wins {
		found.Keeper = c.rivals[found.ID][0].section.owner()
	}
	return found
}

// find returns the object with a name, the first one of several; without a unit if it is not compiled.
func (a *assembly) find(ref kube.Ref) compiled {
	var k *objects
	switch ref.Kind {
	case kube.KindIngress:
		k = &a.ingresses
	case kube.KindRouteGroup:
		k = &a.groups
	default:
		return compiled{}
	}
	if i, found := k.search(&kube.Meta{Namespace: ref.Namespace, Name: ref.Name}); found {
		return k.sorted[i]
	}
	for _, o := range k.refused {
		if o.meta.Namespace == ref.Namespace && o.meta.Name == ref.Name {
			return compiled{object: o}
		}
	}
	return compiled{}
}

// search returns the place of a name among the compiled objects: that of the first object with it, if there is one.
func (k *objects) search(name *kube.Meta) (at int, found bool) {
	return slices.BinarySearchFunc(k.sorted, name, func(o compiled, name *kube.Meta) int { return compareMeta(o.meta, name) })
}

// Claims returns the compiled objects that have the host, sorted. It searches all objects.
func (r *Result) Claims(host string) []kube.Ref {
	var owners []kube.Ref
	for _, o := range r.all.ingresses.sorted {
		ing := o.Object.(*kube.Ingress)
		if ing.Spec != nil && slices.ContainsFunc(ing.Spec.Rules, func(r kube.IngressRule) bool { return r.Host == host }) {
			owners = append(owners, ing.Ref())
		}
	}
	for _, o := range r.all.groups.sorted {
		rg := o.Object.(*kube.RouteGroup)
		if slices.Contains(rg.Spec.Hosts, host) {
			owners = append(owners, rg.Ref())
		}
	}
	slices.SortFunc(owners, kube.Ref.Compare)
	return slices.Compact(owners)
}
