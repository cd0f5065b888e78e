//go:build !race

package sidecar_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/rollout"
)

// A fleet whose route server is down must not bring back the load that the route server was introduced to remove.
//
// 100 data planes in Exec without a table lose their route server at once. With polls of 3 s, one in fallback reads every 30 s
// and never sooner, so it makes two reads a minute: at most 200 for the fleet, a tenth of the 2,000 that it made before there was
// a route server. The load ramps up to that. A window of ten minutes has one slot for each data plane; after m minutes a binomial
// number of slots has passed, 10 m and at most five standard deviations, 5 sqrt(100/4) = 25, more, and each makes two reads: 2
// (10 m + 25).
//
// The race detector does not survive so many goroutines for half an hour: it runs out of epochs, now and then with a tenth of them
// too. So this test runs without it (make test).
func TestDeadRouteServerDoesNotBringBackTheStampede(t *testing.T) {
	const fleet, window = 100, 10
	deviations := int(math.Ceil(5 * math.Sqrt(fleet/4.0)))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.down.Store(true)
		for i := range fleet {
			cfg := w.config("Exec")
			cfg.Pod = fmt.Sprintf("skipper-ingress-7d4b9c6f5d-%05x", i)
			w.run(cfg)
		}
		time.Sleep(rollout.DefaultFallbackAfter)
		if n := w.reads.Load(); n != 0 {
			t.Errorf("%d reads before the route server was silent for long enough", n)
		}
		steady := int64(fleet * int(time.Minute/(rollout.Slowdown*poller.DefaultInterval)))
		var perMinute []int64
		for minute := 1; minute <= 2*window; minute++ {
			before := w.reads.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			n := w.reads.Load() - before
			perMinute = append(perMinute, n)
			if n > steady {
				t.Errorf("minute %d: %d reads, want at most %d", minute, n, steady)
			}
			if minute < window {
				started := fleet*minute/window + deviations
				if limit := int64(2 * started); n > limit {
					t.Errorf("minute %d: %d reads, want at most %d on the ramp", minute, n, limit)
				}
			}
		}
		t.Logf("reads per minute: %v", perMinute)
		if last := perMinute[len(perMinute)-1]; last != steady {
			t.Errorf("%d reads in the last minute, want %d: all of them compute", last, steady)
		}

		w.down.Store(false)
		time.Sleep(time.Minute) // the longest that a client leaves a server alone, and a poll
		synctest.Wait()
		before := w.reads.Load()
		time.Sleep(window * time.Minute)
		if n := w.reads.Load() - before; n != 0 {
			t.Errorf("%d reads after the route server was back", n)
		}
	})
}
