package compile_test

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// keepLost keeps what the services that have lost their endpoints had before.
func keepLost(before, now *kube.Backends, endpointSlices bool) *kube.Backends {
	kept, _ := compile.KeepServices(now, compile.ServicesAt(before, rules.LostServices(before, now, endpointSlices)))
	return kept
}

func TestKeepLost(t *testing.T) {
	service := func(name string, ports ...int) *kube.Service {
		s := &kube.Service{Namespace: "ns", Name: name}
		for _, p := range ports {
			s.Ports = append(s.Ports, kube.ServicePort{Port: p, TargetPort: kube.NumberPort(p)})
		}
		return s
	}
	slice := func(name, address string) *kube.EndpointSlice {
		return &kube.EndpointSlice{
			Namespace: "ns", Name: name + "-1", Service: name, Ports: []kube.EndpointPort{{Port: 80, Protocol: "TCP"}},
			Endpoints: []kube.SliceEndpoint{{Address: address, Ready: address != "", NoAddress: address == ""}},
		}
	}
	ends := func(name, address string, port int) *kube.Endpoints {
		return &kube.Endpoints{Namespace: "ns", Name: name, Subsets: []kube.Subset{{
			Addresses: []string{address}, Ports: []kube.EndpointPort{{Port: port}},
		}}}
	}
	a, b, c := service("a", 80), service("b", 80), service("c", 80)
	before := &kube.Backends{
		Services: []*kube.Service{a, b, c}, Endpoints: []*kube.Endpoints{ends("a", "10.0.0.1", 80), ends("b", "10.0.0.2", 80)},
		EndpointSlices: []*kube.EndpointSlice{slice("a", "10.0.0.1"), slice("b", "10.0.0.2")},
	}
	for _, tt := range []struct {
		name   string
		slices bool
		now    kube.Backends
		kept   []string
	}{
		{"nothing lost", true, kube.Backends{
			Services: before.Services, EndpointSlices: []*kube.EndpointSlice{slice("a", "10.0.0.8"), slice("b", "10.0.0.9")},
		}, nil},
		{"an empty slice", true, kube.Backends{
			Services: before.Services, EndpointSlices: []*kube.EndpointSlice{slice("a", ""), slice("b", "10.0.0.9")},
		}, []string{"a"}},
		{"a slice that is gone", true, kube.Backends{
			Services: before.Services, EndpointSlices: []*kube.EndpointSlice{slice("a", "10.0.0.8")},
		}, []string{"b"}},
		{"a service that is gone", true, kube.Backends{
			Services: []*kube.Service{b, c}, EndpointSlices: []*kube.EndpointSlice{slice("a", "10.0.0.8"), slice("b", "10.0.0.9")},
		}, []string{"a"}},
		{"a port that is gone", true, kube.Backends{
			Services: []*kube.Service{service("a", 81), b, c}, EndpointSlices: []*kube.EndpointSlice{slice("a", "10.0.0.8"), slice("b", "10.0.0.9")},
		}, []string{"a"}},
		{"Endpoints without addresses", false, kube.Backends{
			Services: before.Services, Endpoints: []*kube.Endpoints{{Namespace: "ns", Name: "a"}, ends("b", "10.0.0.9", 80)},
		}, []string{"a"}},
		{"Endpoints that are gone", false, kube.Backends{
			Services: before.Services, Endpoints: []*kube.Endpoints{ends("a", "10.0.0.8", 80)},
		}, []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := keepLost(before, &tt.now, tt.slices)
			if len(tt.kept) == 0 && got != &tt.now {
				t.Error("nothing is lost and the result is another one")
			}
			for _, name := range []string{"a", "b"} {
				want, from := &tt.now, "now"
				if slices.Contains(tt.kept, name) {
					want, from = before, "before"
				}
				if !slices.Equal(of(got, name), of(want, name)) {
					t.Errorf("service %s is not as it was %s: %v, want %v", name, from, of(got, name), of(want, name))
				}
			}
			if len(got.Services) != len(before.Services) {
				t.Errorf("%d services, want %d", len(got.Services), len(before.Services))
			}
		})
	}
}

