package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/scale"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// BenchmarkHeld measures the cost of a change of one EndpointSlice: without a hold; while an intent is held that has one Ingress
// more than the served one; and while it is held and the state is requested at each read. The two intents differ so little that
// nearly everything would exist twice if it were not shared. The loop, the guard and the cache are those of the route server, and
// a client with the previous table requests each table. MiB is the heap afterwards.
func BenchmarkHeld(b *testing.B) {
	for _, tt := range []struct {
		name         string
		holds, asked bool
	}{{"1x/nothing", false, false}, {"1x/intent", true, false}, {"1x/intent-asked", true, true}} {
		b.Run(tt.name, func(b *testing.B) {
			h := newHeld(b, tt.holds)
			before := processorTime(b)
			for n := 1; b.Loop(); n++ {
				h.replacePod(n)
				if tt.asked && !h.gate.State().Held {
					b.Fatal("nothing is held")
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
			if s := h.gate.State(); s.Held != tt.holds || tt.holds && s.Half != guard.HeldIntent {
				b.Fatalf("held %v, half %q", s.Held, s.Half)
			}
		})
	}
}

// held is a poller that reads the given snapshots.
type held struct {
	b        *testing.B
	gate     *gate.Gate
	cache    *etagcache.Cache
	snapshot *kube.Snapshot
	tag      string // of the previous table

	given chan *kube.Snapshot
	asked chan struct{} // a read begins, so the previous one has ended
}

// newHeld returns a poller whose gate holds an intent if holds is set.
func newHeld(b *testing.B, holds bool) *held {
	h := &held{b: b, snapshot: scale.New(1).Snapshot(), given: make(chan *kube.Snapshot), asked: make(chan struct{})}
	options := compile.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}
	less := *h.snapshot
	less.Ingresses = slices.Delete(slices.Clone(less.Ingresses), 8, 9)
	limits := guard.Config{Hold: 24 * time.Hour}
	if holds {
		limits.MaxRoutes = routesOf(b, options, &less)
	}
	var err error
	if h.cache, err = etagcache.New(etagcache.Config{}); err != nil {
		b.Fatal(err)
	}
	compiler, err := poller.NewCompiler(options, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	if h.gate, err = gate.New(gate.Config{Sink: h.cache, Guard: limits, Halves: compiler}); err != nil {
		b.Fatal(err)
	}
	loop, err := poller.New(poller.Config{Source: h, Compile: compiler.Compile, Gate: h.gate, Interval: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	all := h.snapshot
	<-h.asked
	h.read(&less)
	h.read(all)
	h.replacePod(0)
	return h
}

// routesOf returns how many routes a snapshot has.
func routesOf(b *testing.B, o compile.Options, s *kube.Snapshot) int {
	c, err := compile.New(o)
	if err != nil {
		b.Fatal(err)
	}
	return c.Compile(s).Routes.Len()
}

// Read implements [poller.Source].
func (h *held) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	select {
	case h.asked <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case s := <-h.given:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read makes the poller read the snapshot, and waits until the read has had all its effects.
func (h *held) read(s *kube.Snapshot) {
	next := *s
	next.Revision = h.snapshot.Revision + 1
	next.Newest = next.Revision
	h.snapshot = &next
	h.given <- h.snapshot
	<-h.asked
}

// replacePod gives one slice another address. A client with the previous table fetches the new one.
func (h *held) replacePod(n int) {
	next := *h.snapshot
	next.EndpointSlices = slices.Clone(next.EndpointSlices)
	at := (n * 7919) % len(next.EndpointSlices)
	slice := *next.EndpointSlices[at]
	slice.Endpoints = slices.Clone(slice.Endpoints)
	slice.Endpoints[0].Address = fmt.Sprintf("10.77.%d.%d", n/250%250, n%250)
	next.EndpointSlices[at] = &slice
	h.read(&next)
	r := httptest.NewRequest(http.MethodHead, "/routes", nil)
	if h.tag != "" {
		r.Header.Set("If-None-Match", h.tag)
	}
	w := httptest.NewRecorder()
	h.cache.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		h.b.Fatalf("a client with the table before: %d", w.Code)
	}
	h.tag = w.Header().Get("ETag")
}
