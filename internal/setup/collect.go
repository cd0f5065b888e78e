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
	gcPercent = 25
	// startPercent is for a heap that grows: each collection marks all of it and frees little.
	startPercent = 100
	// smallHeap is the heap size below which collections are cheap, and doubling the heap would be noticeable: a small cluster stays
	// below it.
	smallHeap = 32 << 20
	// startHeap is the heap size up to which a growing heap may have more garbage than gcPercent. A large cluster exceeds it anyway.
	startHeap = 160 << 20
)

// SetGCPercent sets gcPercent unless GOGC is set.
func SetGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// StartGC makes garbage collections less frequent until the caller calls settle, which it must do when there is a first table: until
// then the heap grows anyway. settle sets gcPercent. It may be called more than once, from any goroutine. StartGC does nothing if
// GOGC is set.
func StartGC() (settle func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent)
	var settled atomic.Bool
	afterEachGC(func() bool {
		if settled.Load() {
			debug.SetGCPercent(gcPercent) // again: settle may have been called while the start percentage was being set
			return false
		}
		debug.SetGCPercent(percentFor(liveHeap()))
		return true
	})
	return func() {
		settled.Store(true)
		debug.SetGCPercent(gcPercent)
	}
}

// percentFor returns the percentage during the start, for a heap with live bytes in use.
func percentFor(live uint64) int {
	if live < smallHeap || live >= startHeap {
		return gcPercent
	}
	return min(max(int(100*(startHeap-live)/live), gcPercent), startPercent)
}

// liveHeap returns the bytes in use at the last collection; 0 if that is unknown.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// beat is never referenced, so its finalizer runs after the next collection.
type beat struct{ _ *int }

// afterEachGC calls f after each collection, as long as it returns true.
func afterEachGC(f func() bool) {
	runtime.SetFinalizer(&beat{}, func(*beat) {
		if f() {
			afterEachGC(f)
		}
	})
}
