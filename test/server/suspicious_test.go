package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

const endpointSlices = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: shop, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
endpoints: [{addresses: [10.2.0.9]}, {addresses: [10.2.0.10]}, {addresses: [10.2.0.11]}]
ports: [{port: 8080, protocol: TCP}]
---`

// shops returns the names of n Ingresses.
func shops(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("shop%d", i))
	}
	return names
}

// readCluster changes the configuration to read the cluster over HTTP.
func (f *fixture) readCluster(bySlices bool) func(*server.Config) {
	return func(cfg *server.Config) {
		source, err := cluster.New(cluster.Config{URL: f.cluster.Start(f.t), EndpointSlices: bySlices, Namespaces: true})
		if err != nil {
			f.t.Fatal(err)
		}
		cfg.Source, cfg.Compile.EndpointSlices = source, bySlices
	}
}

// startReading runs a server that reads the objects over HTTP.
func startReading(t *testing.T, objects string, bySlices bool, change func(*server.Config)) *fixture {
	t.Helper()
	f := &fixture{}
	cfg := f.config(t, objects)
	f.readCluster(bySlices)(&cfg)
	if change != nil {
		change(&cfg)
	}
	f.run(cfg)
	f.ready()
	return f
}

// held waits until the guard holds a table back, and returns the report.
func (f *fixture) held() (g holding) {
	f.t.Helper()
	f.eventually("held table", func() bool {
		g = f.guard()
		return g.Held
	})
	return g
}

// holding is the report about the guard.
type holding struct{ api.Guard }

// keeps reports whether an object of a kind is kept.
func (h holding) keeps(kind kube.Kind) bool {
	return slices.ContainsFunc(h.Kept, func(k api.Kept) bool { return k.Kind == kind })
}

// guard returns the report about the guard.
func (f *fixture) guard() holding {
	f.t.Helper()
	var status struct{ Guard holding }
	if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, "/status").body), &status); err != nil {
		f.t.Fatal(err)
	}
	return status.Guard
}

// noBackends are the ways in which a cluster can lose all endpoints.
var noBackends = []struct {
	name   string
	slices bool
	remove func(*fixture)
}{
	{"no EndpointSlice is left", true, func(f *fixture) {
		f.cluster.Delete(kube.Ref{Kind: kube.KindEndpointSlice, Namespace: "shop", Name: "s-1"})
	}},
	{"the list of EndpointSlices is empty", true, func(f *fixture) {
		f.cluster.SetFault("/apis/discovery.k8s.io/v1/endpointslices", kubetest.Fault{Body: kubetest.EncodeJSON(kube.KindEndpointSlice, 100, nil)})
	}},
	{"no EndpointSlice has endpoints", true, func(f *fixture) {
		f.apply(strings.Replace(endpointSlices, "[{addresses: [10.2.0.9]}, {addresses: [10.2.0.10]}, {addresses: [10.2.0.11]}]", "[]", 1))
	}},
	{"no endpoint is ready", true, func(f *fixture) {
		f.apply(strings.ReplaceAll(strings.ReplaceAll(endpointSlices, "]},", "], conditions: {ready: false}},"), "10.2.0.11]}", "10.2.0.11], conditions: {ready: false}}"))
	}},
	{"no Endpoints are left", false, func(f *fixture) {
		f.cluster.Delete(kube.Ref{Kind: kube.KindEndpoints, Namespace: "shop", Name: "s"})
	}},
	{"no Endpoints have addresses", false, func(f *fixture) {
		f.apply("apiVersion: v1\nkind: Endpoints\nmetadata: {name: s, namespace: shop}\nsubsets: []")
	}},
}

func TestTableWithoutEndpointsIsHeld(t *testing.T) {
	for _, lost := range noBackends {
		t.Run(lost.name, func(t *testing.T) {
			f := startReading(t, service+endpointSlices+ingresses(shops(30)...), lost.slices, nil)
			before := f.get("/routes")
			lost.remove(f)
			g := f.held()
			if g.Reason != guard.BackendsLost || !g.keeps(kube.KindService) || g.ReleaseAt.IsZero() || !strings.Contains(g.Detail, "30 of 30 pairs of host and path with endpoints") {
				t.Errorf("held for %+v", g)
			}
			f.eventually("state in the header", func() bool { return f.get("/routes").header.Get("X-Table-State") == "backends-held" })
			if after := f.get("/routes"); after.body != before.body || strings.Contains(after.body, "no endpoints") {
				t.Errorf("served is now\n%s", after.body)
			}
			if m := f.metrics(); !strings.Contains(m, `routesrv_guard_holds_total{reason="backends_lost"} 1`) ||
				!strings.Contains(m, "routesrv_guard_held 1") {
				t.Error("no metric shows the hold")
			}
			f.logged("reason=backends_lost")
			sent := f.accept("?digest=" + g.Digest.String())
			if sent.status != http.StatusOK || !strings.Contains(f.get("/routes").body, "no endpoints") {
				t.Errorf("acceptance: %d %s, then\n%s", sent.status, sent.body, f.get("/routes").body)
			}
			f.polled()
			if f.get("/routes").header.Get("X-Table-State") != "" {
				t.Error("held again after the acceptance")
			}
		})
	}
}

// A relay and a data plane each hold such a table, even if the upstream server lets it pass.
func TestTableWithoutEndpointsIsHeldAfterTheServer(t *testing.T) {
	for _, lost := range noBackends {
		t.Run(lost.name, func(t *testing.T) {
			root := startReading(t, service+endpointSlices+ingresses(shops(30)...), lost.slices, func(cfg *server.Config) {
				cfg.Guard.MaxBackendLoss = 1
			})
			relay := startRelay(t, nil, root.main)
			relay.ready()
			plane, err := dataplane.New(dataplane.Config{
				URLs: []string{"http://" + root.main}, Interval: interval, StateDir: t.TempDir(),
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
			before := relay.get("/routes").body

			lost.remove(root)
			root.eventually("table without endpoints", func() bool { return strings.Contains(root.get("/routes").body, "no endpoints") })
			if g := relay.held(); g.Reason != guard.BackendsLost {
				t.Errorf("the relay holds for %+v", g)
			}
			if got := relay.get("/routes"); got.body != before {
				t.Errorf("the relay serves\n%s", got.body)
			}
			root.eventually("held table in the data plane", func() bool { return plane.Publisher().Holding().Held })
			if g := plane.Publisher().Holding(); g.Reason != guard.BackendsLost || string(plane.Current().Text()) != before {
				t.Errorf("the data plane holds for %+v and has\n%s", g, plane.Current().Text())
			}
		})
	}
}

// With every Ingress removed only the generated routes are left. Time never releases that.
func TestGeneratedRoutesAloneAreNotReleasedByTime(t *testing.T) {
	f := startReading(t, service+ingresses("a", "b", "c"), false, func(cfg *server.Config) {
		cfg.Guard.Hold = time.Millisecond
		cfg.Compile.Healthcheck, cfg.Compile.HTTPSRedirect, cfg.Compile.HTTPSRedirectCode = true, true, 308
	})
	before := f.get("/routes").body
	f.delete("a", "b", "c")
	g := f.held()
	if g.Reason != guard.OnlyGenerated || !g.ReleaseAt.IsZero() {
		t.Errorf("held for %+v, want no time of release", g)
	}
	for range 5 {
		f.polled()
	}
	if g := f.held(); g.Reason != guard.OnlyGenerated || f.get("/routes").body != before {
		t.Errorf("held for %+v, served is\n%s", g, f.get("/routes").body)
	}
}

// Steps that are each below the limit are one loss.
func TestLossInStepsIsHeld(t *testing.T) {
	names := shops(2764)
	f := startReading(t, service+ingresses(names...), false, nil)
	routes := func() int { return strings.Count(f.get("/routes").body, "\n") + 1 }
	for i, left := range []int{2600, 2400, 760, 395, 206} {
		f.delete(names[left:]...)
		names = names[:left]
		if i == 0 {
			f.eventually("a loss below the limit", func() bool { return routes() == left })
			continue
		}
		f.polled()
		f.eventually("all that was lost", func() bool { return routes() == 2764 }) // the deletion may take several reads
		if g := f.held(); g.Reason != guard.RoutesLost {
			t.Errorf("held for %s: %s, and %d kept objects", g.Reason, g.Detail, g.KeptCount)
		}
	}
}

// What grew tenfold by accident is repaired with the next read.
func TestGrowthIsRepairedAtOnce(t *testing.T) {
	names := shops(200)
	f := startReading(t, service+ingresses(names[:20]...), false, nil)
	before := f.get("/routes").body
	f.apply(ingresses(names[20:]...))
	f.eventually("ten times the routes", func() bool { return strings.Count(f.get("/routes").body, "\n") > 190 })
	f.delete(names[20:]...)
	f.eventually("the repaired table", func() bool { return f.get("/routes").body == before })
	if strings.Contains(f.metrics(), `routesrv_guard_holds_total{reason="routes_lost"} 1`) {
		t.Error("the repair was held")
	}
}
