package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/programs"
)

// steered is an Ingress of the service of a shop whose route has a version.
func steered(name, version string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop, annotations: {zalando.org/skipper-filter: 'setPath("/%[1]s-%[2]s")'}}
spec: {rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`, name, version)
}

// serves waits until a program serves paths, or not if they begin with "!".
func (p *process) serves(t *testing.T, what string, paths ...string) {
	t.Helper()
	p.Ready(t)
	programs.Eventually(t, what, func() bool {
		body := p.get(t, "/routes", "").Body
		for _, path := range paths {
			path, not := strings.CutPrefix(path, "!")
			if strings.Contains(body, `setPath("/`+path+`")`) == not {
				return false
			}
		}
		return true
	})
}

// TestSteering: a bad change is rolled back by the plugin on two replicas while Git applies it again and again, and stays so over a restart of
// everything, an outage of the API, and in a replica that joins. A relay and a data plane follow; other objects flow.
func TestSteering(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	withObjects(t, c, steered("cart", "good")+"---"+steered("pay", "1"))
	proxy := newFaultProxy(t, c)
	dirs := []string{t.TempDir(), t.TempDir()}
	a, b := startRoutesrv(t, proxy, "--state-dir="+dirs[0]), startRoutesrv(t, proxy, "--state-dir="+dirs[1])
	pods := map[string]*process{"routesrv-a": a, "routesrv-b": b}
	kubeconfig := pluginKubeconfig(t, map[string]*rest.Config{"prod": c.config}, map[string]string{"prod": pluginUser(t, c.typed)})
	t.Cleanup(func() { // other tests use the cluster later
		ctx := cleanupContext(t)
		for name := range pods {
			_ = c.typed.CoreV1().Pods(pluginNamespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
		_ = c.typed.CoreV1().Nodes().Delete(ctx, "steering-node", metav1.DeleteOptions{})
	})
	pluginNode(t, c.typed, "steering-node", pods)
	for name, p := range pods {
		pluginPod(t, c.typed, "steering-node", name, p)
		p.serves(t, "the first table", "cart-good", "pay-1")
	}
	relay := startRelay(t, t.TempDir(), a.Main, b.Main)
	plane := startFetching(t, "auto", relay.Main)
	plane.Ready(t)
	command := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := runPlugin(t, kubeconfig, append(args, "--context=prod", "--timeout=60s")...)
		if status != want {
			t.Fatalf("%v: status %d, want %d\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	apply := func(name, version string) {
		t.Helper()
		if err := c.apply(t.Context(), steered(name, version)); err != nil {
			t.Fatal(err)
		}
	}

	apply("cart", "bad")
	plane.serves(t, "the bad change", "cart-bad")
	var entry uint64
	programs.Eventually(t, "both replicas have the change in their history", func() bool {
		for _, p := range []*process{b, a} {
			var all []api.HistoryEntry
			p.supportJSON(t, api.PathHistory+"?object=Ingress/shop/cart", &all)
			if len(all) < 2 && (len(all) != 1 || all[0].N == 1) {
				return false
			}
		}
		var said struct {
			Clusters []struct{ Answer []api.HistoryEntry }
		}
		if err := json.Unmarshal([]byte(command(0, "log", "--object=Ingress/shop/cart", "-o", "json")), &said); err != nil {
			t.Fatal(err)
		}
		all := said.Clusters[0].Answer
		entry = all[len(all)-1].N - 1
		return all[len(all)-1].Changes[0].By != ""
	})
	if said := command(0, "show", fmt.Sprint(entry+1)); !strings.Contains(said, "cart-good") {
		t.Errorf("show says\n%s", said)
	}
	if said := command(0, "rollback", fmt.Sprint(entry), "--object=Ingress/shop/cart", "--why=checkout is broken", "--yes"); strings.Count(said, "done, serves") != 2 {
		t.Errorf("rollback says\n%s", said)
	}
	plane.serves(t, "the roll back", "cart-good", "!cart-bad")
	for i := range 3 { // what Git does
		apply("cart", fmt.Sprintf("bad-%d", i))
		apply("pay", fmt.Sprintf("1-%d", i))
		plane.serves(t, "other changes", fmt.Sprintf("pay-1-%d", i), "cart-good")
	}
	command(0, "freeze", "-n=shop", "--why=sale", "--for=2h", "--yes")
	apply("pay", "frozen")
	programs.Eventually(t, "the frozen object is kept", func() bool {
		_, out, _ := runPlugin(t, kubeconfig, "problems", "--context=prod")
		return strings.Contains(out, "frozen: namespace shop: sale")
	})
	if said := command(1, "explain", "ingress", "pay", "-n", "shop"); !strings.Contains(said, "frozen: namespace shop: sale") || !strings.Contains(said, "unfreeze") || strings.Contains(said, "accept it") {
		t.Errorf("explain of a frozen object says\n%s", said)
	}
	if said := command(0, "held"); !strings.Contains(said, "nothing is held") {
		t.Errorf("held says\n%s", said)
	}
	if said := command(2, "rolback"); !strings.Contains(said, "rollback") {
		t.Errorf("a mistyped command says\n%s", said)
	}
	if said := command(0, "rollback", fmt.Sprint(entry), "-n", "shop", "--why=rehearsal", "--dry-run"); !strings.Contains(said, "pay-1") {
		t.Errorf("rollback --dry-run says\n%s", said)
	}

	proxy.fail(ingressList, status(http.StatusServiceUnavailable)) // no read succeeds
	for i, p := range []*process{a, b} {
		p.Stop(t)
		pods[[]string{"routesrv-a", "routesrv-b"}[i]] = startRoutesrvOn(t, proxy, "127.0.0.2", "--state-dir="+dirs[i]) // not an address that a replica considers its own
	}
	a, b = pods["routesrv-a"], pods["routesrv-b"]
	for _, p := range []*process{a, b} {
		p.serves(t, "a restart without the API", "cart-good", "pay-1-2")
		programs.Eventually(t, "the support listener", func() bool {
			_, err := programs.Fetch(t.Context(), p.Support+api.PathStatus, "")
			return err == nil
		})
	}
	if said := command(1, "status"); !strings.Contains(said, "freeze of namespace shop") || !strings.Contains(said, "pin of Ingress shop/cart") {
		t.Errorf("status says\n%s", said)
	}
	proxy.fail(ingressList, nil)
	withObjects(t, c, counterIngress(7)) // of the frozen namespace, and new
	still := func(name string, p *process) {
		t.Helper()
		p.serves(t, name, "cart-good", "pay-1-2", "!pay-frozen")
		if countOf(p.get(t, "/routes", "").Body) == 7 {
			t.Errorf("%s serves an object that is newer than the freeze", name)
		}
	}
	for _, p := range []*process{a, b} {
		programs.Eventually(t, "what is new waits", func() bool {
			var s api.Status
			p.supportJSON(t, api.PathStatus, &s)
			return !s.Table.Stale && strings.Contains(p.get(t, "/routes", "").Body, "cart-good") && s.Problems["warning"] >= 3
		})
		still("a replica after a restart", p)
	}
	joined := startRoutesrv(t, proxy, "--state-dir="+t.TempDir(), "--peers="+strings.TrimPrefix(a.Main, "http://"))
	joined.Ready(t)
	still("a replica that joins", joined)
	var taken []api.HistoryEntry
	if joined.supportJSON(t, api.PathHistory+"?object=Ingress/shop/cart", &taken); len(taken) == 0 {
		t.Error("a replica that joins has not taken over the history")
	}
	command(0, "unfreeze", "--all", "--yes")
	a.serves(t, "all is new", "cart-bad-2", "pay-frozen", "!cart-good")
	b.serves(t, "all is new", "cart-bad-2", "pay-frozen", "!cart-good")
	plane2 := startFetching(t, "auto", a.Main, b.Main)
	plane2.serves(t, "a data plane", "cart-bad-2", "pay-frozen")

	before := time.Now().UTC().Format(time.RFC3339Nano)
	if err := c.remove(t.Context(), steered("cart", "bad-2")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{a, b} {
		p.serves(t, "a deletion", "!cart-bad-2", "pay-frozen")
	}
	if said := command(0, "rollback", "--to="+before, "--deleted", "--all", "--why=deleted by mistake", "--yes"); strings.Count(said, "done, serves") != 2 || !strings.Contains(said, "1 object pinned") {
		t.Errorf("rollback says\n%s", said)
	}
	plane2.serves(t, "what was deleted", "cart-bad-2", "pay-frozen")
	if err := c.apply(t.Context(), steered("pay", "flows")); err != nil {
		t.Fatal(err)
	}
	plane2.serves(t, "what is new", "cart-bad-2", "pay-flows")
	if said := command(0, "log", "--lost"); !strings.Contains(said, "Ingress shop/cart deleted") {
		t.Errorf("log says\n%s", said)
	}
	if said := command(0, "status"); strings.Count(said, "pin of Ingress shop/cart") != 1 || strings.Contains(said, "trial proxy") {
		t.Errorf("status says\n%s", said)
	}

	urls, away := filepath.Join(t.TempDir(), "urls"), pluginKubeconfig(t, map[string]*rest.Config{"prod": {Host: "http://127.0.0.1:1"}}, map[string]string{"prod": "x"})
	if err := os.WriteFile(urls, []byte("prod "+a.Support+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := runPlugin(t, away, "status", "--context=prod"); status != 2 || !strings.Contains(out+errs, "connection refused") || !strings.Contains(out+errs, "--urls FILE") {
		t.Errorf("without the API server: status %d\n%s%s", status, out, errs)
	}
	byURL := func(want int, contains string, args ...string) {
		t.Helper()
		if status, out, errs := runPlugin(t, away, append(args, "--urls="+urls)...); status != want || !strings.Contains(out+errs, contains) {
			t.Errorf("%v by URL: status %d, want %d with %q\n%s%s", args, status, want, contains, out, errs)
		}
	}
	byURL(0, "healthy", "status")
	byURL(0, "nothing is held", "held")
	byURL(0, "Ingress shop/cart deleted", "log", "--lost")
	byURL(1, "pin", "explain", "ingress", "cart", "-n", "shop")
	byURL(1, "shop/cart", "problems")
	byURL(2, "pod", "unfreeze", "--all", "--yes") // commands that change the table need a pod
}
