package bench

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// BenchmarkHeld is what a change of one EndpointSlice costs while nothing is held, and while an intent is held that differs
// from the latest in one Ingress: then nearly all of it is there twice, if it is not shared. MiB is the heap afterwards.
func BenchmarkHeld(b *testing.B) {
	for _, held := range []bool{false, true} {
		b.Run(map[bool]string{false: "1x/nothing", true: "1x/intent"}[held], func(b *testing.B) {
			w := newPipeline(b, 0)
			h := &heldIntent{pipeline: w, intent: w.snapshot.Intent, candidate: w.table}
			if held {
				w.snapshot = w.cluster.Mutated(w.snapshot, 8, 1)
				h.lane = w.compiler.NewLane(w.table.Routes())
				h.publish(3) // the lane is made
			}
			before := processorTime(b)
			for n := 1; b.Loop(); n++ {
				h.replacePod(n)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
			runtime.KeepAlive(h)
		})
	}
}

// heldIntent is a pipeline that serves an intent with the newest backends, as the poller does while the guard holds the
// latest one back.
type heldIntent struct {
	*pipeline
	intent    kube.Intent
	lane      *compile.Lane // nil: nothing is held
	candidate *table.Table
}

// replacePod gives one slice another address.
func (h *heldIntent) replacePod(n int) {
	next := *h.snapshot
	next.EndpointSlices = slices.Clone(next.EndpointSlices)
	at := (n * 7919) % len(next.EndpointSlices)
	slice := *next.EndpointSlices[at]
	slice.Endpoints = slices.Clone(slice.Endpoints)
	slice.Endpoints[0].Address = fmt.Sprintf("10.77.%d.%d", n/250%250, n%250)
	next.EndpointSlices[at] = &slice
	h.snapshot = &next
	h.publish(uint64(n) + 10)
}

func (h *heldIntent) publish(revision uint64) {
	if h.lane == nil {
		h.pipeline.publish(revision)
		return
	}
	seq := h.cache.PollStarted()
	now := time.Now()
	h.candidate = h.candidate.Next(h.compiler.Compile(h.snapshot).Routes, revision, now)
	h.guard.Judge(h.table, h.candidate, now) // fine, since the two differ in one Ingress; it is held all the same
	next := h.table.Next(h.lane.Compile(&h.intent, &h.snapshot.Backends), revision, now)
	if code := h.guard.Inspect(h.table, next); code != "" {
		panic(code)
	}
	h.table = next
	h.cache.PublishHeld(next)
	h.cache.PollEnded(seq, table.Read{Oldest: revision, Newest: revision, At: now, Held: true, Live: true, Candidate: h.candidate})
}
