package compile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// TestZonesOfOneServiceHaveALimit: the zones with the most endpoints stay, whatever their names, and other services keep theirs.
func TestZonesOfOneServiceHaveALimit(t *testing.T) {
	s := isolationSnapshot()
	slice := &kube.EndpointSlice{Namespace: "shop", Name: "app-1-x", Service: "app-1", Ports: []kube.EndpointPort{{Port: 8080, Protocol: "TCP"}}}
	add := func(zone string) {
		n := len(slice.Endpoints)
		slice.Endpoints = append(slice.Endpoints, kube.SliceEndpoint{Address: fmt.Sprintf("10.3.%d.%d", n/250, n%250), Ready: true, Zone: zone})
	}
	for i := range 900 {
		add(fmt.Sprintf("a-%03d", i/3)) // 300 zones with three endpoints each
	}
	for range 4 {
		add("z-real")
	}
	s.EndpointSlices = []*kube.EndpointSlice{slice}
	got := mustCompiler(t, rules.Options{EndpointSlices: true}).Compile(s)
	for _, o := range []kube.Object{s.Ingresses[1], s.RouteGroups[1]} {
		problems := got.ProblemsOf(o.Ref())
		if len(problems) != 1 || problems[0].Reason != rules.TooManyZones || !strings.Contains(problems[0].Message, "in 301 zones") {
			t.Errorf("the problems of %s are %v", o.Ref(), problems)
		}
	}
	zones := table.Of(got.Routes, 1, time.Time{}).Zones()
	if len(zones) != 16 || zones[0] != "a-000" || zones[15] != "z-real" {
		t.Errorf("%d zones: %q", len(zones), zones)
	}
	slice = &kube.EndpointSlice{Namespace: "shop", Name: "app-1-x", Service: "app-1", Ports: slice.Ports, Endpoints: slice.Endpoints[900:]}
	s.EndpointSlices = []*kube.EndpointSlice{slice}
	if got := mustCompiler(t, rules.Options{EndpointSlices: true}).Compile(s); len(got.ProblemsOf(s.Ingresses[1].Ref())) != 0 {
		t.Errorf("problems with one zone: %v", got.Problems)
	}
}
