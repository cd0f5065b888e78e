package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// inBubble runs a Watcher of a fake server under a clock of its own. The function gets both; the Watcher has read once.
func inBubble(t *testing.T, f func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		log, text := logger()
		w, err := cluster.NewWatcher(cluster.Config{
			REST: &rest.Config{Host: "http://fake", Transport: localTransport(server)}, Logger: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.Run(ctx); err != nil {
				t.Errorf("Run ends with %v", err)
			}
		}()
		if _, err := w.Read(t.Context(), kube.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		f(t, server, w, func() string { synctest.Wait(); return text.String() })
		begin := time.Now()
		cancel()
		<-done
		if d := time.Since(begin); d > time.Second {
			t.Errorf("Run took %v to end", d)
		}
	})
}

func readsUntil(t *testing.T, w *cluster.Watcher, limit time.Duration, ok func(*kube.Snapshot, error) bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		s, err := w.Read(t.Context(), kube.ReadOptions{})
		if ok(s, err) {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			t.Fatalf("waited %v: %s, %v", limit, summary(s), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestAKindThatIsBrokenForLongMakesReadsFailAndLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		time.Sleep(time.Minute)
		server.SetWatchFault(pathServices, kubetest.WatchFault{Status: 503})
		server.SetFault(pathServices, kubetest.Fault{Status: 503})
		server.DropWatches(pathServices)
		after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err != nil })
		if after < cluster.StaleAfter || after > cluster.StaleAfter+10*time.Second {
			t.Errorf("reads fail after %v, want %v", after, cluster.StaleAfter)
		}
		s, err := w.Read(t.Context(), kube.ReadOptions{})
		if e, ok := errors.AsType[*kube.ReadError](err); s != nil || !ok || e.Resource != "services" || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s, %v, want an error that names the services and the reason", summary(s), err)
		}
		if n := strings.Count(log(), cluster.LogBroken); n != 1 {
			t.Errorf("%d lines say that it is broken, want 1:\n%s", n, log())
		}
		drainNow(w)
		server.SetWatchFault(pathServices, kubetest.WatchFault{})
		server.SetFault(pathServices, kubetest.Fault{})
		apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
		select {
		case <-w.Changed():
		case <-time.After(time.Minute):
			t.Error("nobody is told that it is back")
		}
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Services) == 2 })
		time.Sleep(10 * time.Second)
		if _, err := w.Read(t.Context(), kube.ReadOptions{}); err != nil || strings.Count(log(), cluster.LogBack) != 1 {
			t.Errorf("%v, log\n%s", err, log())
		}
	})
}

func drainNow(w *cluster.Watcher) {
	select {
	case <-w.Changed():
	default:
	}
}

func TestDiscoveryThatFailsForLongMakesReadsFail(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 503})
		var last *kube.Snapshot
		after := readsUntil(t, w, 2*time.Minute, func(s *kube.Snapshot, err error) bool {
			if s != nil {
				last = s
			}
			return err != nil
		})
		if after < cluster.StaleAfter || len(last.RouteGroups) != 1 {
			t.Errorf("after %v with %s", after, summary(last))
		}
		server.SetFault(kubetest.Discovery, kubetest.Fault{})
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil })
	})
}

// While discovery fails it is asked for as often as probes are made, so that reads are good again soon, and whoever waits for a
// change is told.
func TestDiscoveryThatIsBackEndsAnOutageSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 503})
		readsUntil(t, w, 2*time.Minute, func(_ *kube.Snapshot, err error) bool { return err != nil })
		for n := range 5 {
			select {
			case <-w.Changed(): // the outage itself
			default:
			}
			server.SetFault(kubetest.Discovery, kubetest.Fault{})
			begin := time.Now()
			select {
			case <-w.Changed():
			case <-time.After(time.Minute):
			}
			if s, err := w.Read(t.Context(), kube.ReadOptions{}); err != nil || len(s.RouteGroups) != 1 {
				t.Errorf("%s, %v", summary(s), err)
			}
			if d := time.Since(begin); d > 2*time.Second {
				t.Errorf("outage %d: a change is told %v after discovery is back, want it within two seconds", n, d)
			}
			server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 503})
			readsUntil(t, w, 2*time.Minute, func(_ *kube.Snapshot, err error) bool { return err != nil })
		}
		server.SetFault(kubetest.Discovery, kubetest.Fault{})
	})
}

