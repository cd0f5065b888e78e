package compile

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Inspection describes one object in the latest snapshot. The data it points to is shared and immutable.
type Inspection struct {
	Object kube.Object
	Meta   *kube.Meta
	// Compiled is false for an object without routes because of its class, or because validation refused it.
	Compiled bool
	// Problems are in the order of detection.
	Problems []Problem
	Routes   []InspectedRoute
	// Services are the services that the object references, including missing ones, in the order of the lookups.
	Services []InspectedService
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

// InspectedService is a service with its endpoints.
type InspectedService struct {
	Namespace, Name string
	Service         *kube.Service // nil if it does not exist
	Ready, NotReady int
	// Zones counts the ready endpoints by zone, if zones are known: with EndpointSlices.
	Zones map[string]int
}

// Inspect describes an Ingress or RouteGroup. ok is false if the latest snapshot has none with that name, and before the first
// snapshot. It costs as much as the object.
func (c *Compiler) Inspect(ref kube.Ref) (Inspection, bool) {
	if c.memory == nil {
		return Inspection{}, false
	}
	m := c.memory
	o := m.find(ref)
	if o == nil {
		return Inspection{}, false
	}
	found := Inspection{Object: o.Object, Meta: o.meta, Compiled: o.unit != nil, Problems: m.result.ProblemsOf(o.Ref())}
	if o.unit == nil {
		return found, true
	}
	texts := m.texts()
	add := func(p place) {
		r := p.route()
		route := InspectedRoute{ID: r.id(), Main: r.match != 0, Wins: m.candidates.wins(r)}
		if r.printed != nil {
			route.Route = texts.of(r.printed)
		}
		if rivals := m.candidates.rivals[route.ID]; !route.Wins {
			route.Keeper = oldest(slices.Clone(rivals))[0].owner()
		}
		found.Routes = append(found.Routes, route)
	}
	for _, s := range []*section{&o.global, o.companions} {
		if s != nil {
			for i := range s.routes {
				add(place{s, i})
			}
		}
	}
	for i := range o.unit.groups {
		m.hostPlaces(o, o.unit.groups[i].host, add)
	}
	for i := range o.unit.lookups.services {
		found.Services = append(found.Services, m.inspectService(&o.unit.lookups.services[i]))
	}
	return found, true
}

// find returns the object with a name; the first one of several.
func (m *memory) find(ref kube.Ref) *object {
	k := &m.ingresses
	if ref.Kind == kube.KindRouteGroup {
		k = &m.groups
	} else if ref.Kind != kube.KindIngress {
		return nil
	}
	named := &object{meta: &kube.Meta{Namespace: ref.Namespace, Name: ref.Name}}
	if i, ok := k.search(named); ok {
		return k.sorted[i]
	}
	for _, list := range [][]*object{k.skipped, k.refused} {
		if i := slices.IndexFunc(list, func(o *object) bool { return compareObjects(o, named) == 0 }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// hostPlaces calls add for the routes of an object within a host.
func (m *memory) hostPlaces(o *object, name string, add func(place)) {
	h := m.hosts[name]
	if h == nil {
		return
	}
	at := 0
	for _, part := range h.parts {
		for range part.group.routes {
			if part.object == o {
				add(place{&h.section, at})
			}
			at++
		}
	}
}

func (m *memory) inspectService(l *serviceLookup) InspectedService {
	s := InspectedService{Namespace: l.key.Namespace, Name: l.key.Name, Service: l.service}
	look := lookups{cluster: m.cluster}
	s.Ready, s.NotReady = look.readiness(l.key)
	if l.slices != nil {
		s.Zones = make(map[string]int)
		for _, e := range l.slices.endpoints() {
			s.Zones[e.zone]++
		}
	}
	return s
}

// Claims returns the compiled objects of the latest snapshot that have the host, sorted. It searches all objects.
func (c *Compiler) Claims(host string) []kube.Ref {
	if c.memory == nil {
		return nil
	}
	var owners []kube.Ref
	for _, o := range c.memory.ingresses.sorted {
		ing := o.Object.(*kube.Ingress)
		if ing.Spec != nil && slices.ContainsFunc(ing.Spec.Rules, func(r kube.IngressRule) bool { return r.Host == host }) {
			owners = append(owners, ing.Ref())
		}
	}
	for _, o := range c.memory.groups.sorted {
		rg := o.Object.(*kube.RouteGroup)
		if slices.Contains(rg.Spec.Hosts, host) {
			owners = append(owners, rg.Ref())
		}
	}
	slices.SortFunc(owners, kube.Ref.Compare)
	return slices.Compact(owners)
}

// Latest returns the snapshot and the result of the last call of Compile, or nil before the first one.
func (c *Compiler) Latest() (*kube.Snapshot, *Result) {
	if c.memory == nil {
		return nil, nil
	}
	return c.memory.snapshot, c.memory.result
}
