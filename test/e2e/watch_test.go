package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/test/programs"
)

// staleAfter is how long a watch may be broken until reads fail, plus some time until that shows.
const staleAfter = 50 * time.Second

// watchRole has the permissions of routesrv with watches: the verb watch in addition to list.
const watchRole = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: routesrv-watch, namespace: routesrv}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: routesrv-watch}
rules:
- {apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [list, watch]}
- {apiGroups: [zalando.org], resources: [routegroups], verbs: [list, watch]}
- {apiGroups: [""], resources: [services, endpoints], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: routesrv-watch}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: routesrv-watch}
subjects: [{kind: ServiceAccount, name: routesrv-watch, namespace: routesrv}]
`

// startWatching starts the built binary with watches, with a ServiceAccount that may watch.
func startWatching(t *testing.T, api *faultProxy, args ...string) *process {
	t.Helper()
	if err := api.cluster.apply(t.Context(), watchRole); err != nil {
		t.Fatal(err)
	}
	seconds := int64(3600)
	r, err := api.cluster.typed.CoreV1().ServiceAccounts(systemNamespace).CreateToken(t.Context(), "routesrv-watch",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return startWithToken(t, api, r.Status.Token, append([]string{"--kubernetes-read=watch", "--timing=max-backoff=500ms"}, args...)...)
}

// metric returns the sum of the series with the name, ignoring labels.
func (p *process) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	a, err := programs.Fetch(t.Context(), p.Support+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(a.Body, -1) {
		var v float64
		if _, err := fmt.Sscan(m[1], &v); err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// randomObject returns object number i of one of the kinds, in version n.
func randomObject(i, n int) string {
	switch i % 4 {
	case 0:
		return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: r%d, namespace: random, annotations: {zalando.org/skipper-filter: 'setResponseHeader("N", "%d")'}}
spec: {rules: [{host: r%d.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: fixed, port: {number: 80}}}}]}}]}
`, i, n, i)
	case 1:
		return fmt.Sprintf(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: r%d, namespace: random}
spec:
  hosts: [rg%d.example.org]
  backends: [{name: gone, type: shunt}]
  routes: [{path: /v%d, backends: [{backendName: gone}]}]
`, i, i, n)
	case 2:
		return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: r%d, namespace: random, labels: {n: "%d"}}
spec: {clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}]}
`, i, n)
	default:
		return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: r%d, namespace: random, labels: {kubernetes.io/service-name: fixed}}
addressType: IPv4
endpoints: [{addresses: [10.0.%d.%d], conditions: {ready: true}}]
ports: [{name: http, port: 8080, protocol: TCP}]
`, i, i%200, n%200)
	}
}

const fixedService = `
apiVersion: v1
kind: Service
metadata: {name: fixed, namespace: random}
spec: {clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: fixed-1, namespace: random, labels: {kubernetes.io/service-name: fixed}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]
ports: [{name: http, port: 8080, protocol: TCP}]
`

// TestWatchedTableEqualsCompiledManifests changes objects at random. The table served at the end must equal the compiled
// manifests of the existing objects.
func TestWatchedTableEqualsCompiledManifests(t *testing.T) {
	c := ownCluster(t)
	withObjects(t, c, fixedService)
	proxy := newFaultProxy(t, c)
	// Random deletions may be more than half of what was served lately, and nobody accepts them here.
	p := startWatching(t, proxy, "--guard=max-loss=1", "--guard=max-backend-loss=1")
	p.Ready(t)
	r := rand.New(rand.NewPCG(1, 2))
	present := map[int]string{}
	t.Cleanup(func() {
		for _, text := range present {
			if err := c.remove(cleanupContext(t), text); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 150 {
		i := r.IntN(24)
		if text := present[i]; text != "" && r.IntN(3) == 0 {
			if err := c.remove(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			delete(present, i)
			continue
		}
		present[i] = randomObject(i, n)
		if err := c.apply(t.Context(), present[i]); err != nil {
			t.Fatal(err)
		}
		if n%40 == 39 {
			proxy.CloseClientConnections() // including the watches
		}
	}
	dir := t.TempDir()
	for i, text := range present {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "fixed.yaml"), []byte(fixedService), 0o600); err != nil {
		t.Fatal(err)
	}
	want, _ := compileManifests(t, 0, dir)
	programs.Eventually(t, "the table of the manifests", func() bool { return p.get(t, "/routes", "").Body == want })
	if d := cmp.Diff(want, p.get(t, "/routes", "").Body); d != "" {
		t.Errorf("served table (-compiled +served):\n%s", d)
	}
}

func TestAWatchedChangeIsServedAtOnceAndListsNothing(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	p := startWatching(t, proxy, "-source-poll-timeout=60000")
	p.Ready(t)
	lists := proxy.count("/api/v1/services")
	for n := range 5 {
		withObjects(t, c, counterIngress(n))
		took := programs.Within(t, programs.Patience, "the change", func() bool {
			return strings.Contains(p.get(t, "/routes", "").Body, fmt.Sprintf(`setResponseHeader("N", "%d")`, n))
		})
		t.Logf("served after %v", took)
		if took > 10*time.Second {
			t.Errorf("served after %v although a poll comes once a minute", took)
		}
	}
	// Requests for the revision come every ten seconds.
	if n := proxy.count("/api/v1/services") - lists; n > 6 {
		t.Errorf("%d requests for services", n)
	}
}

// TestMissingPermissionToWatchIsNamed runs with the product's role, which may only list.
func TestMissingPermissionToWatchIsNamed(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startRoutesrv(t, newFaultProxy(t, c), "--kubernetes-read=watch", "--timing=max-backoff=500ms")
	programs.Eventually(t, "the support listener", func() bool {
		_, err := programs.Fetch(t.Context(), p.Support+"/status", "")
		return err == nil
	})
	var last string
	programs.Eventually(t, "an error that says what to grant", func() bool {
		last = p.status(t).Source.LastError
		return strings.Contains(last, `grant the verb "watch" on "`) && strings.Contains(last, "watch ")
	})
	t.Log(last)
	if a := p.get(t, "/routes", ""); a.Status != http.StatusNotFound {
		t.Errorf("a table without a watch: %d", a.Status)
	}
}

