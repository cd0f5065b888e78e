package setup

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// gcPercent trades a little processor time for memory: nearly all of the heap is the table and, in a program that computes
	// one, the objects. They live for long, and the default would leave as much again to garbage (docs/performance.md). A table
	// that is being received must not take twice its size while garbage waits (docs/operations.md).
	gcPercent = 25
	// startPercent is for a heap that grows: each collection marks all of it, for little that it finds.
	startPercent = 100
	// smallHeap is below which size collections are cheap, and twice the size would be felt: a small cluster stays below it.
	smallHeap = 32 << 20
	// startHeap is up to which size a heap that grows may have more garbage than gcPercent. At full size it gets larger than that anyway.
	startHeap = 160 << 20
)

// SetGCPercent leaves the decision to GOGC where that is set.
func SetGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// StartGC collects garbage less often until settle is called, which is to be done when there is a first table: until then the heap
// grows anyway. After that it is SetGCPercent. settle may be called more than once, from any goroutine.
func StartGC() (settle func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent)
	var settled atomic.Bool
	afterEachGC(func() bool {
		if settled.Load() {
			debug.SetGCPercent(gcPercent) // once more: settle may have come while the percentage of the start was being set
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

// percentFor is the percentage for a start with so many bytes in use.
func percentFor(live uint64) int {
	if live < smallHeap || live >= startHeap {
		return gcPercent
	}
	return min(max(int(100*(startHeap-live)/live), gcPercent), startPercent)
}

// liveHeap returns the bytes that the last collection has found in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// beat is what nobody refers to. Its finalizer runs after each collection.
type beat struct{ _ *int }

// afterEachGC calls f after each collection, as long as it returns true.
func afterEachGC(f func() bool) {
	runtime.SetFinalizer(&beat{}, func(*beat) {
		if f() {
			afterEachGC(f)
		}
	})
}
