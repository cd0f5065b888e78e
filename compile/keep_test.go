package compile_test

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
)

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
			got := compile.KeepLost(before, &tt.now, tt.slices)
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
