package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// backend is a service with one pod, in the form of the API that the server reads.
func backend(name, address string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec: {clusterIP: 10.3.0.1, ports: [{port: 80, targetPort: 8080}]}
---
`, name) + pod(name, address)
}

// pod is the slice of a service with one pod; an empty address means no pod.
func pod(name, address string) string {
	endpoints := "[]"
	if address != "" {
		endpoints = fmt.Sprintf("[{addresses: [%s]}]", address)
	}
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: shop, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: %[2]s
ports: [{port: 8080, protocol: TCP}]
---`, name, endpoints)
}

// emptied are the slices of services that lost their pods.
func emptied(names []string) string {
	var all strings.Builder
	for _, name := range names {
		all.WriteString(pod(name, ""))
	}
	return all.String()
}

// toward is an Ingress whose backend is the service.
func toward(name, service string) string {
	return strings.Replace(ingress(name), "{name: s, port", "{name: "+service+", port", 1)
}

// replaced waits until the served table has the new address, and not the old one.
func (f *fixture) replaced(gone, come string) {
	f.t.Helper()
	f.eventually(come+" in the served table", func() bool { return strings.Contains(f.get("/routes").body, come) })
	if body := f.get("/routes").body; strings.Contains(body, gone) {
		f.t.Errorf("%s is gone and still served:\n%s", gone, body)
	}
}

// state waits for a value of X-Table-State; an empty one means that nothing is held, which the support listener says a moment later.
func (f *fixture) state(want string) {
	f.t.Helper()
	f.eventually("state "+want, func() bool {
		return f.get("/routes").header.Get("X-Table-State") == want && (want != "" || !f.guard().Held)
	})
}

// Objects are deleted one after another, so a read may miss some of them and be let through. The last of them, shop15, makes it
// more than half, and is held in any case.

// TestHeldIntentHasLiveEndpoints: half of the Ingresses are deleted by accident, and pods continue to be replaced.
func TestHeldIntentHasLiveEndpoints(t *testing.T) {
	names := shops(30)
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, nil)
	f.delete(names[:16]...)
	g := f.held()
	if g.Reason != guard.RoutesLost || !g.keeps(kube.KindIngress) || g.keeps(kube.KindService) {
		t.Fatalf("held for %+v, want lost routes, and Ingresses kept", g)
	}
	f.state("held")
	for i := 2; i < 6; i++ {
		f.apply(pod("s", fmt.Sprintf("10.2.0.%d", i)))
		f.replaced(fmt.Sprintf("10.2.0.%d:", i-1), fmt.Sprintf("10.2.0.%d:", i))
		if got := f.get("/routes"); !strings.Contains(got.body, "shop15_") {
			t.Fatalf("the hold is forgotten:\n%s", got.body)
		}
		f.state("held") // all the time
	}

	// What was shown before the last pods changed is accepted, with the current endpoints.
	if now := f.held(); now.Digest != g.Digest || now.Since != g.Since {
		t.Errorf("held is %+v, was %+v: want the same list of kept objects", now, g)
	}
	sent := f.accept("?digest=" + g.Digest.String())
	body := f.get("/routes").body
	if sent.status != http.StatusOK || strings.Contains(body, "shop15_") || !strings.Contains(body, "shop16_") || !strings.Contains(body, "10.2.0.5:") {
		t.Errorf("acceptance: %d %s, then\n%s", sent.status, sent.body, body)
	}
	f.state("")
	f.polled()
	f.apply(pod("s", "10.2.0.9"))
	f.replaced("10.2.0.5:", "10.2.0.9:")
	f.state("")
	if strings.Contains(f.log.String(), "panic") {
		t.Error("a poll has panicked")
	}
}

// A digest accepts the kept objects that were shown with it, and no others.
func TestAcceptanceIsOfOneList(t *testing.T) {
	names := shops(30)
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, nil)
	f.delete(names[:16]...)
	g := f.held()
	f.delete(names[16:25]...)
	f.eventually("more kept objects", func() bool { return f.held().KeptCount > g.KeptCount })
	sent := f.accept("?digest=" + g.Digest.String())
	if body := f.get("/routes").body; sent.status != http.StatusConflict || !strings.Contains(body, "shop15_") {
		t.Errorf("accepted: %d %s, then\n%s", sent.status, sent.body, body)
	}
}

