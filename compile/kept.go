package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// LostServices returns the services that had endpoints before and have lost all of them, for at least one of their ports, or no longer
// exist. They are sorted.
func (c *Compiler) LostServices(before, now *kube.Backends) []kube.ServiceKey {
	return rules.LostServices(before, now, c.set.EndpointSlices)
}

// KeptService is a service at an earlier version with everything that belongs to it: one that has lost its endpoints, while it is unknown
// whether that is intended. It is immutable.
type KeptService struct {
	Service *kube.Service
	// Endpoints and Slices: the kind that is used, or both. They have no addresses that by now belong to another service.
	Endpoints *kube.Endpoints       `json:",omitempty"`
	Slices    []*kube.EndpointSlice `json:",omitempty"`
	// Sharing are the other services of the namespace that had some of the addresses as well.
	Sharing []kube.ServiceKey `json:",omitempty"`
}

// ServicesAt returns services as they are in backends.
func ServicesAt(b *kube.Backends, keys []kube.ServiceKey) map[kube.ServiceKey]*KeptService {
	all := make(map[kube.ServiceKey]*KeptService, len(keys))
	for _, key := range keys {
		all[key] = &KeptService{}
	}
	for _, s := range b.Services {
		if k := all[kube.ServiceKeyOf(s.Namespace, s.Name)]; k != nil {
			k.Service = s
		}
	}
	for _, e := range b.Endpoints {
		if k := all[kube.ServiceKeyOf(e.Namespace, e.Name)]; k != nil {
			k.Endpoints = e
		}
	}
	for _, s := range b.EndpointSlices {
		if k := all[s.ServiceKey()]; k != nil {
			k.Slices = append(k.Slices, s)
		}
	}
	use := usersOf(all, b)
	for key, k := range all {
		eachAddress(k.backends(), func(_ kube.ServiceKey, a netip.Addr) {
			for _, owner := range use[a] {
				if owner != key && owner.Namespace == key.Namespace && !slices.Contains(k.Sharing, owner) {
					k.Sharing = append(k.Sharing, owner)
				}
			}
		})
	}
	return all
}

// KeepServices returns backends with some services at earlier versions, and these without the addresses that by now belong to another
// service. It changes none of its arguments. It costs O(objects).
func KeepServices(now *kube.Backends, kept map[kube.ServiceKey]*KeptService) (*kube.Backends, map[kube.ServiceKey]*KeptService) {
	if len(kept) == 0 {
		return now, nil
	}
	kept = withoutReused(kept, now)
	next := *now
	next.Services = without(kept, now.Services, func(s *kube.Service) kube.ServiceKey { return kube.ServiceKeyOf(s.Namespace, s.Name) })
	next.Endpoints = without(kept, now.Endpoints, func(e *kube.Endpoints) kube.ServiceKey { return kube.ServiceKeyOf(e.Namespace, e.Name) })
	next.EndpointSlices = without(kept, now.EndpointSlices, (*kube.EndpointSlice).ServiceKey)
	for _, key := range slices.SortedFunc(maps.Keys(kept), kube.ServiceKey.Compare) {
		k := kept[key]
		if k.Service != nil {
			next.Services = append(next.Services, k.Service)
		}
		if k.Endpoints != nil {
			next.Endpoints = append(next.Endpoints, k.Endpoints)
		}
		next.EndpointSlices = append(next.EndpointSlices, k.Slices...)
	}
	return &next, kept
}

// without returns the objects of all other services.
func without[T any](kept map[kube.ServiceKey]*KeptService, now []*T, keyOf func(*T) kube.ServiceKey) []*T {
	return slices.DeleteFunc(slices.Clone(now), func(o *T) bool { _, is := kept[keyOf(o)]; return is })
}
