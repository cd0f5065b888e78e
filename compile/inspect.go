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

// ProblemsOf returns the problems of one object in the order of detection. The slice must not be changed. It costs O(log
// problems).
func (r *Result) ProblemsOf(owner kube.Ref) []rules.Problem {
	from, _ := slices.BinarySearchFunc(r.Problems, owner, func(p rules.Problem, o kube.Ref) int { return p.Owner.Compare(o) })
	to := from
	for to < len(r.Problems) && r.Problems[to].Owner == owner {
		to++
	}
	return r.Problems[from:to:to]
}

// Inspect describes an Ingress or RouteGroup. ok is false if the snapshot has none with that name. It searches all objects.
func (r *Result) Inspect(ref kube.Ref) (Inspection, bool) {
	a := r.all
	i, found := a.objects.search(ref)
	if !found {
		return Inspection{}, false
	}
	o := &a.objects[i]
	in := Inspection{Object: o.Object, Meta: o.meta(), Compiled: !o.unit.Refused, Problems: r.ProblemsOf(o.Ref()), Services: o.unit.Services()}
	var texts rules.Texts
	for i := range a.sections {
		if s := &a.sections[i]; s.asker() == o {
			for at := range s.routes {
				in.Routes = append(in.Routes, a.claims.inspect(claim{s, at}, &texts))
			}
		}
	}
	return in, true
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

// Claims returns the compiled objects that have the host, sorted. It searches all objects.
func (r *Result) Claims(host string) []kube.Ref {
	var owners []kube.Ref
	for _, o := range r.all.objects {
		has := false
		switch of := o.Object.(type) {
		case *kube.Ingress:
			has = of.Spec != nil && slices.ContainsFunc(of.Spec.Rules, func(r kube.IngressRule) bool { return r.Host == host })
		case *kube.RouteGroup:
			has = of.Spec != nil && slices.Contains(of.Spec.Hosts, host)
		}
		if has && !o.unit.Refused {
			owners = append(owners, o.Ref())
		}
	}
	return slices.Compact(owners)
}
