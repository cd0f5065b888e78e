package source_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// A list after a watch that shows nothing changes nothing unless a consistent list agrees.
func TestAnEmptyListAfterAWatchIsConfirmed(t *testing.T) {
	for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints} {
		t.Run(path, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
				before, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				server.OnRequest(func(r kubetest.Request) { // all lists but consistent ones are wrong
					fault := kubetest.Fault{}
					if strings.Contains(r.Query, "resourceVersionMatch") {
						fault.Body = kubetest.EncodeJSON(kube.Kind(kindOf(path)), 110, nil)
					}
					server.SetFault(path, fault)
				})
				apply(t, server, "kind: Ingress\nmetadata: {name: new, namespace: n3}")
				synctest.Wait()
				server.Compact()
				server.SetRevision(110)
				server.Compact()
				server.Requests()
				server.DropWatches(path) // the next watch is too old, and starts again
				for range 100 {
					time.Sleep(time.Second)
					s, err := w.Read(t.Context(), kube.ReadOptions{})
					if err == nil && (len(s.Ingresses) < 2 || len(s.RouteGroups) < 1 || len(s.Services) < 1 || len(s.Endpoints) < 1) {
						t.Fatalf("lost: %s\n%s", summary(s), log())
					}
				}
				s, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil || s.Services[0] != before.Services[0] {
					t.Errorf("%s, %v", summary(s), err)
				}
				confirmed := false
				for _, r := range server.Requests() {
					confirmed = confirmed || r.Path == path && r.Query == ""
				}
				if !confirmed {
					t.Errorf("there was no consistent list; log:\n%s", log())
				}
			})
		})
	}
}

// Objects that were really removed disappear, even after a watch that starts again.
func TestAWatchThatBeginsAnewSeesWhatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		server.HoldWatches(pathServices, true)
		server.Delete(kube.Ref{Kind: kube.KindService, Namespace: "n1", Name: "s"})
		server.SetRevision(110)
		server.Compact()
		server.DropWatches(pathServices)
		server.HoldWatches(pathServices, false)
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && s.Services == nil })
	})
}

// An event about another kind is no event, and nothing that follows in the stream is believed.
func TestAnEventOfAnotherKindBreaksTheWatch(t *testing.T) {
	for name, fault := range map[string]kubetest.WatchFault{
		"kind": {Times: 1, Kind: "Pod"}, "version": {Times: 1, APIVersion: "v1alpha1"},
	} {
		for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints} {
			t.Run(name+path, func(t *testing.T) {
				inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
					server.SetWatchFault(path, fault)
					server.Requests()
					server.DropWatches(path)
					time.Sleep(time.Second)
					apply(t, server, "kind: "+string(kube.Kind(kindOf(path)))+"\nmetadata: {name: new, namespace: n1}\nspec: {}\nsubsets: []")
					time.Sleep(time.Minute)
					streams := 0
					for _, r := range server.Requests() {
						if r.Path == path && strings.Contains(r.Query, "watch=true") {
							streams++
						}
					}
					if streams < 2 {
						t.Errorf("%d watches: that of the wrong events goes on; log\n%s", streams, log())
					}
					s, err := w.Read(t.Context(), kube.ReadOptions{})
					if n := len(s.Ingresses) + len(s.RouteGroups) + len(s.Services) + len(s.Endpoints) + len(s.Bad); err != nil || n != 6 {
						t.Errorf("%s, %v: want the new object by another stream", summary(s), err)
					}
				})
			})
		}
	}
}