// TestKeptAddressesThatOthersGotAreDropped: the addresses of dead pods are given to new pods, also of other tenants.
func TestKeptAddressesThatOthersGotAreDropped(t *testing.T) {
	service := func(namespace, name string) *kube.Service {
		return &kube.Service{Namespace: namespace, Name: name, Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}
	}
	slice := func(namespace, name string, addresses ...string) *kube.EndpointSlice {
		s := &kube.EndpointSlice{Namespace: namespace, Name: name + "-1", Service: name, Ports: []kube.EndpointPort{{Port: 80, Protocol: "TCP"}}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, kube.SliceEndpoint{Address: a, Ready: true})
		}
		return s
	}
	old := slice("shop", "a", "10.0.0.1", "10.0.0.2", "fd00::1")
	starting := slice("team", "b", "10.0.0.2")
	starting.Endpoints[0].Ready = false
	for _, test := range []struct {
		name        string
		before, now []*kube.EndpointSlice
		want        []string
		sameSlice   bool
	}{
		{name: "nobody", want: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, sameSlice: true},
		{name: "a tenant", now: []*kube.EndpointSlice{slice("team", "b", "10.0.0.2")}, want: []string{"10.0.0.1", "fd00::1"}},
		{name: "a tenant whose pod is not ready", now: []*kube.EndpointSlice{starting}, want: []string{"10.0.0.1", "fd00::1"}},
		{name: "a neighbour", now: []*kube.EndpointSlice{slice("shop", "b", "10.0.0.2")}, want: []string{"10.0.0.1", "fd00::1"}},
		{name: "a slice of no service", now: []*kube.EndpointSlice{slice("shop", "", "10.0.0.1")}, want: []string{"10.0.0.2", "fd00::1"}},
		{name: "another spelling", now: []*kube.EndpointSlice{slice("team", "b", "fd00:0::1", "::ffff:10.0.0.1")}, want: []string{"10.0.0.2"}},
		{name: "all", now: []*kube.EndpointSlice{slice("team", "b", "fd00::1", "10.0.0.1", "10.0.0.2")}},
		{
			name: "a service with the same pods", before: []*kube.EndpointSlice{slice("shop", "b", "10.0.0.2")},
			now: []*kube.EndpointSlice{slice("shop", "b", "10.0.0.2")}, want: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, sameSlice: true,
		},
		{
			name: "a tenant that had it before", before: []*kube.EndpointSlice{slice("team", "b", "10.0.0.2")},
			now: []*kube.EndpointSlice{slice("team", "b", "10.0.0.2")}, want: []string{"10.0.0.1", "fd00::1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			services := []*kube.Service{service("shop", "a"), service("shop", "b"), service("team", "b")}
			before := &kube.Backends{Services: services, EndpointSlices: append([]*kube.EndpointSlice{old}, test.before...)}
			now := &kube.Backends{Services: services[1:], EndpointSlices: test.now}
			kept := keepLost(before, now, true)
			got := keptAddresses(kept)
			if !slices.Equal(got, test.want) {
				t.Errorf("kept are %q, want %q", got, test.want)
			}
			if same := slices.Contains(kept.EndpointSlices, old); same != test.sameSlice {
				t.Errorf("the same slice is kept: %v", same)
			}
			if len(old.Endpoints) != 3 {
				t.Error("an object of the cluster was changed")
			}
			_, reduced := compile.KeepServices(now, compile.ServicesAt(before, []kube.ServiceKey{{Namespace: "shop", Name: "a"}}))
			later, _ := compile.KeepServices(&kube.Backends{Services: services[1:]}, reduced)
			if again := keptAddresses(later); !slices.Equal(again, test.want) && len(test.want) > 0 {
				t.Errorf("when the other pod is gone, kept are %q", again)
			}
		})
	}
	t.Run("Endpoints", func(t *testing.T) {
		ends := func(namespace, name string, addresses ...string) *kube.Endpoints {
			return &kube.Endpoints{Namespace: namespace, Name: name, Subsets: []kube.Subset{{Addresses: addresses, Ports: []kube.EndpointPort{{Port: 80}}}}}
		}
		services := []*kube.Service{service("shop", "a"), service("team", "b")}
		before := &kube.Backends{Services: services, Endpoints: []*kube.Endpoints{ends("shop", "a", "10.0.0.1", "10.0.0.2")}}
		kept := keepLost(before, &kube.Backends{Services: services, Endpoints: []*kube.Endpoints{ends("team", "b", "10.0.0.1")}}, false)
		for _, e := range kept.Endpoints {
			if e.Name == "a" && !slices.Equal(e.Subsets[0].Addresses, []string{"10.0.0.2"}) {
				t.Errorf("kept are %q", e.Subsets[0].Addresses)
			}
		}
	})
}

// keptAddresses returns the addresses of the service shop/a.
func keptAddresses(b *kube.Backends) (all []string) {
	for _, s := range b.EndpointSlices {
		if s.Namespace == "shop" && s.Service == "a" {
			for _, e := range s.Endpoints {
				all = append(all, e.Address)
			}
		}
	}
	return all
}

// of returns the objects of a service.
func of(b *kube.Backends, name string) (objects []kube.Object) {
	for _, s := range b.Services {
		if s.Name == name {
			objects = append(objects, s)
		}
	}
	for _, e := range b.Endpoints {
		if e.Name == name {
			objects = append(objects, e)
		}
	}
	for _, s := range b.EndpointSlices {
		if s.Service == name {
			objects = append(objects, s)
		}
	}
	return objects
}