// TestLostBackendsAreKeptWhileOthersLive: all slices but one are emptied, and the pod of that one is replaced.
func TestLostBackendsAreKeptWhileOthersLive(t *testing.T) {
	var objects strings.Builder
	for _, name := range shops(30) {
		objects.WriteString(backend(name, "10.2.0.1") + toward(name, name))
	}
	f := startReading(t, objects.String()+backend("other", "10.9.0.1")+toward("other", "other"), true, nil)
	f.apply(emptied(shops(30)))
	g := f.held()
	f.state("backends-held")
	for i := 2; i < 5; i++ {
		f.apply(pod("other", fmt.Sprintf("10.9.0.%d", i)))
		f.replaced(fmt.Sprintf("10.9.0.%d:", i-1), fmt.Sprintf("10.9.0.%d:", i))
	}
	f.apply(toward("fresh", "other")) // new routes are not held
	f.eventually("a new Ingress", func() bool { return strings.Contains(f.get("/routes").body, "fresh_example_org") })
	if g = f.held(); g.Reason != guard.BackendsLost || g.keeps(kube.KindIngress) {
		t.Errorf("held for %+v", g)
	}
	f.apply(pod("shop3", "10.2.0.33")) // one of them is back
	f.eventually("the service that is back", func() bool { return strings.Contains(f.get("/routes").body, "10.2.0.33:") })
	f.apply(strings.ReplaceAll(emptied(shops(30)), "endpoints: []", "endpoints: [{addresses: [10.2.0.2]}]"))
	f.replaced("10.2.0.1:", "10.2.0.2:")
	f.state("")
}

// TestAKeptAddressOfAnotherTenantIsNotServed: most services are scaled to zero, and the address of one of their pods is given to a new
// pod of another tenant. No route of the old service leads there, also while its Ingress is deleted and kept.
func TestAKeptAddressOfAnotherTenantIsNotServed(t *testing.T) {
	var objects strings.Builder
	names := shops(30)
	for i, name := range names {
		objects.WriteString(backend(name, fmt.Sprintf("10.2.0.%d", i+1)) + toward(name, name))
	}
	tenant := inNamespace(backend("s", "10.9.0.1")+ingress("tenant"), "team")
	f := startReading(t, objects.String()+tenant, true, nil)
	to := func(address string) (hosts []string) {
		for line := range strings.Lines(f.get("/routes").body) {
			if strings.Contains(line, address) {
				_, host, _ := strings.Cut(line, "Host(/^(")
				name, _, _ := strings.Cut(host, "[.]")
				hosts = append(hosts, name)
			}
		}
		return hosts
	}
	f.breakSource(true)
	f.polled()
	f.apply(emptied(names))
	f.breakSource(false)
	f.held()
	if got := to("10.2.0.4:"); !slices.Equal(got, []string{"shop3"}) {
		t.Fatalf("10.2.0.4 serves %q before another pod has it", got)
	}
	f.apply(inNamespace(pod("s", "10.2.0.4"), "team"))
	f.eventually("the pod of the tenant", func() bool { return slices.Contains(to("10.2.0.4:"), "tenant") })
	if got := to("10.2.0.4:"); !slices.Equal(got, []string{"tenant"}) {
		t.Errorf("10.2.0.4 serves %q", got)
	}
	if got := to("10.2.0.5:"); !slices.Equal(got, []string{"shop4"}) {
		t.Errorf("10.2.0.5 serves %q", got)
	}
	f.delete(names[:25]...)
	f.eventually("both kinds kept", func() bool { g := f.held(); return g.keeps(kube.KindIngress) && g.keeps(kube.KindService) })
	if got := to("10.2.0.4:"); !slices.Equal(got, []string{"tenant"}) {
		t.Errorf("while the Ingresses are kept, too, 10.2.0.4 serves %q", got)
	}
	f.apply(inNamespace(pod("s", "10.2.0.6"), "team"))
	f.eventually("the next pod of the tenant", func() bool { return slices.Equal(to("10.2.0.6:"), []string{"tenant"}) })
	if got := to("10.2.0.4:"); got != nil {
		t.Errorf("nobody has 10.2.0.4, and it serves %q", got)
	}
}

// Both at once: Ingresses are kept, the services without endpoints keep their last ones, and the last service stays live.
func TestIngressesAndServicesAreKept(t *testing.T) {
	var objects strings.Builder
	names := shops(60)
	for _, name := range names {
		objects.WriteString(backend(name, "10.2.0.1") + toward(name, name))
	}
	f := startReading(t, objects.String()+backend("other", "10.9.0.1")+toward("other", "other"), true, nil)
	f.apply(emptied(names)) // in one read
	f.delete(names[:40]...) // in several, of which the first may pass
	f.eventually("both kinds kept", func() bool { g := f.held(); return g.keeps(kube.KindIngress) && g.keeps(kube.KindService) })
	f.apply(pod("other", "10.9.0.2"))
	f.replaced("10.9.0.1:", "10.9.0.2:")
	if body := f.get("/routes").body; strings.Count(body, "10.2.0.1:") < 30 || strings.Contains(body, "no endpoints") {
		t.Errorf("%d routes have their last endpoints, want half of 60 at least, and none without:\n%s", strings.Count(body, "10.2.0.1:"), body)
	}
	f.state("held")
}

