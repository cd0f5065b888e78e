package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// index has the backends of a snapshot by name. It is immutable.
type index struct {
	services map[kube.ServiceKey]backing
	secrets  map[kube.ServiceKey]*kube.Secret
	problems []Problem // of the backends themselves

	of kube.Backends // what the index was made from
}

// backing is a service with its endpoints. Each part may be missing.
type backing struct {
	Service   *kube.Service
	endpoints *kube.Endpoints
	slices    mergedSlices

	// No route uses the others, and they may be why: slices without a list of ports, and whether there are Endpoints where only slices count, or slices
	// where only Endpoints count.
	unlisted mergedSlices
	unused   bool
}

func (b *backing) same(o *backing) bool {
	return b.Service == o.Service && b.endpoints == o.endpoints && slices.Equal(b.slices, o.slices) && slices.Equal(b.unlisted, o.unlisted) && b.unused == o.unused
}

// newIndex indexes backends. Of two objects with the same name, the later one counts; incomplete ones do not count.
func newIndex(b *kube.Backends, endpointSlices bool) *index {
	x := &index{
		of:       *b,
		services: make(map[kube.ServiceKey]backing, len(b.Services)), secrets: make(map[kube.ServiceKey]*kube.Secret, len(b.Secrets)),
	}
	for _, svc := range b.Services {
		x.problems = appendNulls(x.problems, svc.Ref(), svc.Nulls)
		if svc.Incomplete {
			x.problems = append(x.problems, Problem{
				Owner: svc.Ref(), Reason: InvalidService, Severity: Error, Plain: true, Message: "Invalid service resource detected.",
			})
			continue
		}
		x.services[svc.ServiceKey()] = backing{Service: svc}
	}
	if endpointSlices {
		x.addSlices(b.EndpointSlices)
		for _, e := range b.Endpoints {
			x.addUnused(e.ServiceKey())
		}
	} else {
		x.addEndpoints(b.Endpoints)
		for _, s := range b.EndpointSlices {
			x.addUnused(s.ServiceKey())
		}
	}
	for _, s := range b.Secrets {
		if !s.Incomplete {
			x.secrets[kube.ServiceKeyOf(s.Namespace, s.Name)] = s
		}
	}
	return x
}

func (x *index) addEndpoints(all []*kube.Endpoints) {
	for _, e := range all {
		x.problems = appendNulls(x.problems, e.Ref(), e.Nulls)
		key := e.ServiceKey()
		of := x.services[key]
		of.endpoints = e
		x.services[key] = of
	}
}

func (x *index) addUnused(key kube.ServiceKey) {
	if of, ok := x.services[key]; ok {
		of.unused = true
		x.services[key] = of
	}
}

// addSlices uses the namespace as it is: a slice without one is never found (it does not default to "default" here).
func (x *index) addSlices(all []*kube.EndpointSlice) {
	for _, s := range all {
		x.problems = appendNulls(x.problems, s.Ref(), s.Nulls)
		key := s.ServiceKey()
		of := x.services[key]
		if s.NoPorts {
			of.unlisted = append(of.unlisted, s)
		} else {
			of.slices = append(of.slices, s)
		}
		x.services[key] = of
	}
}

// View is what objects see of a snapshot while they are compiled.
type View struct {
	*index
	filters *kube.DefaultFilters // nil if services have none
	// beside are services that count in place of those of the snapshot; nil except in a view of [View.With].
	beside map[kube.ServiceKey]backing

	// resolved is the reference's cache of endpoints, which only services with ambiguous ports need (endpoints.go). It is valid
	// for one build.
	resolved map[endpointsKey]resolution
	user     kube.Ref // the object that is compiled
}

// View returns what the objects of a snapshot see. It shares the index of another view with the same backends, if there is one.
func (s *Set) View(of *kube.Snapshot, others ...*View) *View {
	v := &View{filters: of.DefaultFilters, resolved: make(map[endpointsKey]resolution)}
	for _, other := range others {
		if other.of.SameAs(&of.Backends) {
			v.index = other.index
			return v
		}
	}
	v.index = newIndex(&of.Backends, s.EndpointSlices)
	return v
}

// Problems returns what is wrong with the backends themselves. The slice must not be changed.
func (v *View) Problems() []Problem { return v.index.problems }

// Before returns the view of an object that is compiled after all others: without what the objects behind it have resolved, because the object
// resolves before them.
func (v *View) Before(o kube.Ref) *View {
	sooner := *v
	sooner.resolved = make(map[endpointsKey]resolution)
	for key, r := range v.resolved {
		if r.user.Compare(o) < 0 {
			sooner.resolved[key] = r
		}
	}
	return &sooner
}

// With returns a view with more Services, Endpoints and slices. Those of one name come in place of what the snapshot has of that kind.
func (s *Set) With(v *View, b *kube.Backends) *View {
	next := *v
	next.resolved, next.beside = make(map[endpointsKey]resolution), make(map[kube.ServiceKey]backing)
	for key, of := range newIndex(b, s.EndpointSlices).services {
		was := v.backing(key)
		if of.Service == nil {
			of.Service = was.Service
		}
		if of.endpoints == nil {
			of.endpoints = was.endpoints
		}
		if of.slices == nil {
			of.slices = was.slices
		}
		next.beside[key] = of
	}
	return &next
}

// backing returns what there is of a service.
func (v *View) backing(key kube.ServiceKey) backing {
	if of, ok := v.beside[key]; ok {
		return of
	}
	return v.services[key]
}

// lookups records what an object looked up while it was compiled. As long as the results stay the same, so does its unit.
type lookups struct {
	view     *View // set while the object is compiled
	services []Service
	secrets  map[kube.ServiceKey]*kube.Secret
	filters  *kube.DefaultFilters
	// volatile marks a result that also depends on other objects: the object is compiled again in each build.
	volatile bool
}

// Service is what an object has looked up of a service.
type Service struct {
	Key kube.ServiceKey
	backing
}

// service looks up a service; nil if there is none.
func (l *lookups) service(key kube.ServiceKey) *kube.Service { return l.backing(key).Service }

// backing looks up a service and everything that belongs to it.
func (l *lookups) backing(key kube.ServiceKey) backing {
	for i := range l.services {
		if l.services[i].Key == key {
			return l.services[i].backing
		}
	}
	of := l.view.backing(key)
	l.services = append(l.services, Service{key, of})
	return of
}

func (l *lookups) secret(key kube.ServiceKey) *kube.Secret {
	if l.secrets == nil {
		l.secrets = make(map[kube.ServiceKey]*kube.Secret)
	}
	l.secrets[key] = l.view.secrets[key]
	return l.secrets[key]
}

// defaultFilters looks up the default filters of a service.
func (l *lookups) defaultFilters(key kube.ServiceKey) ([]*eskip.Filter, error) {
	if l.view.filters == nil {
		return nil, nil
	}
	return eskip.ParseFilters(l.view.filters.Texts[key])
}

// Holds reports whether the object compiles to the same unit with another view: every lookup has the same result there.
func (u *Unit) Holds(v *View) bool {
	l := &u.lookups
	if l.volatile || v.filters != l.filters {
		return false
	}
	for i := range l.services {
		s := &l.services[i]
		if now := v.services[s.Key]; !now.same(&s.backing) {
			return false
		}
	}
	for key, secret := range l.secrets {
		if v.secrets[key] != secret {
			return false
		}
	}
	return true
}
