package source_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// patience is how long anything may take before a test gives up. It decides nothing else.
const patience = 20 * time.Second

// watching is a Watcher that runs until the test ends.
type watching struct {
	*cluster.Watcher
	t *testing.T
}

func newWatching(t *testing.T, cfg cluster.Config) *watching {
	t.Helper()
	w, err := cluster.NewWatcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, w)
	return &watching{w, t}
}

// run runs the Watcher until the test ends, or until the function is called.
func run(t *testing.T, w *cluster.Watcher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run ends with %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// until reads until the snapshot is as wanted. It does not wait for Changed, so that it sees all snapshots.
func (w *watching) until(what string, ok func(*kube.Snapshot) bool) *kube.Snapshot {
	w.t.Helper()
	var (
		last *kube.Snapshot
		err  error
	)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if last, err = w.Read(w.t.Context(), kube.ReadOptions{}); err == nil && ok(last) {
			return last
		}
	}
	w.t.Fatalf("waited %v for %s: %v, last %s", patience, what, err, summary(last))
	return nil
}

// reaches waits until the watches have shown the revision that the server has.
func (w *watching) reaches(s *kubetest.Server, revision kube.Revision) *kube.Snapshot {
	w.t.Helper()
	s.Bookmark()
	return w.until(fmt.Sprint("revision ", revision), func(s *kube.Snapshot) bool { return s.Revision >= revision })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// caughtUp is a Watcher as the contract of sources has it: each read gives what was written before it.
type caughtUp struct{ w *cluster.Watcher }

func (c caughtUp) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	return c.w.Read(ctx, kube.ReadOptions{Consistent: true})
}

func TestAWatcherKeepsTheContractOfSources(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			testSource(t, func(t *testing.T, objects string) world {
				server, err := kubetest.New([]byte(objects), kubetest.API{})
				if err != nil {
					t.Fatal(err)
				}
				server.SetRevision(1)
				server.SetEncodings(e.Protobuf, e.GZip)
				w := newWatching(t, cluster.Config{URL: server.Start(t), EndpointSlices: true})
				return worldOf(t, server, caughtUp{w.Watcher}, "/api/v1/services")
			})
		})
	}
}

func TestAWatcherReadsWhatASourceReads(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			server := newServer(t)
			server.SetEncodings(e.Protobuf, e.GZip)
			cfg := cluster.Config{URL: server.Start(t), EndpointSlices: true, Selection: kube.Selection{Namespace: "n1"}}
			want := polled(t, cfg)
			w := newWatching(t, cfg)
			got, err := w.Read(t.Context(), kube.ReadOptions{})
			if d := cmp.Diff(want, got, errorTexts); d != "" || err != nil {
				t.Errorf("%v -source +watcher\n%s", err, d)
			}
		})
	}
}

func TestAnUnchangedWatchGivesTheSameSnapshotWithoutARequest(t *testing.T) {
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	first, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := len(server.Requests())
	for range 100 {
		if again, err := w.Read(t.Context(), kube.ReadOptions{}); err != nil || again != first {
			t.Fatalf("another snapshot: %v", err)
		}
	}
	// The check of revisions comes every ten seconds, and may come now.
	if n := len(server.Requests()); n > 5 {
		t.Errorf("%d requests for 100 reads, %d to begin with", n, before)
	}
}

func TestAWriteIsSeenAtOnce(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			server := newServer(t)
			server.SetEncodings(e.Protobuf, e.GZip)
			w := newWatching(t, cluster.Config{URL: server.Start(t)})
			before := w.until("a first snapshot", func(*kube.Snapshot) bool { return true })
			drain(w)
			apply(t, server, "kind: Ingress\nmetadata: {name: aa, namespace: n1}\nspec: {}")
			begin := time.Now()
			select {
			case <-w.Changed():
			case <-time.After(patience):
				t.Fatal("the change is not announced")
			}
			after, err := w.Read(t.Context(), kube.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("announced after %v", time.Since(begin))
			if len(after.Ingresses) != 3 || after.Ingresses[0] != before.Ingresses[0] || after.Ingresses[1].Name != "aa" || after.Ingresses[2] != before.Ingresses[1] {
				t.Errorf("ingresses %v, want the new one in the middle and the others as they were", after.Ingresses)
			}
			if &after.Services[0] != &before.Services[0] || after.Newest != 101 {
				t.Errorf("newest %d, want 101, and the slice of the services as it was", after.Newest)
			}
		})
	}
}

// drain takes the announcement of what was read already.
func drain(w *watching) {
	select {
	case <-w.Changed():
	case <-time.After(time.Second):
	}
}

