package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// TestFirstTableHasWhatAPeerKeeps starts a replica without a last-known-good file while another one keeps what was deleted: it takes over
// the kept objects before it publishes its first table, and has the same table.
func TestFirstTableHasWhatAPeerKeeps(t *testing.T) {
	c := ownCluster(t)
	objects, _ := withHeldShops(t, c)
	api := newFaultProxy(t, c)
	// Not an address of this machine's interfaces, which the replica considers its own.
	first := startRoutesrvOn(t, api, "127.0.0.2")
	first.Ready(t)
	api.atOnce(t, "poll", ingressList, func() { remove(t, c, ingressesOf(objects)) })
	kept := first.holds(t, "routes_lost")

	second := startRoutesrv(t, api, "--state-dir="+t.TempDir(), "--peers="+strings.TrimPrefix(first.Main, "http://"))
	second.Ready(t)
	if body := second.body(t); body != first.body(t) {
		t.Errorf("the first table of the second replica is not that of the first one:\n%s", body)
	}
	if !strings.Contains(second.Log(), "the first table is compared with the table of another replica") {
		t.Error("the log does not name the peer")
	}
	h := second.holds(t, "routes_lost")
	if h.Digest != kept.Digest || h.KeptCount != kept.KeptCount || h.KeptCount == 0 {
		t.Errorf("the second replica keeps %+v, want %+v", h, kept)
	}
	second.accepts(t, h.Digest)
	if body := second.body(t); strings.Contains(body, "__lost") || !strings.Contains(first.body(t), "__lost") {
		t.Errorf("after an acceptance at the second replica it serves\n%s", body)
	}
}

// startRoutesrvOn is startRoutesrv with another address.
func startRoutesrvOn(t *testing.T, api *faultProxy, host string, args ...string) *process {
	t.Helper()
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	main, support := strings.Replace(programs.FreeAddress(t), "127.0.0.1", host, 1), programs.FreeAddress(t)
	return startProcess(t, binary, main, support, append([]string{
		"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s"}, append(sourceArgs(t, api, token), args...)...))
}

// TestManualReleaseIsNeverByTime holds the same loss in two replicas, of which one lets time release it.
func TestManualReleaseIsNeverByTime(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			objects, _ := withHeldShops(t, c)
			api := newFaultProxy(t, c)
			manual := start(t, api, "--guard=hold=1s", "--guard=release=manual", "--state-dir="+t.TempDir())
			auto := start(t, api, "--guard=hold=1s")
			manual.Ready(t)
			auto.Ready(t)
			api.atOnce(t, mode, ingressList, func() { remove(t, c, ingressesOf(objects)) })
			if h := manual.holds(t, "routes_lost"); h.ReleaseAt != "" {
				t.Errorf("the hold says that it ends at %s", h.ReleaseAt)
			}
			since := time.Now()
			shop := manual.keptShop(t)
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