func TestADefinitionThatComesLaterIsFound(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		server.SetDefined(false)
		server.DropWatches(pathRouteGroups)
		after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
			if err != nil {
				t.Fatalf("a definition that goes makes reads fail: %v", err)
			}
			if len(s.Ingresses) == 0 || len(s.Services) == 0 {
				t.Fatalf("a definition that goes takes other kinds away: %s", summary(s))
			}
			return s.RouteGroups == nil
		})
		if after < 10*time.Second || after > 25*time.Second {
			t.Errorf("gone after %v", after)
		}
		time.Sleep(time.Minute)
		server.SetDefined(true)
		after = readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			return len(s.RouteGroups) == 1
		})
		if after > 15*time.Second {
			t.Errorf("found after %v", after)
		}
	})
}

// An etcd that was restored behind a watch: no event, no error, no bookmark.
func TestARestoreIsNoticedWithoutAWordFromTheWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		server.SetRevision(50)
		server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n1", Name: "a"})
		after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
			if err == nil && len(s.Ingresses) == 1 && (s.Newest != 51 || s.Revision != 51) {
				t.Errorf("a mix: %s", summary(s))
			}
			return err == nil && len(s.Ingresses) == 1
		})
		if after > 15*time.Second {
			t.Errorf("noticed after %v", after)
		}
	})
}

// The same, but so much was written since that the revision is past what the watches have seen.
func TestARestoreThatHasOvertakenTheWatchesIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		time.Sleep(time.Minute)
		for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints} {
			server.SetWatchFault(path, kubetest.WatchFault{Status: 429, Times: 2})
			server.DropWatches(path)
		}
		server.SetRevision(50)
		server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n1", Name: "a"})
		server.SetRevision(200)
		after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Ingresses) == 1 })
		t.Logf("noticed after %v", after)
	})
}

func TestASilentWatchIsNoticedByTheRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		time.Sleep(time.Minute)
		server.HoldWatches(pathServices, true)
		apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
		after := readsUntil(t, w, 3*time.Minute, func(s *kube.Snapshot, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			return len(s.Services) == 2
		})
		if after < time.Minute || after > 2*time.Minute {
			t.Errorf("noticed after %v", after)
		}
		if !strings.Contains(log(), cluster.LogSilent) {
			t.Errorf("log\n%s", log())
		}
	})
}

// A watch that was late and has caught up has shown everything: nothing is listed because of it, now or later.
func TestAWatchThatCatchesUpIsNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		time.Sleep(time.Minute)
		server.HoldWatches(pathServices, true)
		apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
		time.Sleep(40 * time.Second) // it is noticed that the watch lags, and nothing is done about it yet
		server.HoldWatches(pathServices, false)
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Services) == 2 })
		server.Requests()
		time.Sleep(3 * time.Minute) // less than a watch lasts
		for _, r := range server.Requests() {
			if !strings.Contains(r.Query, "limit=1") && !strings.Contains(r.Query, "watch=true") && r.Path != kubetest.Discovery {
				t.Errorf("request %s", r)
			}
		}
		if strings.Contains(log(), cluster.LogSilent) {
			t.Errorf("log\n%s", log())
		}
	})
}

// However much has changed since somebody looked, it is worth one read.
func TestChangesThatNobodyTookAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		for i := range 5 {
			apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1, labels: {n: \""+string(rune('a'+i))+"\"}}\nspec: {type: ExternalName, externalName: "+string(rune('a'+i))+"}")
			time.Sleep(5 * time.Second)
		}
		told := 0
		for range 5 {
			synctest.Wait()
			select {
			case <-w.Changed():
				told++
			default:
			}
		}
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
	})
}

