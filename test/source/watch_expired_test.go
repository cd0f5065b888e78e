package source_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// TestWatchesThatAreRefusedForEverLeaveTheServerItsRest: each watch is refused although everything can be listed. Every kind asks
// less and less often, and is current again soon after the last refusal.
func TestWatchesThatAreRefusedForEverLeaveTheServerItsRest(t *testing.T) {
	paths := []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints}
	for name, fault := range map[string]kubetest.WatchFault{
		"410": {Status: 410}, "410 in an event": {Gone: true}, "403": {Status: 403}, "429": {Status: 429}, "a broken frame": {Broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
				set := func(f kubetest.WatchFault) {
					for _, path := range paths {
						server.SetWatchFault(path, f)
					}
				}
				minute := func() (requests int) {
					before := len(server.Requests())
					time.Sleep(time.Minute)
					return len(server.Requests()) - before
				}
				set(fault)
				for _, path := range paths {
					server.DropWatches(path)
				}
				// Four kinds, each of which begins with up to nine attempts a minute, and later has six at most. An attempt
				// takes three requests: a probe, a list and a watch.
				if n := minute(); n > 4*9*5 {
					t.Errorf("%d requests in the first minute", n)
				}
				for range 5 {
					if n := minute(); n > 4*6*4 || n < 4 {
						t.Errorf("%d requests in a later minute", n)
					}
				}
				set(kubetest.WatchFault{Times: 1, Cut: 0})
				apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
				if after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
					return err == nil && len(s.Services) > 1
				}); after > 25*time.Second {
					t.Errorf("current %v after the last refusal", after)
				}

				time.Sleep(10 * time.Minute) // healthy
				set(kubetest.WatchFault{Status: 410, Times: 1})
				for _, path := range paths {
					server.DropWatches(path)
				}
				apply(t, server, "kind: Service\nmetadata: {name: newer, namespace: n1}")
				if after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
					return err == nil && len(s.Services) > 2
				}); after > 4*time.Second {
					t.Errorf("one refusal after a healthy time costs %v; log\n%s", after, log())
				}
			})
		})
	}
}