// TestAKindWhoseWatchIsBrokenMakesTheTableStale: at first nothing shows, then reads fail; the table stays.
func TestAKindWhoseWatchIsBrokenMakesTheTableStale(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	p := startWatching(t, proxy)
	p.Ready(t)
	want := p.get(t, "/routes", "")
	const path = "/apis/zalando.org/v1/routegroups"
	proxy.fail(path, status(http.StatusServiceUnavailable))
	proxy.CloseClientConnections()
	took := programs.Within(t, staleAfter, "the failure in /status", func() bool {
		s := p.status(t).Source
		return s.Failures > 0 && strings.Contains(s.LastError, "routegroups.zalando.org") && strings.Contains(s.LastError, "503")
	})
	if took < 20*time.Second {
		t.Errorf("reads failed after %v", took)
	}
	if a := p.get(t, "/routes", ""); a.Body != want.Body {
		t.Error("the table changed")
	}
	withObjects(t, c, counterIngress(7))
	proxy.fail(path, nil)
	programs.Eventually(t, "reads to succeed again, with what changed meanwhile", func() bool {
		return p.status(t).Source.Failures == 0 && strings.Contains(p.get(t, "/routes", "").Body, `setResponseHeader("N", "7")`)
	})
}

// TestWatchOutlivesTheAPIServer: the same table while the API server is down, an error that says so, and fresh again afterwards.
func TestWatchOutlivesTheAPIServer(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startWatching(t, newFaultProxy(t, c))
	p.Ready(t)
	want := p.get(t, "/routes", "")
	restartAPI := c.killAPIServer(t)
	programs.Within(t, staleAfter, "failures", func() bool { return p.status(t).Source.Failures >= 2 })
	if a := p.get(t, "/routes", ""); a.Body != want.Body {
		t.Error("the table changed while the API server was down")
	}
	restartAPI()
	programs.Eventually(t, "a fresh read", func() bool { return p.status(t).Source.Failures == 0 })
	if a := p.get(t, "/routes", want.Header.Get("Etag")); a.Status != http.StatusNotModified {
		t.Errorf("after the outage: %d, want 304", a.Status)
	}
	withObjects(t, c, counterIngress(8))
	programs.Eventually(t, "a change after the outage", func() bool {
		return strings.Contains(p.get(t, "/routes", "").Body, `setResponseHeader("N", "8")`)
	})
}

