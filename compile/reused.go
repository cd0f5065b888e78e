package compile

import (
	"net/netip"
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// addressUse says which services use the addresses of services that keep previous endpoints. A pod that died gives its address
// back, and the next pod that gets it may belong to another tenant.
type addressUse map[netip.Addr][]kube.ServiceKey

// withoutReused removes from the kept endpoints of lost services the addresses that by now belong to another service. Services of one
// namespace may share their pods: an address that both had before is no reused one.
func withoutReused(kept, before, now *kube.Backends, lost map[kube.ServiceKey]struct{}) {
	is, was := make(addressUse), make(addressUse)
	eachAddress(kept, func(key kube.ServiceKey, a netip.Addr) {
		if _, of := lost[key]; of {
			is[a], was[a] = nil, nil
		}
	})
	is.fill(now)
	was.fill(before)
	reused := func(key kube.ServiceKey, text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && slices.ContainsFunc(is[a.Unmap()], func(owner kube.ServiceKey) bool {
			return owner != key && (owner.Namespace != key.Namespace || !slices.Contains(was[a.Unmap()], owner))
		})
	}
	for i, s := range kept.EndpointSlices {
		key := sliceKey(s)
		if _, of := lost[key]; !of {
			continue
		}
		of := func(e kube.SliceEndpoint) bool { return reused(key, e.Address) }
		if slices.ContainsFunc(s.Endpoints, of) {
			changed := *s
			changed.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), of)
			kept.EndpointSlices[i] = &changed
		}
	}
	for i, e := range kept.Endpoints {
		key := serviceKey(e.Namespace, e.Name)
		if _, of := lost[key]; of {
			kept.Endpoints[i] = endpointsWithout(e, func(address string) bool { return reused(key, address) })
		}
	}
}

// fill records which services have the addresses in question.
func (u addressUse) fill(b *kube.Backends) {
	eachAddress(b, func(key kube.ServiceKey, a netip.Addr) {
		if owners, asked := u[a]; asked && !slices.Contains(owners, key) {
			u[a] = append(owners, key)
		}
	})
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
			address(sliceKey(s), e.Address)
		}
	}
	for _, e := range b.Endpoints {
		for _, subset := range e.Subsets {
			for _, a := range subset.Addresses {
				address(serviceKey(e.Namespace, e.Name), a)
			}
		}
	}
}

// endpointsWithout returns the Endpoints without some addresses, which are the same if there are none of these.
func endpointsWithout(e *kube.Endpoints, drop func(string) bool) *kube.Endpoints {
	some := slices.ContainsFunc(e.Subsets, func(s kube.Subset) bool { return slices.ContainsFunc(s.Addresses, drop) })
	if !some {
		return e
	}
	changed := *e
	changed.Subsets = slices.Clone(e.Subsets)
	for i := range changed.Subsets {
		changed.Subsets[i].Addresses = slices.DeleteFunc(slices.Clone(changed.Subsets[i].Addresses), drop)
	}
	return &changed
}
