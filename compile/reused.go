package compile

import (
	"net/netip"
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// addressUse says which services use the addresses of services that keep previous endpoints. A pod that died gives its address
// back, and the next pod that gets it may belong to another tenant.
type addressUse map[netip.Addr][]kube.ServiceKey

func usersOf(kept map[kube.ServiceKey]*KeptService, b *kube.Backends) addressUse {
	use := make(addressUse)
	for _, k := range kept {
		eachAddress(k.backends(), func(_ kube.ServiceKey, a netip.Addr) { use[a] = nil })
	}
	eachAddress(b, func(key kube.ServiceKey, a netip.Addr) {
		if owners, asked := use[a]; asked && !slices.Contains(owners, key) {
			use[a] = append(owners, key)
		}
	})
	return use
}

// withoutReused returns kept services without the addresses that by now belong to another service. Services of one namespace may share
// their pods: an address that both had before is no reused one.
func withoutReused(kept map[kube.ServiceKey]*KeptService, now *kube.Backends) map[kube.ServiceKey]*KeptService {
	use := usersOf(kept, now)
	next := make(map[kube.ServiceKey]*KeptService, len(kept))
	for key, k := range kept {
		reused := make(map[netip.Addr]bool)
		eachAddress(k.backends(), func(_ kube.ServiceKey, a netip.Addr) {
			if slices.ContainsFunc(use[a], func(owner kube.ServiceKey) bool { return owner != key && !slices.Contains(k.Sharing, owner) }) {
				reused[a] = true
			}
		})
		if next[key] = k; len(reused) > 0 {
			next[key] = k.without(reused)
		}
	}
	return next
}

// without returns a copy of the service without some addresses.
func (k *KeptService) without(addresses map[netip.Addr]bool) *KeptService {
	drop := func(text string) bool { a, err := netip.ParseAddr(text); return err == nil && addresses[a.Unmap()] }
	changed := *k
	if k.Endpoints != nil {
		e := *k.Endpoints
		e.Subsets = slices.Clone(e.Subsets)
		for i := range e.Subsets {
			e.Subsets[i].Addresses = slices.DeleteFunc(slices.Clone(e.Subsets[i].Addresses), drop)
		}
		changed.Endpoints = &e
	}
	changed.Slices = slices.Clone(k.Slices)
	for i, s := range k.Slices {
		e := *s
		e.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e kube.SliceEndpoint) bool { return drop(e.Address) })
		changed.Slices[i] = &e
	}
	return &changed
}

// backends returns the endpoints of the service alone.
func (k *KeptService) backends() *kube.Backends {
	b := &kube.Backends{EndpointSlices: k.Slices}
	if k.Endpoints != nil {
		b.Endpoints = []*kube.Endpoints{k.Endpoints}
	}
	return b
}

// eachAddress calls yield for the IP addresses of all services, ready or not.
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
				address(kube.ServiceKeyOf(e.Namespace, e.Name), a)
			}
		}
	}
}
