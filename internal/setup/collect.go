package setup

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// gcPercent trades a little CPU time for memory: nearly all of the heap is the table and, in a program that computes one, the
	// objects. They are long-lived, and the default would allow as much garbage again (docs/performance.md). A table that is being
	// received must not take twice its size because of uncollected garbage (docs/operations.md).
	gcPercent = 18
	// startPercent applies while the heap grows: each collection then marks all of it and frees little.
	startPercent = 100
	// smallHeap is the size below which collections are cheap. A small cluster stays below it, where twice the heap would matter.
	smallHeap = 32 << 20
	// heapPerObject is the size of a heap with gcPercent of garbage for each object that was read, in bytes, as measured for clusters
	// of every size (docs/performance.md). Until the first table, the heap may have that size at once, since it will have it anyway.
	heapPerObject = 2000
)

// SetGCPercent sets gcPercent unless GOGC is set.
func SetGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// Start makes garbage collections rarer while the process starts. All methods may be called from any goroutine.
type Start struct {
	expected atomic.Uint64 // size of the heap when everything is compiled; 0 before that is known
	settled  atomic.Bool
}

// StartGC begins a start. If GOGC is set, it changes nothing, and neither do the methods of the result.
func StartGC() *Start {
	s := &Start{}
	if os.Getenv("GOGC") != "" {
		s.settled.Store(true)
		return s
	}
	debug.SetGCPercent(gcPercent)
	afterEachGC(func() bool {
		if s.settled.Load() {
			debug.SetGCPercent(gcPercent) // again: Settle may have been called while the start percentage was being set
			return false
		}
		debug.SetGCPercent(percentFor(liveHeap(), s.expected.Load()))
		return true
	})
	return s
}

// Read reports how many objects were read, before they are compiled.
func (s *Start) Read(objects int) { s.expected.Store(uint64(objects) * heapPerObject) }

// Settle ends the start and restores the percentage of [SetGCPercent]. Call it when the first table is served. Further calls do nothing.
func (s *Start) Settle() {
	if !s.settled.Swap(true) {
		debug.SetGCPercent(gcPercent)
	}
}

// percentFor returns the percentage to use during the start while live bytes are in use. Before the objects are read, when the
// expected size is 0, they take less than half of what their table and its compiler will need as well.
func percentFor(live, expected uint64) int {
	switch {
	case live < smallHeap:
		return gcPercent
	case expected == 0:
		return startPercent
	case live >= expected:
		return gcPercent
	}
	return min(max(int(100*(expected-live)/live), gcPercent), startPercent)
}

// liveHeap returns the number of bytes that the last collection found in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// beat is an object without references: its finalizer runs after the next collection.
type beat struct{ _ *int }

// afterEachGC calls f after each collection, as long as it returns true.
func afterEachGC(f func() bool) {
	runtime.SetFinalizer(&beat{}, func(*beat) {
		if f() {
			afterEachGC(f)
		}
	})
}
