package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/programs"
)

const ingressList = "/apis/networking.k8s.io/v1/ingresses"

// withShop applies the example shop for the duration of a test.
func withShop(t *testing.T, c *cluster) {
	t.Helper()
	if err := c.applyFile(t.Context(), shopDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeFolder(t, c, shopDir) })
}

func removeFolder(t *testing.T, c *cluster, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// The context of the test has ended by now.
		if err := c.remove(cleanupContext(t), string(text)); err != nil {
			t.Error(err)
		}
	}
}

func withObjects(t *testing.T, c *cluster, text string) {
	t.Helper()
	if err := c.apply(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.remove(cleanupContext(t), text); err != nil {
			t.Error(err)
		}
	})
}

func TestServedTableEqualsCompiledManifests(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startRoutesrv(t, newFaultProxy(t, c))
	p.Ready(t)
	want, problems := compileManifests(t, 0, shopDir)
	got := p.get(t, "/routes", "")
	if diff := cmp.Diff(want, got.Body); diff != "" {
		t.Errorf("served table (-compiled +served):\n%s", diff)
	}
	if problems != "" {
		t.Errorf("problems of the example: %s", problems)
	}
	if n := got.Header.Get("X-Count"); n != fmt.Sprint(strings.Count(want, "\n")+1) {
		t.Errorf("X-Count %s", n)
	}
	if p.status(t).Table.Revision == 0 {
		t.Error("the table has no revision")
	}
}

func TestZoneTableKeepsEndpointsOfSmallZones(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startRoutesrv(t, newFaultProxy(t, c))
	p.Ready(t)
	full, zone := p.get(t, "/routes", ""), p.get(t, "/routes/eu-central-1a", "")
	if zone.Status != http.StatusOK || zone.Header.Get("X-Count") != full.Header.Get("X-Count") {
		t.Errorf("zone table: %d, %s routes; full: %s", zone.Status, zone.Header.Get("X-Count"), full.Header.Get("X-Count"))
	}
	if !strings.Contains(full.Body, "?zone=eu-central-1a") {
		t.Error("endpoints have no zones")
	}
}

func TestChangeIsServedWithinTwoPolls(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	p := startRoutesrv(t, proxy)
	p.Ready(t)
	for i := range 5 {
		host := fmt.Sprintf("change-%d.example.org", i)
		withObjects(t, c, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: change-%d, namespace: shop}
spec: {rules: [{host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`, i, host))
		// A poll asks for this list twice: for its revision, then for the list. The poll in progress may still ask once and not see the
		// object, and the next one sees it. When the one after that begins, the table is served. What counts is how many requests had begun
		// before ours, however late ours is.
		written := proxy.count(ingressList)
		programs.Eventually(t, host+" to be served", func() bool {
			begun := proxy.count(ingressList) - written
			served := strings.Contains(p.get(t, "/routes", "").Body, fmt.Sprintf("kube_shop__change_%d__", i))
			if !served && begun > 3 {
				t.Fatalf("not served although the API was asked %d times since the write", begun)
			}
			return served
		})
	}
}

func TestNotModifiedWhileOnlyOtherObjectsChange(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	p := startRoutesrv(t, proxy)
	p.Ready(t)
	etag := p.get(t, "/routes", "").Header.Get("Etag")
	before := p.status(t).Source.Revision
	for i := range 12 {
		withObjects(t, c, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: unrelated, namespace: default}
data: {n: "%d"}
`, i))
		proxy.awaitRequests(t, ingressList, 1)
		a := p.get(t, "/routes", etag)
		if a.Status != http.StatusNotModified || a.Body != "" || a.Header.Get("Etag") != etag {
			t.Fatalf("poll %d: %d, Etag %s, want 304 and %s", i, a.Status, a.Header.Get("Etag"), etag)
		}
		if a.Header.Get("X-Source-Read") == "" {
			t.Error("a 304 does not say when the source was read")
		}
	}
	if after := p.status(t).Source.Revision; after <= before {
		t.Errorf("revision of the reads stayed at %d while objects were written", after)
	}
}

func TestPoisonousRouteGroupCostsOnlyItself(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startRoutesrv(t, newFaultProxy(t, c))
	p.Ready(t)
	good := p.get(t, "/routes", "").Body
	withObjects(t, c, `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: poison, namespace: shop}
spec:
  hosts: [poison.example.org]
  backends:
    - {name: mixed, type: lb, endpoints: ["http://a.example.org", "https://b.example.org"]}
    - {name: quoted, type: network, address: 'http://x"y'}
    - {name: gone, type: shunt}
  routes:
    - {path: /mixed, backends: [{backendName: mixed}]}
    - {path: /quoted, filters: ['setPath("\"")', 'f(0.00001)'], backends: [{backendName: quoted}]}
    - {path: /twice, methods: [GET], predicates: ['Method("PUT")'], backends: [{backendName: gone}]}
    - {path: /good, backends: [{backendName: gone}]}
`)
	var body string
	programs.Eventually(t, "the good route of the poisonous group", func() bool {
		body = p.get(t, "/routes", "").Body
		return strings.Contains(body, `Path("/good")`)
	})
	if _, err := eskip.Parse(body); err != nil {
		t.Fatalf("the table does not parse: %v", err)
	}
	for line := range strings.SplitSeq(good, "\n") {
		if !strings.Contains(body, line) {
			t.Errorf("lost: %s", line)
		}
	}
	var report struct {
		Problems []struct {
			Owner  struct{ Kind, Namespace, Name string }
			Route  string
			Reason string
		}
	}
	p.supportJSON(t, "/problems", &report)
	named := 0
	for _, problem := range report.Problems {
		if problem.Owner.Kind == "RouteGroup" && problem.Owner.Name == "poison" && problem.Reason == "not_parsable" {
			named++
		}
	}
	if named < 2 {
		t.Errorf("/problems names the poison %d times: %+v", named, report.Problems)
	}
}
