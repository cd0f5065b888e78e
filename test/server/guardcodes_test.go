package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// inNamespace moves objects of the namespace shop to another one.
func inNamespace(objects, namespace string) string {
	return strings.ReplaceAll(objects, "namespace: shop", "namespace: "+namespace)
}

// routeGroups returns RouteGroups with the names, each for one host.
func routeGroups(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.groups.example.org]
  backends: [{name: s, type: network, address: "http://10.4.0.1"}]
  defaultBackends: [{backendName: s}]
---`, name)
	}
	return all.String()
}

// twoPerHost returns two Ingresses for each of the first hosts, the second of which has another path.
func twoPerHost(names ...string) string {
	return ingresses(names...) + strings.ReplaceAll(strings.ReplaceAll(ingresses(names...), "path: /,", "path: /more,"), "metadata: {name: ", "metadata: {name: more-")
}

// accidents lists, for each code of the guard, what happens to a cluster, and what everybody can see of it. The cluster has one
// service with a pod, s, and thirty Ingresses, shop0 to shop29, unless it has other objects. It changes in one read.
var accidents = []struct {
	code    guard.Code
	objects string
	set     func(*server.Config)
	happens func(*fixture)

	state  string // X-Table-State
	timed  bool   // time releases it
	detail string
	owner  string // in /guard/held
}{
	{
		code: guard.Empty, happens: func(f *fixture) { f.delete(shops(30)...) },
		state: "held", detail: "no route", owner: "Ingress shop/shop0\n",
	},
	{
		code: guard.OnlyGenerated, happens: func(f *fixture) { f.delete(shops(30)...) },
		set:   func(cfg *server.Config) { cfg.Compile.Healthcheck = true },
		state: "held", detail: "all 2 routes are generated; 32 are served", owner: "Ingress shop/shop0\n",
	},
	{
		code: guard.RoutesLost, happens: func(f *fixture) { f.delete(shops(16)...) },
		state: "held", timed: true, detail: "16 of 30 pairs of host and path are missing (53.3 %, limit 10.0 %)", owner: "Ingress shop/shop15\n",
	},
	{
		// At most half of the routes, but two of three hosts: one host has many routes.
		code: guard.HostsLost, objects: twoPerHost("a", "b") + manyPaths("c", 4), happens: func(f *fixture) { f.delete("a", "b", "more-a", "more-b") },
		state: "held", timed: true, detail: "2 of 3 hosts are missing", owner: "Ingress shop/a\n",
	},
	{
		code: guard.KindLost, objects: ingresses(shops(200)...) + routeGroups(shops(20)...),
		happens: func(f *fixture) { f.deleteKind(kube.KindRouteGroup, "shop", shops(20)...) },
		state:   "held", timed: true, detail: "20 of 20 RouteGroups are missing", owner: "RouteGroup shop/shop0\n",
	},
	{
		code: guard.BackendsLost, happens: func(f *fixture) { f.apply(pod("s", "")) },
		state: "backends-held", timed: true, detail: "30 of 30 pairs of host and path with endpoints lost all endpoints", owner: "Ingress shop/shop0\n",
	},
	{
		code: guard.TooManyRoutes, set: func(cfg *server.Config) { cfg.Guard.MaxRoutes = 30 }, happens: func(f *fixture) { f.apply(ingress("fresh")) },
		state: "held", timed: true, detail: "31 routes, limit 30; 30 are served", owner: "Ingress shop/fresh\n",
	},
	{
		code: guard.TooLarge, set: func(cfg *server.Config) { cfg.Guard.MaxBytes = 6000 }, happens: func(f *fixture) { f.apply(ingresses(shops(60)...)) },
		state: "held", timed: true, detail: "bytes, limit 6000", owner: "Ingress shop/shop59\n",
	},
}

// TestEveryCodeOfTheGuardShowsThroughHTTP: an accident of each kind, in the answers of a real API, shows to proxies in a header,
// and to operators in the status, in metrics and as a difference by owner. The previous table is still served.
func TestEveryCodeOfTheGuardShowsThroughHTTP(t *testing.T) {
	covered := make(map[guard.Code]bool)
	for _, a := range accidents {
		covered[a.code] = true
		t.Run(string(a.code), func(t *testing.T) {
			objects := a.objects
			if objects == "" {
				objects = ingresses(shops(30)...)
			}
			f := startReading(t, backend("s", "10.2.0.1")+objects, true, a.set)
			before := f.get("/routes").body
			f.breakSource(true) // so that all of it comes in one read
			f.polled()          // and no earlier read is in progress
			a.happens(f)
			f.breakSource(false)

			g := f.held()
			if g.Reason != a.code || g.ReleaseAt.IsZero() == a.timed || !strings.Contains(g.Detail, a.detail) {
				t.Errorf("/status has %+v, want %s with %q", g, a.code, a.detail)
			}
			f.state(a.state)
			if got := f.get("/routes").body; got != before {
				t.Errorf("served is\n%s\nwant the table from before", got)
			}
			metrics := f.metrics()
			for _, code := range guard.Codes() {
				want := `routesrv_guard_holds_total{reason="` + string(code) + `"} 0`
				if code == a.code {
					want = `routesrv_guard_holds_total{reason="` + string(code) + `"} 1`
				}
				if !strings.Contains(metrics, want+"\n") {
					t.Errorf("no metric %s", want)
				}
			}
			if !strings.Contains(metrics, "routesrv_guard_held 1\n") {
				t.Error("routesrv_guard_held is not 1")
			}
			f.showsHeld(g.Guard, a.owner)
		})
	}
	for _, code := range guard.Codes() {
		if !covered[code] {
			t.Errorf("no accident gives the code %s", code)
		}
	}
}

// manyPaths returns Ingresses for paths of one host.
func manyPaths(name string, n int) string {
	var all strings.Builder
	for i := range n {
		path := strings.Repeat("x", i+1)
		one := strings.Replace(ingress(name), "metadata: {name: "+name, "metadata: {name: "+name+path, 1)
		all.WriteString(strings.Replace(one, "path: /,", "path: /"+path+",", 1))
	}
	return all.String()
}

// showsHeld expects /guard/held to have the hold and the owner of what differs, as text and as JSON.
func (f *fixture) showsHeld(g api.Guard, owner string) {
	f.t.Helper()
	text := f.request(http.MethodGet, f.support, "/guard/held")
	if text.status != http.StatusOK || !strings.Contains(text.body, owner) || !strings.Contains(text.body, g.Detail) ||
		!strings.Contains(text.body, g.Digest.String()) {
		f.t.Errorf("/guard/held: %d, want %q, %q and %s in\n%s", text.status, owner, g.Detail, g.Digest, text.body)
	}
	asJSON := f.request(http.MethodGet, f.support, "/guard/held", "Accept: application/json")
	var held struct {
		Hold   api.Guard
		Accept string
	}
	if err := json.Unmarshal([]byte(asJSON.body), &held); err != nil || held.Hold.Reason != g.Reason || held.Accept != "routesrv accept "+g.Digest.String()+" --why REASON" {
		f.t.Errorf("/guard/held as JSON: error %v, %+v in\n%s", err, held, asJSON.body)
	}
}
