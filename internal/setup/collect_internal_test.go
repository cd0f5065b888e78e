package setup

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentForAStart(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, gcPercent}, {31 << 20, gcPercent}, {32 << 20, startPercent}, {80 << 20, startPercent}, {100 << 20, 60}, {128 << 20, gcPercent}, {150 << 20, gcPercent},
		{startHeap, gcPercent}, {10 << 30, gcPercent},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d%% for %d MiB, want %d%%", got, c.live>>20, c.want)
		}
	}
}

// gcNow returns the current percentage.
func gcNow() int {
	p := debug.SetGCPercent(-1)
	debug.SetGCPercent(p)
	return p
}

func TestAStartEndsWithThePercentageOfAService(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(gcNow())
	settle := StartGC()
	debug.SetGCPercent(startPercent) // as with a grown heap
	settle()
	settle()
	beats := make(chan struct{}, 1)
	afterEachGC(func() bool { beats <- struct{}{}; return false })
	runtime.GC() // the finalizers run after it, in an unknown order
	select {
	case <-beats:
	case <-time.After(time.Minute):
		t.Fatal("nothing is called after a collection")
	}
	if p := gcNow(); p != gcPercent {
		t.Errorf("%d%% after the start, want %d%%", p, gcPercent)
	}
}

func TestGOGCHasTheLastWord(t *testing.T) {
	before := gcNow()
	t.Setenv("GOGC", "80")
	StartGC()()
	SetGCPercent()
	if p := gcNow(); p != before {
		t.Errorf("%d%% is set, want the previous %d%%", p, before)
	}
}
