package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/programs"
)

// TestFirstTableIsComparedWithThatOfAPeer starts a replica without a last-known-good file while another one holds a loss: it
// must hold the same loss, and serve nothing before an acceptance.
func TestFirstTableIsComparedWithThatOfAPeer(t *testing.T) {
	c := ownCluster(t)
	objects, _ := withHeldShops(t, c)
	api := newFaultProxy(t, c)
	// Not an address of this machine's interfaces, which the replica considers its own.
	first := startRoutesrvOn(t, api, "127.0.0.2")
	first.Ready(t)
	api.atOnce(t, "poll", ingressList, func() { remove(t, c, ingressesOf(objects)) })
	first.holds(t, "routes_lost")
	served := first.servedShop(t)

	second := startRoutesrv(t, api, "--state-dir="+t.TempDir(), "--peers="+strings.TrimPrefix(first.Main, "http://"))
	programs.Eventually(t, "the support listener", func() bool {
		_, err := programs.Fetch(t.Context(), second.Support+"/status", "")
		return err == nil
	})
	h := second.holds(t, "routes_lost")
	programs.Eventually(t, "the peer in the log", func() bool {
		return strings.Contains(second.Log(), "the first table is compared with the table of another replica")
	})
	if a := second.get(t, "/routes", ""); a.Status != http.StatusServiceUnavailable && a.Status != http.StatusNotFound {
		t.Errorf("the second replica serves %d:\n%s", a.Status, a.Body)
	}
	if a := second.get(t, "/health", ""); a.Status == http.StatusNoContent {
		t.Error("the second replica is ready without a table")
	}
	held, err := programs.Fetch(t.Context(), second.Support+"/guard/held", "")
	if err != nil || held.Status != http.StatusOK || !strings.Contains(held.Body, fmt.Sprintf("Ingress shop/lost%d (from the id)\n", served)) {
		t.Errorf("/guard/held: %d, error %v:\n%s", held.Status, err, held.Body)
	}
	second.accepts(t, h.Digest)
	second.Ready(t)
	if body := second.body(t); strings.Contains(body, "__lost") || !hasShop(first.body(t), served) {
		t.Errorf("after an acceptance at the second replica it serves\n%s", body)
	}
}

// startRoutesrvOn is startRoutesrv with another address.
func startRoutesrvOn(t *testing.T, api *faultProxy, host string) *process {
	t.Helper()
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	main, support := strings.Replace(programs.FreeAddress(t), "127.0.0.1", host, 1), programs.FreeAddress(t)
	return startProcess(t, binary, main, support, append([]string{
		"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s"}, sourceArgs(t, api, token)...))
}

// TestManualReleaseIsNeverByTime holds the same loss in two replicas, of which one lets time release it.
func TestManualReleaseIsNeverByTime(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			objects, _ := withHeldShops(t, c)
			api := newFaultProxy(t, c)
			manual := start(t, api, "--guard-hold=1s", "--guard-release=manual", "--state-dir="+t.TempDir())
			auto := start(t, api, "--guard-hold=1s")
			manual.Ready(t)
			auto.Ready(t)
			api.atOnce(t, mode, ingressList, func() { remove(t, c, ingressesOf(objects)) })
			if h := manual.holds(t, "routes_lost"); h.ReleaseAt != "" {
				t.Errorf("the hold says that it ends at %s", h.ReleaseAt)
			}
			since := time.Now()
			shop := manual.servedShop(t)
			programs.Eventually(t, "a release by time", func() bool { return !strings.Contains(auto.body(t), "__lost") })
			time.Sleep(time.Until(since.Add(2 * time.Second))) // twice the hold of this one
			if h := manual.guard(t); !h.Held || !hasShop(manual.body(t), shop) {
				t.Errorf("held is %+v, and the shop is served: %v", h, hasShop(manual.body(t), shop))
			}
			manual.accepts(t, manual.guard(t).Digest)
			programs.Eventually(t, "the accepted table", func() bool { return !strings.Contains(manual.body(t), "__lost") })
		})
	}
}

// TestLostNamespaceIsHeld deletes one of several namespaces, which is a small share of the routes.
func TestLostNamespaceIsHeld(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			withHeldShops(t, c)
			objects, slices := heldObjects(1, 24)
			team := strings.ReplaceAll(objects+slices, "namespace: shop", "namespace: team")
			withObjects(t, c, team)
			api := newFaultProxy(t, c)
			server := start(t, api, "--guard-namespaces")
			server.Ready(t)
			before := server.body(t)
			if n := strings.Count(before, "kube_team__"); n < 24 {
				t.Fatalf("%d routes are of the namespace", n)
			}
			api.atOnce(t, mode, ingressList, func() { remove(t, c, ingressesOf(team)) })
			server.holds(t, "namespace_lost")
			body := server.body(t)
			if !strings.Contains(body, "kube_team__") || mode == "poll" && body != before {
				t.Errorf("served is\n%s", body)
			}
			apply(t, c, ingressesOf(team))
			programs.Eventually(t, "the end of the hold", func() bool { return !server.guard(t).Held && server.body(t) == before })
		})
	}
}