// A kind that nobody writes to while others are written: its bookmarks keep it up, and nothing is listed again.
func TestAnIdleKindIsNotListedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, log func() string) {
		time.Sleep(10 * time.Second)
		server.Requests()
		for i := range 4 * 60 { // seconds: less than a watch lasts
			apply(t, server, "kind: Ingress\nmetadata: {name: busy, namespace: n1, labels: {n: \""+string(rune('a'+i%26))+"\"}}")
			time.Sleep(time.Second)
		}
		for _, r := range server.Requests() {
			if !strings.Contains(r.Query, "limit=1") && r.Path != kubetest.Discovery && !strings.Contains(r.Query, "watch=true") {
				t.Errorf("request %s", r)
			}
		}
		s, err := w.Read(t.Context(), kube.ReadOptions{})
		if err != nil || s.Newest-s.Revision > 90 {
			t.Errorf("%s, %v, want kinds that are at most a bookmark behind", summary(s), err)
		}
	})
}

// What a watch has missed, for whatever reason, is in the list that follows it.
func TestWhatAWatchHasMissedIsListedLater(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		server.HoldWatches(pathServices, true)
		apply(t, server, "kind: Service\nmetadata: {name: lost, namespace: n1}")
		server.LoseEvents(pathServices)
		server.HoldWatches(pathServices, false)
		server.Bookmark() // the watch claims to be there
		readsUntil(t, w, 11*time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Services) == 2 })
		apply(t, server, "kind: Service\nmetadata: {name: later, namespace: n1}")
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Services) == 3 })
	})
}

// An API server that is gone refuses connections; Run ends at once all the same.
func TestRunEndsWhileTheServerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := roundTripper(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
		w, err := cluster.NewWatcher(cluster.Config{REST: &rest.Config{Host: "http://fake", Transport: refuse}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		for range 50 {
			if _, err := w.Read(t.Context(), kube.ReadOptions{}); err == nil {
				t.Fatal("a read without a server")
			}
			time.Sleep(time.Second)
		}
		begin := time.Now()
		cancel()
		<-done
		if d := time.Since(begin); d > 0 {
			t.Errorf("Run took %v to end", d)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Nothing answers, but no connection breaks: the watches are silent, as they are when nothing happens.
func TestAnAPIThatOnlyHangsMakesReadsFail(t *testing.T) {
	inBubble(t, func(t *testing.T, server *kubetest.Server, w *cluster.Watcher, _ func() string) {
		time.Sleep(time.Minute)
		for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints, kubetest.Discovery} {
			server.HoldWatches(path, true)
			server.SetFault(path, kubetest.Fault{Hang: true})
		}
		after := readsUntil(t, w, 3*time.Minute, func(s *kube.Snapshot, err error) bool { return err != nil })
		if after < cluster.StaleAfter || after > time.Minute {
			t.Errorf("reads fail after %v", after)
		}
		for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints, kubetest.Discovery} {
			server.HoldWatches(path, false)
			server.SetFault(path, kubetest.Fault{})
		}
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil })
	})
}

// A proxy on the way that buffers answers passes lists, and nothing of a watch.
func TestKindsWhoseWatchIsNotAnsweredAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		log, text := logger()
		var buffers atomic.Bool
		buffers.Store(true)
		direct := localTransport(server)
		w, err := cluster.NewWatcher(cluster.Config{Logger: log, REST: &rest.Config{Host: "http://fake", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if buffers.Load() && r.URL.Query().Get("watch") != "" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return direct.RoundTrip(r)
		})}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		begin := time.Now()
		readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Ingresses) > 0 })
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("the first table takes %v", d)
		}
		time.Sleep(5 * time.Minute)
		for n := range 3 {
			apply(t, server, fmt.Sprintf("kind: Service\nmetadata: {name: new-%d, namespace: n1}", n))
			after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
				if err != nil {
					t.Fatal(err)
				}
				return len(s.Services) == 2+n
			})
			if after > 20*time.Second {
				t.Errorf("a change is seen after %v", after)
			}
		}
		if n := strings.Count(text.String(), cluster.LogListed); n != 4 { // one of each kind
			t.Errorf("%d lines say so:\n%s", n, text.String())
		}
		buffers.Store(false)
		time.Sleep(2 * time.Minute)
		apply(t, server, "kind: Service\nmetadata: {name: last, namespace: n1}")
		if after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { return err == nil && len(s.Services) == 5 }); after > time.Second {
			t.Errorf("without the proxy a change is seen after %v", after)
		}
		if n := strings.Count(text.String(), cluster.LogBack); n != 4 {
			t.Errorf("%d lines say that watches are back:\n%s", n, text.String())
		}
		cancel()
		running.Wait()
	})
}
