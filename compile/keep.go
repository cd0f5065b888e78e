package compile

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// externalNameType is the type of a service without endpoints.
const externalNameType = "ExternalName"

// KeepLost returns the newest backends, except for services that had endpoints and have lost all of them, for at least one of
// their ports, or no longer exist: these keep their previous objects. This can be served while it is unknown whether the loss of
// so many endpoints is intended: all other services are current. An address that by now belongs to another service is not kept. If
// no service has lost its endpoints, the result is now itself.
// KeepLost changes neither argument. It costs O(objects).
func KeepLost(before, now *kube.Backends, endpointSlices bool) *kube.Backends {
	was, is := indexBackends(before, endpointSlices), indexBackends(now, endpointSlices)
	lost := make(map[kube.ServiceKey]struct{})
	for key, svc := range was.services {
		if was.serves(key, svc) && is.lacks(was, key, svc) {
			lost[key] = struct{}{}
		}
	}
	if len(lost) == 0 {
		return now
	}
	kept := *now
	kept.Services = keep(lost, before.Services, now.Services, func(s *kube.Service) kube.ServiceKey { return serviceKey(s.Namespace, s.Name) })
	kept.Endpoints = keep(lost, before.Endpoints, now.Endpoints, func(e *kube.Endpoints) kube.ServiceKey { return serviceKey(e.Namespace, e.Name) })
	kept.EndpointSlices = keep(lost, before.EndpointSlices, now.EndpointSlices, sliceKey)
	withoutReused(&kept, before, now, lost)
	return &kept
}

func indexBackends(b *kube.Backends, endpointSlices bool) *cluster {
	c := newCluster(endpointSlices, nil)
	c.advance(b, nil)
	return c
}

// serves reports whether the service has endpoints for one of its ports.
func (c *cluster) serves(key kube.ServiceKey, svc *kube.Service) bool {
	return svc.Type == externalNameType || slices.ContainsFunc(svc.Ports, func(p kube.ServicePort) bool { return c.servesPort(key, p) })
}

// servesPort reports whether an Ingress or a RouteGroup gets endpoints for the port.
func (c *cluster) servesPort(key kube.ServiceKey, p kube.ServicePort) bool {
	if c.slices != nil {
		g := c.slices[key]
		return g != nil && len(g.endpoints()) > 0
	}
	e := c.endpoints[key]
	return len(ingressSubsetEndpoints(e, p, "")) > 0 || len(routeGroupSubsetEndpoints(e, p.TargetPort, "")) > 0
}

// lacks reports whether a port of the service had endpoints before and has none now.
func (c *cluster) lacks(was *cluster, key kube.ServiceKey, svc *kube.Service) bool {
	now := c.services[key]
	if now == nil || svc.Type == externalNameType || now.Type == externalNameType {
		return now == nil
	}
	return slices.ContainsFunc(svc.Ports, func(p kube.ServicePort) bool {
		at := slices.IndexFunc(now.Ports, func(q kube.ServicePort) bool { return q.Name == p.Name && q.Port == p.Port })
		return was.servesPort(key, p) && (at < 0 || !c.servesPort(key, now.Ports[at]))
	})
}

// keep returns the previous objects for the keys, and the current ones for all others.
func keep[T any](keys map[kube.ServiceKey]struct{}, before, now []*T, keyOf func(*T) kube.ServiceKey) []*T {
	of := func(o *T) bool { _, ok := keys[keyOf(o)]; return ok }
	kept := slices.DeleteFunc(slices.Clone(now), of)
	for _, o := range before {
		if of(o) {
			kept = append(kept, o)
		}
	}
	return kept
}