func TestNoReadBeforeEveryKindHasSynced(t *testing.T) {
	for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints} {
		t.Run(path, func(t *testing.T) {
			server := newServer(t)
			server.HoldWatches(path, true)
			server.SetFault(path, kubetest.Fault{Hang: true})
			w := newWatching(t, cluster.Config{URL: server.Start(t), Timeout: 300 * time.Millisecond})
			for range 3 {
				s, err := w.Read(t.Context(), kube.ReadOptions{})
				e, ok := errors.AsType[*kube.ReadError](err)
				if s != nil || !ok {
					t.Fatalf("got %s, %v, want a *kube.ReadError", summary(s), err)
				}
				t.Log(e)
			}
			server.SetFault(path, kubetest.Fault{})
			server.HoldWatches(path, false)
			w.until("the first snapshot", func(s *kube.Snapshot) bool { return len(s.Ingresses) == 2 })
		})
	}
}

func TestAnOldRevisionIsListedAgainOneKindAlone(t *testing.T) {
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	before := w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
	eventually(t, "all watches", func() bool { return server.Watches(pathServices) == 1 })
	server.Requests()
	server.HoldWatches(pathServices, true)
	apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
	server.DropWatches(pathServices)
	server.Compact()
	server.HoldWatches(pathServices, false)
	after := w.until("the new service", func(s *kube.Snapshot) bool { return len(s.Services) == 2 })
	if &after.Ingresses[0] != &before.Ingresses[0] {
		t.Error("the objects of another kind were replaced")
	}
	for _, r := range server.Requests() {
		if r.Path != pathServices && !strings.Contains(r.Query, "limit=1") && r.Path != kubetest.Discovery {
			t.Errorf("%s although only the services had to be listed again", r)
		}
	}
}

func TestABrokenStreamLosesNothing(t *testing.T) {
	for _, e := range []struct {
		Name           string
		Protobuf, GZip bool
	}{{"JSON", false, false}, {"protobuf", true, true}} {
		for _, f := range []kubetest.WatchFault{{Cut: 1, Times: 1}, {Broken: true, Times: 1}, {Gone: true, Times: 1}, {Status: 500, Times: 2}, {Status: 429, Times: 1}} {
			t.Run(fmt.Sprintf("%s %+v", e.Name, f), func(t *testing.T) {
				t.Parallel() // each waits for delays
				server := newServer(t)
				server.SetEncodings(e.Protobuf, e.GZip)
				server.SetWatchFault(pathServices, f)
				w := newWatching(t, cluster.Config{URL: server.Start(t), Timeout: 2 * time.Second})
				first := w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
				eventually(t, "a watch", func() bool { return server.Watches(pathServices) >= 1 })
				f.Times = 1
				server.SetWatchFault(pathServices, f)
				server.DropWatches(pathServices)
				apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
				w.until(fmt.Sprintf("the new service after %+v", f), func(s *kube.Snapshot) bool { return len(s.Services) == len(first.Services)+1 })
				server.Delete(kube.Ref{Kind: kube.KindService, Namespace: "n1", Name: "new"})
				w.until("it to be gone again", func(s *kube.Snapshot) bool { return len(s.Services) == len(first.Services) })
			})
		}
	}
}

func TestAMissingPermissionToWatchIsNamed(t *testing.T) {
	server := newServer(t)
	server.SetWatchFault(pathServices, kubetest.WatchFault{Status: 403})
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	_, err := w.Read(t.Context(), kube.ReadOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "watch services: ") || !strings.Contains(err.Error(), `grant the verb "watch" on "services" in API group ""`) {
		t.Errorf("error %v, want one that says what to grant", err)
	}
}

func TestABadObjectInAStreamCostsNobodyElse(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			server := newServer(t)
			server.SetEncodings(e.Protobuf, e.GZip)
			w := newWatching(t, cluster.Config{URL: server.Start(t)})
			w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
			apply(t, server, "kind: Service\nmetadata: {name: s, namespace: n1, annotations: {x: 1}}\nspec: {ports: 5}\n---\nkind: RouteGroup\nmetadata: {name: r, namespace: n1}\nspec: {hosts: 7}")
			s := w.until("the bad objects", func(s *kube.Snapshot) bool { return len(s.Bad) == 2 })
			if s.Bad[0].Ref != (kube.Ref{Kind: kube.KindRouteGroup, Namespace: "n1", Name: "r"}) || s.Bad[1].Ref != (kube.Ref{Kind: kube.KindService, Namespace: "n1", Name: "s"}) {
				t.Errorf("bad objects %v", s.Bad)
			}
			apply(t, server, "kind: Service\nmetadata: {name: s, namespace: n1}\n---\nkind: RouteGroup\nmetadata: {name: r, namespace: n1}")
			w.until("them to be good again", func(s *kube.Snapshot) bool { return len(s.Bad) == 0 && len(s.Services) == 1 && len(s.RouteGroups) == 1 })
		})
	}
}

