package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// LostServices returns the services that no longer exist, or lost all endpoints of a port. They are sorted.
func (c *Compiler) LostServices(before, now *kube.Backends) []kube.ServiceKey {
	return rules.LostServices(before, now, c.set.EndpointSlices)
}

// KeptService is a service at an earlier version with its endpoints, without addresses that now belong to another service.
type KeptService struct {
	kube.Backends
	// Sharing are the other services of the namespace that also had some of the addresses.
	Sharing []kube.ServiceKey `json:",omitempty"`
}

func ServicesAt(b *kube.Backends, keys []kube.ServiceKey) map[kube.ServiceKey]*KeptService {
	all := make(map[kube.ServiceKey]*KeptService, len(keys))
	for _, key := range keys {
		all[key] = &KeptService{}
	}
	for _, s := range b.Services {
		if k := all[s.ServiceKey()]; k != nil {
			k.Services = append(k.Services, s)
		}
	}
	for _, e := range b.Endpoints {
		if k := all[e.ServiceKey()]; k != nil {
			k.Endpoints = append(k.Endpoints, e)
		}
	}
	for _, s := range b.EndpointSlices {
		if k := all[s.ServiceKey()]; k != nil {
			k.EndpointSlices = append(k.EndpointSlices, s)
		}
	}
	users := usersOf(all, b)
	for key, k := range all {
		eachAddress(&k.Backends, func(_ kube.ServiceKey, a netip.Addr) {
			for _, user := range users[a] {
				if user != key && user.Namespace == key.Namespace && !slices.Contains(k.Sharing, user) {
					k.Sharing = append(k.Sharing, user)
				}
			}
		})
	}
	return all
}

// KeepServices returns backends with some services at earlier versions, without the addresses that now belong to another
// service: the next pod that gets the address of a terminated one may belong to another tenant. It takes O(objects) time.
func KeepServices(now *kube.Backends, kept map[kube.ServiceKey]*KeptService) (*kube.Backends, map[kube.ServiceKey]*KeptService) {
	if len(kept) == 0 {
		return now, nil
	}
	users := usersOf(kept, now)
	next := now.Of(func(key kube.ServiceKey) bool { return kept[key] == nil })
	kept = maps.Clone(kept)
	for _, key := range slices.SortedFunc(maps.Keys(kept), kube.ServiceKey.Compare) {
		k := kept[key].withoutReused(key, users)
		kept[key] = k
		next.Services = append(next.Services, k.Services...)
		next.Endpoints = append(next.Endpoints, k.Endpoints...)
		next.EndpointSlices = append(next.EndpointSlices, k.EndpointSlices...)
	}
	return next, kept
}

// withoutReused drops addresses that now have other users, unless services of one namespace shared them before.
func (k *KeptService) withoutReused(key kube.ServiceKey, users map[netip.Addr][]kube.ServiceKey) *KeptService {
	reused := make(map[netip.Addr]bool)
	eachAddress(&k.Backends, func(_ kube.ServiceKey, a netip.Addr) {
		if slices.ContainsFunc(users[a], func(user kube.ServiceKey) bool { return user != key && !slices.Contains(k.Sharing, user) }) {
			reused[a] = true
		}
	})
	if len(reused) == 0 {
		return k
	}
	drop := func(text string) bool { a, _ := netip.ParseAddr(text); return reused[a.Unmap()] }
	next := &KeptService{Sharing: k.Sharing, Backends: kube.Backends{Services: k.Services}}
	for _, was := range k.Endpoints {
		e := *was
		e.Subsets = slices.Clone(e.Subsets)
		for i := range e.Subsets {
			e.Subsets[i].Addresses = slices.DeleteFunc(slices.Clone(e.Subsets[i].Addresses), drop)
		}
		next.Endpoints = append(next.Endpoints, &e)
	}
	for _, was := range k.EndpointSlices {
		s := *was
		s.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e kube.SliceEndpoint) bool { return drop(e.Address) })
		next.EndpointSlices = append(next.EndpointSlices, &s)
	}
	return next
}

func usersOf(kept map[kube.ServiceKey]*KeptService, now *kube.Backends) map[netip.Addr][]kube.ServiceKey {
	users := make(map[netip.Addr][]kube.ServiceKey)
	for _, k := range kept {
		eachAddress(&k.Backends, func(_ kube.ServiceKey, a netip.Addr) { users[a] = nil })
	}
	eachAddress(now, func(key kube.ServiceKey, a netip.Addr) {
		if of, asked := users[a]; asked && !slices.Contains(of, key) {
			users[a] = append(of, key)
		}
	})
	return users
}

func eachAddress(b *kube.Backends, yield func(kube.ServiceKey, netip.Addr)) {
	address := func(key kube.ServiceKey, text string) {
		if a, err := netip.ParseAddr(text); err == nil {
			yield(key, a.Unmap())
		}
	}
	for _, s := range b.EndpointSlices {
		for _, e := range s.Endpoints {
			address(s.ServiceKey(), e.Address)
		}
	}
	for _, e := range b.Endpoints {
		for _, subset := range e.Subsets {
			for _, a := range subset.Addresses {
				address(e.ServiceKey(), a)
			}
		}
	}
}
