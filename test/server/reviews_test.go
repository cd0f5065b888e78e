package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
	"sigs.k8s.io/yaml"
)

// reviewInput reads files of a case of testdata/reviews.
func reviewInput(t *testing.T, folder string, names ...string) string {
	t.Helper()
	var all []string
	for _, n := range names {
		text, err := os.ReadFile(filepath.Join("testdata", "reviews", folder, n+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n---\n")
}

// TestTakeoversOfServicesThatComeWithOrAfterTheObject: what manifests take does not depend on whether the Service is in the cluster, in the manifests, or
// comes later, nor on whether the object is in the manifests or was there before.
func TestTakeoversOfServicesThatComeWithOrAfterTheObject(t *testing.T) {
	const folder = "compile-against-new-service"
	for name, c := range map[string]struct{ cluster, body []string }{
		"in the cluster":                 {[]string{"cluster", "service"}, []string{"routegroup"}},
		"in the manifests":               {[]string{"cluster"}, []string{"service", "routegroup"}},
		"in the manifests, Ingress":      {[]string{"cluster"}, []string{"service", "ingress"}},
		"later":                          {[]string{"cluster"}, []string{"routegroup"}},
		"later, Ingress":                 {[]string{"cluster"}, []string{"ingress"}},
		"alone, and the object is there": {[]string{"cluster", "routegroup"}, []string{"service"}},
	} {
		f := start(t, reviewInput(t, folder, c.cluster...), bySlices)
		f.polled()
		status, text := f.takeovers("?format=json", reviewInput(t, folder, c.body...))
		var r takeover.Report
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v, %s", name, status, err, text)
		}
		if len(r.Takeovers) != 1 || r.Takeovers[0].From.Namespace != "alpha" || r.Takeovers[0].To.Namespace != "beta" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestCompileAgainstCountsServices: routesrv compile --against sends the Services of its files along.
func TestCompileAgainstCountsServices(t *testing.T) {
	const folder = "compile-against-new-service"
	f := start(t, reviewInput(t, folder, "cluster"), bySlices)
	f.polled()
	path := func(name string) string { return filepath.Join("testdata", "reviews", folder, name+".yaml") }
	for _, files := range [][]string{{path("service"), path("routegroup")}, {path("service"), path("ingress")}, {path("routegroup")}} {
		var out strings.Builder
		status, err := cli.Against(t.Context(), "http://"+f.support, files, "text", program.Stdio{In: strings.NewReader(""), Out: &out, Err: io.Discard})
		if err != nil || status != cli.Unhealthy || !strings.Contains(out.String(), "GET https://www.example.org/cart: RouteGroup alpha/web -> ") {
			t.Errorf("%v: status %d, %v\n%s", files, status, err, out.String())
		}
	}
}

// judge returns a webhook's judge of a cluster.
func judge(t *testing.T, objects string, refuse bool) *webhook.Judge {
	t.Helper()
	source, err := manifests.New(manifests.Config{Paths: []string{"-"}, Stdin: strings.NewReader(objects)})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := source.Read(context.Background(), kube.ReadOptions{})
	if err != nil || len(snapshot.Bad) > 0 {
		t.Fatal(err, snapshot)
	}
	j, err := webhook.NewJudge(rules.Options{EndpointSlices: true}, kube.Selection{}, refuse)
	if err != nil {
		t.Fatal(err)
	}
	j.Take(snapshot)
	return j
}

func bySlices(cfg *server.Config) { cfg.Compile.EndpointSlices = true }

// object returns an object of a file in JSON.
func object(t *testing.T, text string) []byte {
	t.Helper()
	found, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestTheWebhookRefusesWhatTakesOnceItsServiceExists: the Service may come later, and then nobody asks the webhook. All else may be created in any order.
func TestTheWebhookRefusesWhatTakesOnceItsServiceExists(t *testing.T) {
	const folder = "webhook-refuse-takeovers"
	for _, c := range []struct {
		kind kube.Kind
		file string
	}{{kube.KindRouteGroup, "routegroup"}, {kube.KindIngress, "ingress"}} {
		for _, cluster := range [][]string{{"cluster"}, {"cluster", "service"}} {
			j := judge(t, reviewInput(t, folder, cluster...), true)
			v, err := j.Review(c.kind, object(t, reviewInput(t, folder, c.file)), nil)
			if err != nil || len(v.Taken) == 0 || !strings.Contains(v.Taken[0], "GET https://www.example.org/cart: RouteGroup alpha/web -> "+string(c.kind)+" beta/taker") {
				t.Errorf("%s with %v: %+v, %v", c.file, cluster, v, err)
			}
			harmless := strings.ReplaceAll(reviewInput(t, folder, c.file), "www.example.org", "own.example.org")
			if v, err := j.Review(c.kind, object(t, harmless), nil); err != nil || len(v.Taken)+len(v.Refused) > 0 {
				t.Errorf("%s for a host of its own with %v: %+v, %v", c.file, cluster, v, err)
			}
		}
	}
}

// town is a cluster with many teams, each with some routes of a host of its own, and one team with a route for any host.
func town(teams int) string {
	var all strings.Builder
	all.WriteString(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: any, namespace: greedy}
spec: {backends: [{name: s, type: shunt}], defaultBackends: [{backendName: s}], routes: [{pathSubtree: /}]}
---`)
	for i := range teams {
		fmt.Fprintf(&all, `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: web, namespace: team-%[1]d}
spec: {hosts: [host-%[1]d.example.org], backends: [{name: s, type: shunt}], defaultBackends: [{backendName: s}], routes: [{pathSubtree: /}, {path: "/a/:b/:c"}, {pathRegexp: "^/x/[0-9]+"}, {pathSubtree: /api, methods: [GET, POST]}]}
---`, i)
	}
	return all.String()
}

// hostile is an object of an attacker that is expensive to compare: many hosts of others, many routes, large expressions.
func hostile(n, hosts, routes int) string {
	var names, list []string
	for i := range hosts {
		names = append(names, fmt.Sprintf("host-%d.example.org", i))
	}
	for i := range routes {
		list = append(list, fmt.Sprintf(`{path: "/:a/:b/%d", predicates: ['JWTPayloadAnyKVRegexp("sub", ".*")', 'Cookie("a", "^((((x{9}){9}){9})|%d)$")'], methods: [GET, POST, PUT, DELETE, PATCH]}`, i, i))
	}
	return fmt.Sprintf(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: evil-%d, namespace: evil}
spec: {hosts: [%s], backends: [{name: s, type: shunt}], defaultBackends: [{backendName: s}], routes: [%s]}
`, n, strings.Join(names, ", "), strings.Join(list, ", "))
}

// TestHostileReviewsDelayNobody: eight expensive objects at a time are refused as unknown; an innocent one between them is allowed within a second, and
// owns its new host although another team has a route for any. TestHostileReviewsAreBounded measures what the expensive ones take.
func TestHostileReviewsDelayNobody(t *testing.T) {
	j := judge(t, town(300), true)
	hostiles := hostileObjects(t)
	innocent := object(t, `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: new, namespace: fresh}
spec: {hosts: [fresh.example.org], backends: [{name: s, type: shunt}], defaultBackends: [{backendName: s}], routes: [{pathSubtree: /}, {pathRegexp: "^/y"}]}
`)
	ctx, cancel := context.WithCancel(context.Background())
	var attack sync.WaitGroup
	for i := range 8 {
		attack.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				v, err := j.Review(kube.KindRouteGroup, hostiles[n%len(hostiles)], nil)
				if err != nil || len(v.Taken) == 0 {
					t.Errorf("hostile object %d: %+v, %v", n%len(hostiles), v, err)
					return
				}
			}
		})
	}
	var took []time.Duration
	for range 100 {
		began := time.Now()
		if v, err := j.Review(kube.KindRouteGroup, innocent, nil); err != nil || len(v.Taken)+len(v.Refused)+len(v.Takeovers) > 0 {
			t.Fatalf("innocent object: %+v, %v", v, err)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	attack.Wait()
	slices.Sort(took)
	t.Logf("innocent reviews: median %v, p99 %v", took[50], took[98])
	if took[98] > time.Second {
		t.Errorf("innocent reviews take too long")
	}
}

// hostileObjects returns objects whose reviews are expensive.
func hostileObjects(t *testing.T) [][]byte {
	t.Helper()
	return [][]byte{
		object(t, hostile(0, 150, 60)), object(t, hostile(1, 300, 20)), object(t, hostile(2, 1, 100)),
		object(t, strings.Replace(hostile(3, 0, 60), "hosts: [], ", "", 1)),
	}
}

// TestAnExpensiveChangeDelaysNobody: with the policy on, what is too expensive to compare is kept, and another team's change is served with the next read.
func TestAnExpensiveChangeDelaysNobody(t *testing.T) {
	f := startReading(t, town(300), true, keepTakeovers(1))
	f.apply(hostile(0, 300, 60))
	began := time.Now()
	f.apply(ingress("innocent") + backend("s", "10.2.0.1"))
	f.eventually("the change of another team", func() bool { return strings.Contains(f.get("/routes").body, "innocent_example_org") })
	took := time.Since(began)
	t.Logf("the other change took %v", took)
	if took > 10*time.Second {
		t.Errorf("the other change took %v", took)
	}
	f.eventually("the object is kept", func() bool { return f.guard().KeptCount == 1 })
	if k := f.guard().Kept[0]; k.Namespace != "evil" || strings.Contains(f.get("/routes").body, "evil") {
		t.Errorf("kept is %+v", k)
	}
}

// TestATakerIsKeptWheneverItsRoutesCome: with its Service, before it, or once the Service has the port or another type. An object that is kept does not free
// itself when its Service goes and comes back.
func TestATakerIsKeptWheneverItsRoutesCome(t *testing.T) {
	const folder = "keep-takeovers-service-later"
	service := reviewInput(t, folder, "service")
	port := strings.Replace(service, "port: 80", "port: 8080", 1)
	external := strings.Replace(service, "type: ClusterIP,", "type: ExternalName, externalName: elsewhere.example.org,", 1)
	for _, file := range []string{"routegroup", "ingress"} {
		taker := reviewInput(t, folder, file)
		for name, steps := range map[string][]string{
			"together":        {taker + "\n---\n" + service},
			"service first":   {service, taker},
			"service later":   {taker, service},
			"the port later":  {taker + "\n---\n" + port, service},
			"the type later":  {taker + "\n---\n" + external, service},
			"it comes again":  {taker + "\n---\n" + service, "", service},
			"another version": {service, taker, strings.Replace(taker, "/cart", "/cart/deep", 1)},
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				f := startReading(t, reviewInput(t, folder, "cluster"), true, func(cfg *server.Config) {
					bySlices(cfg)
					keepTakeovers(1)(cfg)
				})
				for _, step := range steps {
					if step == "" {
						f.deleteKind(kube.KindService, "beta", "taker")
					} else {
						f.apply(step)
					}
					f.polled()
				}
				f.eventually("the object is kept", func() bool { return f.guard().KeptCount == 1 })
				f.apply(strings.NewReplacer("beta", "gamma", "www.example.org", "gamma.example.org").Replace(taker + "\n---\n" + service))
				f.eventually("another team's change", func() bool { return strings.Contains(f.get("/routes").body, "gamma") })
				if table := f.get("/routes").body; strings.Contains(table, "beta__taker") {
					t.Errorf("it is served:\n%s", table)
				}
			})
		}
	}
}
