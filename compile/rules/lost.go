package rules

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
)

const externalNameType = "ExternalName"

// LostServices returns the services that no longer exist, or lost all endpoints of a port, sorted.
func LostServices(before, now *kube.Backends, endpointSlices bool) (lost []kube.ServiceKey) {
	differ := make(map[kube.ServiceKey]bool)
	gone, fresh := before.Difference(now)
	for _, b := range [2]*kube.Backends{gone, fresh} {
		b.Of(func(key kube.ServiceKey) bool {
			differ[key] = true
			return false
		})
	}
	if len(differ) == 0 {
		return nil
	}
	of := func(b *kube.Backends) *index {
		return indexOf(b.Of(func(key kube.ServiceKey) bool { return differ[key] }), endpointSlices)
	}
	is := View{index: of(now)}
	of(before).services.Scan(func(was *Service) bool {
		if was.serves() && is.service(was.Key).lacks(&was.backing) {
			lost = append(lost, was.Key)
		}
		return true
	})
	return lost
}

func (b *backing) serves() bool {
	return b.Service != nil && (b.Service.Type == externalNameType || slices.ContainsFunc(b.Service.Ports, b.servesPort))
}

func (b *backing) servesPort(p kube.ServicePort) bool {
	return len(b.slices.endpoints()) > 0 ||
		len(subsetEndpoints(kube.KindIngress, b.endpoints, p, "")) > 0 || len(subsetEndpoints(kube.KindRouteGroup, b.endpoints, p, "")) > 0
}

func (b *backing) lacks(was *backing) bool {
	if b.Service == nil || was.Service.Type == externalNameType || b.Service.Type == externalNameType {
		return b.Service == nil
	}
	return slices.ContainsFunc(was.Service.Ports, func(p kube.ServicePort) bool {
		at := slices.IndexFunc(b.Service.Ports, func(q kube.ServicePort) bool { return q.Name == p.Name && q.Port == p.Port })
		return was.servesPort(p) && (at < 0 || !b.servesPort(b.Service.Ports[at]))
	})
}
