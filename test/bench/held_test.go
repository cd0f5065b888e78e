package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkHeld measures the cost of a change of one EndpointSlice: while nothing is kept; while one Ingress is kept, because the table
// would grow past a ceiling; the same while the state is requested at each read; and while all Ingresses and RouteGroups are kept, because
// they were deleted. With one kept object nearly everything would exist twice if it were not shared. The loop, the guard and the cache are those of the route server, and
// a client with the previous table requests each table. MiB is the heap afterwards.
func BenchmarkHeld(b *testing.B) {
	for _, tt := range []struct {
		name  string
		kept  int
		asked bool
	}{{"1x/nothing", 0, false}, {"1x/one", 1, false}, {"1x/one-asked", 1, true}, {"1x/all", 20_000, false}} {
		b.Run(tt.name, func(b *testing.B) {
			h := newHeld(b, tt.kept, 0)
			before := processorTime(b)
			for n := 1; b.Loop(); n++ {
				h.replacePod(n)
				if tt.asked && !h.publisher.Holding().Held {
					b.Fatal("nothing is held")
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
			if n := len(h.publisher.Kept()); n != tt.kept {
				b.Fatalf("%d objects are kept, want %d", n, tt.kept)
			}
		})
	}
}

// held is a poller that reads the given snapshots.
type held struct {
	b         *testing.B
	publisher *publish.Publisher
	cache     *etagcache.Cache
	snapshot  *kube.Snapshot
	tag       string // of the previous table

	canary *etagcache.Cache // nil without one

	given chan *kube.Snapshot
	asked chan struct{} // a read begins, so the previous one has ended
}

// newHeld returns a poller whose publisher keeps so many objects: none, one that was added, or all, which were deleted. soak is the one of a canary;
// 0 means none.
func newHeld(b *testing.B, kept int, soak time.Duration) *held {
	h := &held{b: b, snapshot: scale.New(1).Snapshot(), given: make(chan *kube.Snapshot), asked: make(chan struct{})}
	options := rules.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}
	served, newest := *h.snapshot, *h.snapshot
	limits := guard.Config{Hold: 24 * time.Hour}
	switch kept {
	case 1:
		served.Ingresses = slices.Delete(slices.Clone(served.Ingresses), 8, 9)
		limits.MaxRoutes = routesOf(b, options, &served)
	case len(served.Ingresses) + len(served.RouteGroups):
		newest.Ingresses, newest.RouteGroups = nil, nil
	}
	var err error
	if h.cache, err = etagcache.New(etagcache.Config{}); err != nil {
		b.Fatal(err)
	}
	compiler, err := poller.NewCompiler(options, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	if h.publisher, err = publish.New(publish.Config{Sink: h.cache, Canary: h.canaryOf(soak), Guard: limits, Builder: compiler}); err != nil {
		b.Fatal(err)
	}
	loop, err := poller.New(poller.Config{Source: h, Compile: compiler.Compile, Publisher: h.publisher, Interval: time.Millisecond})
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
	<-h.asked
	h.read(&served)
	h.read(&newest)
	h.replacePod(0)
	return h
}

// routesOf returns how many routes a snapshot has.
func routesOf(b *testing.B, o rules.Options, s *kube.Snapshot) int {
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

// processorTime returns the processor time of this process so far: unlike wall time it does not depend on the load of the
// machine.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