// TestADefinitionThatGoesAndComesIsFollowed removes the CustomResourceDefinition and installs it again.
func TestADefinitionThatGoesAndComesIsFollowed(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	group := randomObject(1, 1)
	withObjects(t, c, group)
	p := startWatching(t, newFaultProxy(t, c), "--guard=max-loss=1")
	p.Ready(t)
	served := func() bool { return strings.Contains(p.get(t, "/routes", "").Body, "rg1") }
	programs.Eventually(t, "the route group", served)

	definition, err := os.ReadFile(filepath.Join(crdDir, "routegroups.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.remove(t.Context(), string(definition)); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "no route group", func() bool { return !served() })
	programs.Within(t, staleAfter, "discovery to say that it is gone", func() bool {
		return strings.Contains(p.Log(), "RouteGroups CRD is not installed") && p.status(t).Source.Failures == 0
	})
	install(t, c, string(definition))
	programs.Eventually(t, "the API to take route groups", func() bool { return c.apply(t.Context(), group) == nil })
	programs.Within(t, staleAfter, "the route group again", served)
}

// install applies a definition, while an earlier one may still be in deletion.
func install(t *testing.T, c *cluster, definition string) {
	t.Helper()
	programs.Eventually(t, "the definition to be installed", func() bool {
		if c.apply(t.Context(), definition) != nil {
			return false
		}
		c.mapper.Reset()
		list, err := c.typed.Discovery().ServerResourcesForGroupVersion("zalando.org/v1")
		return err == nil && len(list.APIResources) > 0
	})
}

// TestARestoredEtcdIsNoticedByAWatch restores etcd from a backup. The watches are silent from then on.
func TestARestoredEtcdIsNoticedByAWatch(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startWatching(t, newFaultProxy(t, c))
	p.Ready(t)
	dir := c.env.ControlPlane.Etcd.DataDir
	pid, args := c.findProcess(t, "etcd", "--data-dir="+dir)
	backup := filepath.Join(t.TempDir(), "backup")
	restart := c.killAPIServer(t)
	swapEtcd(t, c, pid, args, func() { copyFolder(t, dir, backup) })
	restart()

	text := counterIngress(9)
	programs.Eventually(t, "a change after the backup", func() bool { return c.apply(t.Context(), text) == nil })
	var before uint64
	programs.Within(t, staleAfter, "it to be served", func() bool {
		a := p.get(t, "/routes", "")
		before = revisionOf(t, a)
		return strings.Contains(a.Body, `setResponseHeader("N", "9")`)
	})

	pid, args = c.findProcess(t, "etcd", "--data-dir="+dir)
	restart = c.killAPIServer(t)
	swapEtcd(t, c, pid, args, func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		copyFolder(t, backup, dir)
	})
	restart()
	var after uint64
	programs.Within(t, staleAfter, "the change to be gone", func() bool {
		a := p.get(t, "/routes", "")
		after = revisionOf(t, a)
		return !strings.Contains(a.Body, `setResponseHeader("N", "9")`)
	})
	// The API server's writes during its start may have raised the revision above the change's before anything was read: then a
	// restore cannot be distinguished from a deletion.
	if n := p.metric(t, "routesrv_source_restores_total"); after < before && n < 1 {
		t.Errorf("%v restores are counted, and the revision went from %d to %d", n, before, after)
	}
	withObjects(t, c, counterIngress(10))
	programs.Eventually(t, "a change after the restore", func() bool {
		return strings.Contains(p.get(t, "/routes", "").Body, `setResponseHeader("N", "10")`)
	})
}

// revisionOf returns the revision of the table in an answer.
func revisionOf(t *testing.T, a programs.Answer) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(a.Header.Get("X-Revision"), 10, 64)
	if err != nil {
		t.Fatalf("X-Revision: %v", err)
	}
	return n
}

// swapEtcd kills etcd, lets f change its data, and starts it again.
func swapEtcd(t *testing.T, c *cluster, pid int, args []string, f func()) {
	t.Helper()
	kill(t, pid)
	f()
	c.restartedEtcd = startComponent(t, args)
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestASidecarWatchesWheneverItComputes changes from mode False to Exec and back: the watches end and begin with the mode.
func TestASidecarWatchesWheneverItComputes(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	// In these tests the sidecar uses the product's ServiceAccount.
	withObjects(t, c, strings.NewReplacer(
		"kind: ClusterRoleBinding\nmetadata: {name: routesrv-watch}", "kind: ClusterRoleBinding\nmetadata: {name: routesrv-may-watch}",
		"subjects: [{kind: ServiceAccount, name: routesrv-watch,", "subjects: [{kind: ServiceAccount, name: routesrv,",
	).Replace(watchRole))
	server := startRoutesrv(t, newFaultProxy(t, c))
	server.Ready(t)
	proxy := newFaultProxy(t, c)
	s := startSidecar(t, proxy, "False", []string{server.Main}, "--kubernetes-read=watch")
	s.Ready(t)
	want, _ := compileManifests(t, 0, shopDir)
	if d := cmp.Diff(want, s.get(t, "/routes", "").Body); d != "" {
		t.Errorf("computed table (-compiled +served):\n%s", d)
	}
	for n, mode := range []string{"Exec", "False", "Exec", "False"} {
		s.setMode(t, mode)
		s.awaitMode(t, mode, map[string]string{"Exec": "server", "False": "self"}[mode])
		withObjects(t, c, counterIngress(100+n))
		programs.Eventually(t, "a change in mode "+mode, func() bool {
			return strings.Contains(s.get(t, "/routes", "").Body, fmt.Sprintf(`setResponseHeader("N", "%d")`, 100+n))
		})
	}
}