func TestAnObjectThatOnlyLooksChangedKeepsItsPointer(t *testing.T) {
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	before := w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
	apply(t, server, `
kind: Service
metadata: {name: s, namespace: n1, annotations: {new: x}}
spec: {type: ClusterIP, ports: [{name: http, port: 80, targetPort: 8080}, {name: x, port: 81, targetPort: web}]}
`)
	after := w.until("the revision", func(s *kube.Snapshot) bool { return s.Newest == 101 })
	if &after.Services[0] != &before.Services[0] {
		t.Error("the slice of the services is another one")
	}
}

func TestAClusterWithoutRouteGroupsIsFollowedThere(t *testing.T) {
	server := newServer(t)
	server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 404})
	log, text := logger()
	w := newWatching(t, cluster.Config{URL: server.Start(t), Logger: log})
	s := w.until("a snapshot", func(*kube.Snapshot) bool { return true })
	if s.RouteGroups != nil || strings.Count(text.String(), "RouteGroups CRD is not installed") != 1 {
		t.Errorf("%s, log\n%s", summary(s), text)
	}
	if len(s.Ingresses) == 0 || len(s.Services) == 0 {
		t.Errorf("without RouteGroups the other kinds are gone, too: %s", summary(s))
	}
	// A consistent read asks discovery, too.
	server.SetFault(kubetest.Discovery, kubetest.Fault{})
	if _, err := w.Read(t.Context(), kube.ReadOptions{Consistent: true}); err != nil {
		t.Fatal(err)
	}
	w.until("the route group", func(s *kube.Snapshot) bool { return len(s.RouteGroups) == 1 })
}

func TestAConsistentReadGoesPastASilentWatch(t *testing.T) {
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
	server.HoldWatches(pathServices, true)
	apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
	s, err := w.Read(t.Context(), kube.ReadOptions{Consistent: true})
	if err != nil || len(s.Services) != 2 || s.Revision < 101 {
		t.Fatalf("%s, %v, want two services at 101", summary(s), err)
	}
	kept := s.Services
	server.HoldWatches(pathServices, false) // the event comes after all, and is known
	s = w.reaches(server, 101)
	if &s.Services[0] != &kept[0] {
		t.Error("an event that a list has shown changes something")
	}
}

func TestARestoredClusterIsNoticedAndReadAsAWhole(t *testing.T) {
	server := newServer(t)
	log, text := logger()
	m := cluster.NewMetrics(nil)
	w := newWatching(t, cluster.Config{URL: server.Start(t), Logger: log, Metrics: m})
	w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
	server.SetRevision(50) // the watches know nothing of it
	server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n1", Name: "a"})
	s, err := w.Read(t.Context(), kube.ReadOptions{Consistent: true})
	if err != nil || s.Newest != 51 || s.Revision != 51 || len(s.Ingresses) != 1 {
		t.Fatalf("%s, %v, want one ingress at 51", summary(s), err)
	}
	if n := testutil.ToFloat64(m.Restores); n != 1 || strings.Count(text.String(), logRestored) != 1 {
		t.Errorf("%v restores are counted, want 1; log\n%s", n, text)
	}
	apply(t, server, "kind: Ingress\nmetadata: {name: later, namespace: n1}")
	w.until("a change after the restore", func(s *kube.Snapshot) bool { return len(s.Ingresses) == 2 })
}

func TestAWatcherRunsAgain(t *testing.T) {
	server := newServer(t)
	w, err := cluster.NewWatcher(cluster.Config{URL: server.Start(t), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, w)
	first, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("it runs twice at the same time")
	}
	stop()
	if _, err := w.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Error("a Watcher that does not run gives a snapshot")
	}
	apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
	run(t, w)
	second, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil || len(second.Services) != 2 || second.Ingresses[0] != first.Ingresses[0] {
		t.Errorf("%s, %v, want a new service and the ingresses as they were", summary(second), err)
	}
}

func TestAConsistentReadThatWasGivenUpIsAnError(t *testing.T) {
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t)})
	w.until("the first snapshot", func(*kube.Snapshot) bool { return true })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := w.Read(ctx, kube.ReadOptions{Consistent: true}); err == nil {
		t.Errorf("got %s, want an error: nothing was listed", summary(s))
	}
}

// TestAWatcherDropsItsObjectsWhenItDoesNotRun: and has them again when it does.
func TestAWatcherDropsItsObjectsWhenItDoesNotRun(t *testing.T) {
	server := newServer(t)
	w, err := cluster.NewWatcher(cluster.Config{URL: server.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, w)
	before, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Drop() // it runs
	if again, err := w.Read(t.Context(), kube.ReadOptions{}); err != nil || again != before {
		t.Errorf("%s, %v, want the very same snapshot", summary(again), err)
	}
	stop()
	w.Drop()
	defer run(t, w)()
	again, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Ingresses[0] == before.Ingresses[0] || summary(again) != summary(before) {
		t.Errorf("got %s, want new objects: %s", summary(again), summary(before))
	}
}

// polled is what a source that polls reads.
func polled(t *testing.T, cfg cluster.Config) *kube.Snapshot {
	t.Helper()
	source, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
