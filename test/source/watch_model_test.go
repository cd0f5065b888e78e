package source_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// state is what was written of an object at a revision; 0 is gone.
type state struct {
	revision kube.Revision
	version  int
}

// model is a cluster that is written at random, and all that it ever was.
type model struct {
	t       *testing.T
	r       *rand.Rand
	server  *kubetest.Server
	last    kube.Revision
	version int
	past    map[kube.Ref][]state
}

var modelKinds = []kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService}

// write makes a random write, if there is something to write.
func (m *model) write() {
	ref := kube.Ref{Kind: modelKinds[m.r.IntN(3)], Namespace: []string{"a", "a-b", "b"}[m.r.IntN(3)], Name: fmt.Sprint("o", m.r.IntN(6))}
	past := m.past[ref]
	if m.r.IntN(3) == 0 {
		if len(past) == 0 || past[len(past)-1].version == 0 {
			return
		}
		m.server.Delete(ref)
		m.last++
		m.past[ref] = append(past, state{m.last, 0})
		return
	}
	m.version++
	text := fmt.Sprintf("kind: %s\nmetadata: {name: %s, namespace: %s}\nspec: ", ref.Kind, ref.Name, ref.Namespace)
	switch ref.Kind {
	case kube.KindIngress:
		text += fmt.Sprintf("{ingressClassName: %q}", fmt.Sprint(m.version))
	case kube.KindService:
		text += fmt.Sprintf("{externalName: %q}", fmt.Sprint(m.version))
	default:
		text += fmt.Sprintf("{hosts: [%q]}", fmt.Sprint(m.version))
	}
	apply(m.t, m.server, text)
	m.last++
	m.past[ref] = append(past, state{m.last, m.version})
}

// trouble makes something go wrong, or heals it.
func (m *model) trouble() {
	path := []string{pathIngresses, pathRouteGroups, pathServices}[m.r.IntN(3)]
	switch m.r.IntN(11) {
	case 0, 1:
		m.server.DropWatches(path)
	case 2:
		m.server.Compact()
		m.server.DropWatches(path)
	case 3, 4:
		m.server.HoldWatches(path, m.r.IntN(2) == 0)
	case 5:
		m.server.SetWatchFault(path, kubetest.WatchFault{Cut: 1 + m.r.IntN(5), Times: 1 + m.r.IntN(2)})
	case 6:
		m.server.SetWatchFault(path, kubetest.WatchFault{Status: []int{410, 429, 500, 503}[m.r.IntN(4)], Times: 1 + m.r.IntN(3)})
	case 7:
		m.server.SetWatchFault(path, kubetest.WatchFault{Gone: true, Times: 1})
		m.server.DropWatches(path)
	case 8:
		m.server.SetWatchFault(path, kubetest.WatchFault{Silent: m.r.IntN(2) == 0, Broken: true, Times: 1})
	case 9:
		m.server.SetFault(path, kubetest.Fault{Status: 500, Times: 1 + m.r.IntN(2)})
	case 10:
		m.server.Bookmark()
	}
}

func (m *model) heal() {
	for _, path := range []string{pathIngresses, pathRouteGroups, pathServices} {
		m.server.HoldWatches(path, false)
		m.server.SetWatchFault(path, kubetest.WatchFault{})
		m.server.SetFault(path, kubetest.Fault{})
	}
}

// check holds a snapshot against the past: each object is one that was there at a revision which the snapshot may show.
func (m *model) check(s *kube.Snapshot) {
	m.t.Helper()
	seen := map[kube.Ref]int{}
	version := func(text string) (n int) {
		_, _ = fmt.Sscan(text, &n)
		return n
	}
	for _, o := range s.Ingresses {
		seen[o.Ref()] = version(o.Spec.IngressClassName)
	}
	for _, o := range s.RouteGroups {
		seen[o.Ref()] = version(o.Spec.Hosts[0])
	}
	for _, o := range s.Services {
		seen[o.Ref()] = version(o.ExternalName)
	}
	for ref, past := range m.past {
		possible := map[int]bool{}
		for i, p := range past {
			until := kube.Revision(1 << 62)
			if i+1 < len(past) {
				until = past[i+1].revision - 1
			}
			if p.revision <= s.Newest && until >= s.Revision {
				possible[p.version] = true
			}
		}
		if past[0].revision > s.Revision {
			possible[0] = true
		}
		if !possible[seen[ref]] {
			m.t.Errorf("%v is of version %d in a snapshot of %d to %d, past %v", ref, seen[ref], s.Revision, s.Newest, past)
		}
		delete(seen, ref)
	}
	if len(seen) > 0 {
		m.t.Errorf("objects that never were: %v", seen)
	}
}

// Whatever happens to the watches, a snapshot shows what was there at the revisions that it claims, and in the end what a
// list shows.
func TestRandomChangesAndFailuresShowOnlyWhatWasThere(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRun(t, rand.New(rand.NewPCG(seed, 1))) })
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

func randomRun(t *testing.T, r *rand.Rand) {
	server, err := kubetest.New(nil, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	server.SetRevision(10)
	server.SetEncodings(r.IntN(2) == 0, r.IntN(2) == 0)
	m := &model{t: t, r: r, server: server, last: 10, past: map[kube.Ref][]state{}}
	for range 20 {
		m.write()
	}
	cfg := cluster.Config{REST: &rest.Config{Host: "http://fake", Transport: localTransport(server)}, Timeout: 5 * time.Second}
	w, err := cluster.NewWatcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	var newest kube.Revision
	for range 300 {
		switch r.IntN(8) {
		case 0:
			m.trouble()
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
		case 2, 3:
			consistent, from := r.IntN(3) == 0, m.last
			s, err := w.Read(t.Context(), kube.ReadOptions{Consistent: consistent})
			if err != nil {
				continue
			}
			m.check(s)
			if s.Newest < newest {
				t.Errorf("a snapshot of %d after one of %d", s.Newest, newest)
			}
			if newest = s.Newest; consistent && s.Revision < from {
				t.Errorf("a consistent read is complete up to %d, want %d", s.Revision, from)
			}
		case 4:
			time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
		default:
			m.write()
		}
	}
	m.heal()
	time.Sleep(5 * time.Minute)
	got, err := w.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.check(got)

	want := *polled(t, cfg)
	want.Revision, want.Newest = got.Revision, got.Newest
	if d := cmp.Diff(&want, got, errorTexts); d != "" {
		t.Errorf("in the end: -list +watch\n%s", d)
	}
	cancel()
	<-done
}
