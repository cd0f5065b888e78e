package source_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkRead reads a made-up cluster over the loopback interface. cpu-ms/op is the CPU time of the process, and so
// includes the server, which only writes bodies that are ready.
//
//	first         a new source
//	unchanged     nothing happened: the compressed bodies are those of the read before
//	revision      only the revision of the lists is another, as in a cluster where anything is written
//	one-changed   one Ingress is another
//
// Run with -benchtime 20x or so: the server makes new bodies between the reads, which takes longer than the reads.
func BenchmarkRead(b *testing.B) {
	for _, factor := range []float64{0.1, 1} {
		c := scale.New(factor)
		for _, step := range []struct {
			name   string
			before func(*scale.Handler, int)
		}{
			{"first", nil},
			{"unchanged", func(*scale.Handler, int) {}},
			{"revision", func(h *scale.Handler, _ int) { h.Touch() }},
			{"one-changed", func(h *scale.Handler, i int) { h.Mutate(i * 37) }},
		} {
			b.Run(fmt.Sprintf("%s/%gx", step.name, factor), func(b *testing.B) {
				h := c.Handler()
				h.Warm()
				benchmarkRead(b, kubetest.Serve(b, h), func(i int) {
					if step.before != nil {
						step.before(h, i)
						h.Warm()
					}
				}, step.before == nil)
			})
		}
	}
}

func benchmarkRead(b *testing.B, url string, before func(int), fresh bool) {
	open := func() *cluster.Source {
		s, err := cluster.New(cluster.Config{URL: url, EndpointSlices: true})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	read := func(s *cluster.Source) {
		if _, err := s.Read(b.Context(), kube.ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	source := open()
	read(source)
	b.ReportAllocs()
	var used time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		before(i)
		if fresh {
			source = open()
		}
		runtime.GC() // not the read's garbage
		from := cpuTime(b)
		b.StartTimer()
		read(source)
		used += cpuTime(b) - from
	}
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// An unchanged read costs the same number of allocations, however many objects there are.
func TestAnUnchangedReadAllocatesTheSameAtAnySize(t *testing.T) {
	for _, touch := range []bool{false, true} {
		var allocs [2]float64
		for i, factor := range []float64{0.003, 0.03} {
			h := scale.New(factor).Handler()
			h.Warm()
			source := newSource(t, cluster.Config{URL: kubetest.Serve(t, h), EndpointSlices: true})
			read(t, source)
			allocs[i] = allocations(func() {
				if touch {
					h.Touch()
					h.Warm()
				}
			}, func() { read(t, source) })
		}
		// The server is in the same process, and the transport takes what it takes: a hundred or so for each request.
		if allocs[1] > 2000 || allocs[1] > 2*allocs[0] {
			t.Errorf("touched %v: %v allocations with 180 objects, %v with 1,800", touch, allocs[0], allocs[1])
		}
	}
}

// allocations is the number of allocations of one call of f, after a call of before that does not count; the lowest of a
// few, because other goroutines allocate, too.
func allocations(before, f func()) float64 {
	lowest := 0.0
	for i := range 5 {
		before()
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		f()
		runtime.ReadMemStats(&to)
		if n := float64(to.Mallocs - from.Mallocs); i == 0 || n < lowest {
			lowest = n
		}
	}
	return lowest
}
