package rules

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// externalNameType is the type of a service without endpoints.
const externalNameType = "ExternalName"

// LostServices returns the services that had endpoints before and have lost all of them, for at least one of their ports, or no longer
// exist. They are sorted. It compares pointers, and indexes only the services of which the two do not share every object: mostly a few.
func LostServices(before, now *kube.Backends, endpointSlices bool) []kube.ServiceKey {
	differ := make(map[kube.ServiceKey]bool)
	unshared(before.Services, now.Services, func(s *kube.Service) { differ[s.ServiceKey()] = true })
	unshared(before.Endpoints, now.Endpoints, func(e *kube.Endpoints) { differ[e.ServiceKey()] = true })
	unshared(before.EndpointSlices, now.EndpointSlices, func(s *kube.EndpointSlice) { differ[s.ServiceKey()] = true })
	if len(differ) == 0 {
		return nil
	}
	of := func(b *kube.Backends) *index {
		return newIndex(b.Of(func(key kube.ServiceKey) bool { return differ[key] }), endpointSlices)
	}
	is := of(now)
	var lost []kube.ServiceKey
	for key, was := range of(before).services {
		if now := is.services[key]; was.serves() && now.lacks(&was) {
			lost = append(lost, key)
		}
	}
	slices.SortFunc(lost, kube.ServiceKey.Compare)
	return lost
}

// unshared calls yield for the objects that two lists do not share.
func unshared[T any](a, b []*T, yield func(*T)) {
	in := make(map[*T]bool, len(a))
	for _, o := range a {
		in[o] = true
	}
	for _, o := range b {
		if !in[o] {
			yield(o)
		}
		delete(in, o)
	}
	for o := range in {
		yield(o)
	}
}

// serves reports whether the service exists and has endpoints for one of its ports.
func (b *backing) serves() bool {
	return b.Service != nil && (b.Service.Type == externalNameType || slices.ContainsFunc(b.Service.Ports, b.servesPort))
}

// servesPort reports whether an Ingress or a RouteGroup gets endpoints for the port.
func (b *backing) servesPort(p kube.ServicePort) bool {
	return len(b.slices.endpoints()) > 0 ||
		len(subsetEndpoints(kube.KindIngress, b.endpoints, p, "")) > 0 || len(subsetEndpoints(kube.KindRouteGroup, b.endpoints, p, "")) > 0
}

// lacks reports whether a port of the service, which exists, had endpoints before and has none now.
func (b *backing) lacks(was *backing) bool {
	if b.Service == nil || was.Service.Type == externalNameType || b.Service.Type == externalNameType {
		return b.Service == nil
	}
	return slices.ContainsFunc(was.Service.Ports, func(p kube.ServicePort) bool {
		at := slices.IndexFunc(b.Service.Ports, func(q kube.ServicePort) bool { return q.Name == p.Name && q.Port == p.Port })
		return was.servesPort(p) && (at < 0 || !b.servesPort(b.Service.Ports[at]))
	})
}
