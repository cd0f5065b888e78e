package bench

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkChange measures the path from a snapshot with one changed object to the served table: compiling, hashing, the guard,
// and encoding with gzip and zstd. It includes no reading or sending. With -cpu 1 it is the work of one processor.
func BenchmarkChange(b *testing.B) {
	for _, zones := range []int{0, 3} {
		b.Run(map[int]string{0: "1x", 3: "1x/with-three-zones"}[zones], func(b *testing.B) {
			w := newPipeline(b, zones)
			b.ReportAllocs()
			before := processorTime(b)
			for n := 1; b.Loop(); n++ {
				w.change(n)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
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

// pipeline processes a snapshot like the route server, at 1x.
type pipeline struct {
	cluster  *scale.Cluster
	compiler *compile.Compiler
	guard    *guard.Guard
	cache    *etagcache.Cache
	snapshot *kube.Snapshot
	table    *table.Table
	zones    []string // requested zones
}

func newPipeline(b *testing.B, zones int) *pipeline {
	cluster := scale.New(1)
	w := &pipeline{cluster: cluster, snapshot: cluster.Snapshot()}
	var err error
	if w.compiler, err = compile.New(rules.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}); err != nil {
		b.Fatal(err)
	}
	if w.cache, err = etagcache.New(etagcache.Config{}); err != nil {
		b.Fatal(err)
	}
	if w.guard, err = guard.New(guard.Config{}); err != nil {
		b.Fatal(err)
	}
	w.publish(1)
	w.zones = w.cache.Current().Zones()[:zones]
	w.change(0)
	return w
}

// change replaces one Ingress with a version of it.
func (w *pipeline) change(version int) {
	w.snapshot = w.cluster.Mutated(w.snapshot, 7, version)
	w.publish(uint64(version) + 2)
}

func (w *pipeline) publish(revision uint64) {
	end := w.cache.Begin()
	next := w.table.Next(w.compiler.Compile(w.snapshot).Routes, revision, time.Now())
	if l := w.guard.Judge(w.table, next, guard.Held{}, time.Now()); l.Reason != "" {
		panic(l.Detail) // one object is not a suspicious loss
	}
	w.table = next
	end(w.table, table.Read{Oldest: revision, Newest: revision, At: time.Now()})
	for _, zone := range w.zones {
		w.cache.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "/routes/"+zone, nil))
	}
}