// When all Services are removed at once, that is a loss of backends: the intent is unchanged.
func TestServicesThatAreGoneAreBackends(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(shops(30)...), true, nil)
	before := f.get("/routes").body
	f.cluster.Delete(kube.Ref{Kind: kube.KindService, Namespace: "shop", Name: "s"})
	if g := f.held(); !g.keeps(kube.KindService) || g.keeps(kube.KindIngress) {
		t.Errorf("held for %+v", g)
	}
	f.state("backends-held")
	if got := f.get("/routes").body; got != before {
		t.Errorf("served is\n%s", got)
	}
}

// Kept objects survive a restart, with live endpoints and with other teams' changes. What is lost while no process runs cannot be kept
// object by object: then the whole table is held.
func TestKeptObjectsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	names := shops(30)
	state := func(cfg *server.Config) { cfg.StateDir = dir }
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, state)
	f.breakSource(true)
	f.polled()
	f.delete(names[:16]...)
	f.breakSource(false)
	g := f.held()
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	again := startReading(t, backend("s", "10.2.0.3")+ingresses(names[16:]...)+ingresses("fresh"), true, state)
	again.replaced("10.2.0.1:", "10.2.0.3:")
	if now := again.held(); now.KeptCount != 16 || now.Reason != guard.RoutesLost || now.Digest != g.Digest || !now.Since.Equal(g.Since) {
		t.Errorf("held is %+v, was %+v", now, g)
	}
	body := again.get("/routes").body
	for _, want := range []string{"shop0_", "shop15_", "shop16_", "fresh_"} {
		if !strings.Contains(body, want) {
			t.Errorf("no route of %s in\n%s", want, body)
		}
	}
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	last := startReading(t, backend("s", "10.2.0.4")+ingresses(names[26:]...), true, state)
	if now := last.held(); now.KeptCount != 0 && now.Reason != guard.RoutesLost {
		t.Errorf("held for %+v", now)
	}
	if got := last.get("/routes").body; got != body {
		t.Errorf("served is\n%s\nwant the last-known-good file", got)
	}
}

// Time releases kept objects whose endpoints change at every read.
func TestHoldEndsByTimeWhileEndpointsChange(t *testing.T) {
	names := shops(30)
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, func(cfg *server.Config) { cfg.Guard.Hold = 300 * time.Millisecond })
	f.delete(names[:16]...)
	i := 1
	f.eventually("release", func() bool {
		i++
		f.apply(pod("s", fmt.Sprintf("10.2.%d.%d", i/250+1, i%250)))
		return !strings.Contains(f.get("/routes").body, "shop15_")
	})
	f.logged("kept objects released")
}

// Clients of a server that holds an intent get the endpoints, too: a relay and a data plane behind it.
func TestHeldIntentLivesThroughARelayAndADataPlane(t *testing.T) {
	names := shops(30)
	root := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, nil)
	relay := startRelay(t, nil, root.main)
	relay.ready()
	plane, err := dataplane.New(dataplane.Config{
		URLs: []string{"http://" + relay.main}, Interval: interval, StateDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- plane.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	root.eventually("table in the data plane", func() bool { return plane.Current() != nil })

	root.delete(names[:16]...)
	root.held()
	relay.state("held")
	for i := 2; i < 5; i++ {
		come := fmt.Sprintf("10.2.0.%d:", i)
		root.apply(pod("s", fmt.Sprintf("10.2.0.%d", i)))
		relay.replaced(fmt.Sprintf("10.2.0.%d:", i-1), come)
		root.eventually(come+" in the data plane", func() bool { return strings.Contains(string(plane.Current().Text()), come) })
		if !strings.Contains(string(plane.Current().Text()), "shop15_") {
			t.Fatalf("the data plane has not the held intent:\n%s", plane.Current().Text())
		}
	}
	relay.state("held")
	if got := root.get("/routes").header.Get("Etag"); got == "" || relay.get("/routes").header.Get("Etag") != got {
		t.Errorf("the relay has %s, want %s", relay.get("/routes").header.Get("Etag"), got)
	}

	root.apply(ingresses(names[:16]...)) // repaired
	root.state("")
	relay.state("")
	root.apply(pod("s", ""))
	relay.state("backends-held")
}
