package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/programs"
)

// starts are the ways to read the API.
var starts = map[string]func(t *testing.T, api *faultProxy, args ...string) *process{
	"poll": startRoutesrv, "watch": startWatching,
}

// shopOf returns a service with its own EndpointSlice, and an Ingress for it.
func shopOf(i int) (objects, slice string) {
	slice = fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: lost%[1]d, namespace: shop, labels: {kubernetes.io/service-name: lost%[1]d}}
addressType: IPv4
endpoints: [{addresses: [10.9.0.%[1]d]}, {addresses: [10.9.1.%[1]d]}]
ports: [{name: http, port: 8080, protocol: TCP}]
---`, i)
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: lost%[1]d, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: lost%[1]d, namespace: shop}
spec: {rules: [{host: lost%[1]d.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: lost%[1]d, port: {number: 80}}}}]}}]}
---`, i), slice
}

// TestEndpointsThatAreAllGoneAreHeld deletes the EndpointSlices of forty routes one after another, as a broken controller does,
// and restores them. At no time do more than half of the routes lack endpoints.
func TestEndpointsThatAreAllGoneAreHeld(t *testing.T) {
	c := ownCluster(t)
	var objects, slices strings.Builder
	for i := range 40 {
		o, s := shopOf(i + 1)
		objects.WriteString(o)
		slices.WriteString(s)
	}
	withShop(t, c)
	withObjects(t, c, objects.String()+slices.String())
	for _, mode := range []string{"poll", "watch"} {
		t.Run(mode, func(t *testing.T) {
			p := starts[mode](t, newFaultProxy(t, c))
			p.Ready(t)
			before := p.get(t, "/routes", "").Body
			if n := strings.Count(before, "10.9.0."); n < 40 {
				t.Fatalf("%d routes have endpoints", n)
			}
			if err := c.remove(t.Context(), slices.String()); err != nil {
				t.Fatal(err)
			}
			programs.Eventually(t, "a held table", func() bool { return strings.Contains(p.Log(), "reason=backends_lost") })
			// The rule counts every route with endpoints, including those of the shop.
			if had, has := routesWithEndpoints(t, before), routesWithEndpoints(t, p.get(t, "/routes", "").Body); 2*has < had {
				t.Errorf("%d of %d routes still have endpoints", has, had)
			}
			if err := c.apply(t.Context(), slices.String()); err != nil {
				t.Fatal(err)
			}
			programs.Eventually(t, "the end of the hold", func() bool { return strings.Contains(p.Log(), "kept objects are back") })
			programs.Eventually(t, "the table from before", func() bool { return p.get(t, "/routes", "").Body == before })
		})
	}
}

// routesWithEndpoints counts the routes of a table whose requests reach an address.
func routesWithEndpoints(t *testing.T, text string) (n int) {
	t.Helper()
	routes, err := eskip.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.BackendType == eskip.NetworkBackend || r.BackendType == eskip.LBBackend {
			n++
		}
	}
	return n
}

// TestDiscoveryThatIsNotFoundForAMomentLosesNothing answers 404 for the group of RouteGroups for some polls.
func TestDiscoveryThatIsNotFoundForAMomentLosesNothing(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	withObjects(t, c, randomObject(1, 1))
	for _, mode := range []string{"poll", "watch"} {
		t.Run(mode, func(t *testing.T) {
			api := newFaultProxy(t, c)
			p := starts[mode](t, api)
			p.Ready(t)
			w := watch(p.Main + "/routes")
			const path = "/apis/zalando.org/v1"
			api.fail(path, status(http.StatusNotFound))
			api.awaitRequests(t, path, 2)
			api.fail(path, nil)
			api.awaitRequests(t, path, 2)
			programs.Eventually(t, "reads to succeed", func() bool { return p.status(t).Source.Failures == 0 })
			w.cancel()
			<-w.done
			if len(w.digests) != 1 {
				t.Errorf("saw tables %v, want one", w.digests)
			}
			if !strings.Contains(p.get(t, "/routes", "").Body, "rg1") {
				t.Error("the route group is lost")
			}
		})
	}
}

// A list that is really empty is valid, in every form that an API server sends.
func TestEmptyListsOfARealAPIServerAreTaken(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			p := start(t, newFaultProxy(t, c), "-kubernetes-namespace=kube-public")
			p.Ready(t)
			if body := p.get(t, "/routes", "").Body; p.status(t).Source.Failures > 0 || !strings.Contains(body, "kube__redirect") ||
				strings.Contains(body, "kube_shop") {
				t.Errorf("status %+v, table\n%s", p.status(t), body)
			}
		})
	}
}
