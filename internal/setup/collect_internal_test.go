package setup

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentForAStart(t *testing.T) {
	const objects = 60_000
	var s Start
	s.Read(objects)
	expected := s.expected.Load()
	for _, c := range []struct {
		live, expected uint64
		want           int
	}{
		{0, 0, gcPercent}, {31 << 20, 0, gcPercent}, {32 << 20, 0, startPercent}, {10 << 30, 0, startPercent},
		{0, expected, gcPercent}, {31 << 20, expected, gcPercent}, {32 << 20, expected, startPercent}, {expected / 2, expected, startPercent},
		{expected * 2 / 3, expected, 50}, {expected * 9 / 10, expected, gcPercent}, {expected, expected, gcPercent}, {10 << 30, expected, gcPercent},
		{50 << 20, 1, gcPercent},
	} {
		if got := percentFor(c.live, c.expected); got != c.want {
			t.Errorf("%d%% for %d of %d MiB, want %d%%", got, c.live>>20, c.expected>>20, c.want)
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
	start := StartGC()
	start.Read(60_000)
	debug.SetGCPercent(startPercent) // as with a grown heap
	start.Settle()
	start.Settle()
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
	StartGC().Settle()
	SetGCPercent()
	if p := gcNow(); p != before {
		t.Errorf("%d%% is set, want the previous %d%%", p, before)
	}
}
