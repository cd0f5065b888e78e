package rules

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// mergedSlices are all slices of one service that list ports, in the order of the snapshot.
type mergedSlices []*kube.EndpointSlice

type sliceAddress struct{ address, zone string }

// ports returns the ports: those of the last slice with a list of them.
func (g mergedSlices) ports() []kube.EndpointPort { return g[len(g)-1].Ports }

// endpoints returns the ready addresses. An address that terminates in any slice is excluded, whatever the order of the slices.
func (g mergedSlices) endpoints() []sliceAddress {
	var all []sliceAddress
	position := make(map[string]int) // in all, by address; gone for one that terminates
	const gone = -1
	for _, s := range g {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			at, known := position[e.Address]
			switch {
			case e.NoAddress:
			case e.Terminating:
				position[e.Address] = gone
			case !e.Ready:
			case !known:
				position[e.Address] = len(all)
				all = append(all, sliceAddress{e.Address, e.Zone})
			case at != gone:
				all[at].zone = e.Zone // the last zone counts
			}
		}
	}
	return slices.DeleteFunc(all, func(a sliceAddress) bool { return position[a.address] == gone })
}

// Addresses returns the ready addresses of a service, sorted as strings: from all its subsets, or from its merged EndpointSlices. It
// serves the shard endpoints; an unknown service has no addresses.
func (v *View) Addresses(namespace, name string) []string {
	var all []string
	for _, a := range v.services[kube.ServiceKey{Namespace: namespace, Name: name}].slices.endpoints() {
		all = append(all, a.address)
	}
	if e := v.services[kube.ServiceKeyOf(namespace, name)].endpoints; e != nil {
		for _, sub := range e.Subsets {
			all = append(all, sub.Addresses...)
		}
	}
	slices.Sort(all)
	return all
}
