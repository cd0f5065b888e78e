package poller_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// polled lets d pass, and waits until the poll at its end is over.
func polled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSuspiciousTableIsHeldUntilEveryPollAgreedForTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		stop := w.run(w.poller(nil))
		polled(time.Second)
		w.set("a")
		polled(3*time.Second + guard.DefaultHold - 2*time.Second) // held since 3 s
		if got := w.tables(); !slices.Equal(got, []string{"a b c"}) {
			t.Errorf("published %v before the hold is over, want the first table only", got)
		}
		polled(2 * time.Second)
		stop()
		if got := w.tables(); !slices.Equal(got, []string{"a b c", "a"}) {
			t.Errorf("published %v after the hold, want the held table", got)
		}
		if got := w.log.find(publish.LogTableReleased); len(got) != 1 || got[0].texts("accepted", "reason") != "accepted=false reason=routes_lost" {
			t.Errorf("log of the release: %+v", got)
		}
	})
}

func TestSinkIsToldInOrderWhetherTheServedTableWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		p := w.poller(func(c *settings) { c.Guard.Hold = 4 * time.Second })
		stop := w.run(p)
		polled(0)
		w.set("a") // revision 2
		polled(3 * time.Second)
		w.fail(errors.New("down"))
		polled(3 * time.Second)
		w.fail(nil)
		polled(time.Until(p.Status().NextAttempt)) // the hold is over
		stop()
		want := []string{
			"started 1", "publish a b c", "completed 1 at 1",
			"started 2", "held 2 at 2",
			"started 3", // a failed read does not count
			"started 4", "publish a", "completed 4 at 2",
		}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// A caller that orders tables has to know both ends of a read, and whether the read came from caches.
func TestSinkIsToldHowFarAReadIsKnownToReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		w.oldest, w.revision = 5, 50
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		w.change(func() { w.oldest = 51 })
		w.set("a") // revision 51, and held back
		p.Recheck()
		polled(3 * time.Second)
		w.set("a", "b", "c")
		w.change(func() { w.oldest, w.revision = 60, 0 }) // a source that reports only one revision
		polled(3 * time.Second)
		stop()
		want := []table.Read{
			{Oldest: 5, Newest: 50, At: w.start},
			{Oldest: 51, Newest: 51, Consistent: true, Held: true, At: w.start.Add(time.Second)},
			{Oldest: 60, Newest: 60, At: w.start.Add(4 * time.Second)},
		}
		if diff := cmp.Diff(want, w.seen); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestPollThatShowsTheServedTableEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		w.set("a")
		polled(57 * time.Second)
		w.set("a", "b", "c")
		polled(3 * time.Second)
		w.set("a") // the hold time starts again
		polled(57 * time.Second)
		stop()
		if got := w.tables(); !slices.Equal(got, []string{"a b c"}) {
			t.Errorf("published %v, want the first table only", got)
		}
	})
}

func TestFailedReadsNeitherAdvanceNorEndAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		cfg := w.settings(func(c *settings) { c.Guard.Hold = time.Minute }).Config
		g := cfg.Publisher
		p, err := poller.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.run(p)
		polled(0)
		w.set("a")
		polled(3 * time.Second) // one poll has seen it
		w.fail(errors.New("down"))
		polled(10 * time.Minute)
		if got := w.tables(); !slices.Equal(got, []string{"a b c"}) || !g.Holding().Held {
			t.Errorf("published %v, guard %+v: want the hold as it was", got, g.Holding())
		}
		w.fail(nil)
		polled(time.Until(p.Status().NextAttempt)) // the second poll that agrees
		stop()
		if got := w.tables(); !slices.Equal(got, []string{"a b c", "a"}) {
			t.Errorf("published %v, want the held table with the next poll that agrees", got)
		}
	})
}

func TestEmptyTableIsNeverPublishedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		w.set()
		polled(30 * time.Second)
		s := p.Status()
		polled(time.Hour)
		stop()
		if got := w.tables(); !slices.Equal(got, []string{"a b c"}) {
			t.Errorf("published %v, want the first table only", got)
		}
		if s.EmptyTotal != 10 || s.Failures != 0 {
			t.Errorf("status %+v after 10 polls without routes", s)
		}
		if got := len(w.log.find(publish.LogTableHeld)); got != 1 {
			t.Errorf("the hold is logged %d times, want once", got)
		}
	})
}

func TestSinkIsNotToldWhileNothingIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run(w.poller(nil))
		polled(4 * time.Second)
		w.set("a")
		polled(3 * time.Second)
		stop()
		want := []string{"started 1", "started 2", "started 3", "publish a", "completed 3 at 2"}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestFirstTableIsComparedWithTheServedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		stop := w.run(w.poller(func(c *settings) { c.Served = tableOf(t, "a", "b", "c") }))
		polled(time.Second)
		stop()
		if diff := cmp.Diff([]string{"started 1", "held 1 at 1"}, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestAcceptPublishesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		if _, err := p.Accept(publish.Acceptance{Digest: tableOf(t, "a").Digest()}); !errors.Is(err, publish.ErrNothingHeld) {
			t.Errorf("error %v while nothing is held, want %v", err, publish.ErrNothingHeld)
		}
		w.set("a")
		polled(3 * time.Second)
		if _, err := p.Accept(publish.Acceptance{Digest: tableOf(t, "b").Digest()}); !errors.Is(err, publish.ErrNotHeld) {
			t.Errorf("error %v for another table than the held one, want %v", err, publish.ErrNotHeld)
		}
		got, err := p.Accept(publish.Acceptance{Digest: tableOf(t, "a").Digest()})
		if err != nil || idsOf(got) != "a" || !slices.Equal(w.tables(), []string{"a b c", "a"}) {
			t.Errorf("table %v, error %v, published %v: want the held table at once", got, err, w.tables())
		}
		w.fail(errors.New("down")) // the gauge must not wait for the next poll, which may be far off
		if v := gauge(t, w, "routesrv_guard_held"); v != 0 {
			t.Errorf("routesrv_guard_held is %v after the acceptance, want 0", v)
		}
		w.fail(nil)
		polled(3 * time.Second)
		stop()
		if got := w.tables(); len(got) != 2 {
			t.Errorf("published %v, want nothing after the acceptance", got)
		}
		if got := w.log.find(publish.LogTableReleased); len(got) != 1 || got[0].texts("accepted", "count") != "accepted=true count=1" {
			t.Errorf("log of the acceptance: %+v", got)
		}
	})
}

func TestAcceptWorksWhileAReadIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		w.set("a")
		polled(3 * time.Second)
		w.change(func() { w.took = time.Minute })
		polled(4 * time.Second) // in the middle of the third read
		if _, err := p.Accept(publish.Acceptance{}); !errors.Is(err, publish.ErrNoDigest) {
			t.Errorf("accept without a digest: %v, want %v", err, publish.ErrNoDigest)
		}
		if _, err := p.Accept(publish.Acceptance{Digest: tableOf(t, "a").Digest()}); err != nil {
			t.Errorf("accept: %v", err)
		}
		if got := w.tables(); !slices.Equal(got, []string{"a b c", "a"}) {
			t.Errorf("published %v, want the accepted table without waiting for the read", got)
		}
		stop()
	})
}

func TestPanicKeepsTheTableAndTheLoop(t *testing.T) {
	for _, tt := range []struct {
		name string
		trip func(w *world)
	}{
		{"compile", func(w *world) { w.onCompile = func() { panic("index out of range") } }},
		{"publish", func(w *world) { w.onPublish = func(*table.Table) { panic("nil map") } }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				p := w.poller(nil)
				stop := w.run(p)
				polled(0)
				w.set("a", "b")
				w.change(func() { tt.trip(w) })
				polled(time.Minute)
				s := p.Status()
				if s.Failures < 3 || !strings.HasPrefix(s.LastError, "panic: ") || !slices.Equal(w.tables(), []string{"a"}) {
					t.Errorf("status %+v and tables %v, want failures and the old table", s, w.tables())
				}
				if v := gauge(t, w, "routesrv_poll_failures_total"); v != float64(s.FailedTotal) {
					t.Errorf("%v failures are counted, want %d", v, s.FailedTotal)
				}
				w.change(func() { w.onCompile, w.onPublish = nil, nil })
				polled(poller.DefaultMaxBackoff)
				if got := w.tables(); !slices.Equal(got, []string{"a", "a b"}) || p.Status().Failures != 0 {
					t.Errorf("published %v, want the new table with the first read that passes", got)
				}
				if _, err := p.Accept(publish.Acceptance{Digest: tableOf(t, "a").Digest()}); !errors.Is(err, publish.ErrNothingHeld) {
					t.Errorf("accept: %v, want %v and no lock that is still held", err, publish.ErrNothingHeld)
				}
				stop()
			})
		})
	}
}

func TestGaugesFollowTheGuardAndTheReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		stop := w.run(w.poller(nil))
		polled(time.Second)
		start := float64(w.start.UnixMilli()) / 1000
		for name, want := range map[string]float64{
			"routesrv_guard_held":                        0,
			"routesrv_polling_started_timestamp_seconds": start, "routesrv_table_initialized_timestamp_seconds": start,
			"routesrv_table_updated_timestamp_seconds": start,
		} {
			if got := gauge(t, w, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		w.set("a")
		polled(5 * time.Second)
		for name, want := range map[string]float64{
			"routesrv_guard_held": 1, "routesrv_guard_holds_total": 1, "routesrv_polls_total": 3,
			"routesrv_table_updated_timestamp_seconds": start,
		} {
			if got := gauge(t, w, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		w.set("a", "b", "c", "d")
		polled(3 * time.Second)
		if got := gauge(t, w, "routesrv_guard_held"); got != 0 {
			t.Errorf("routesrv_guard_held is %v after the hold ended, want 0", got)
		}
		stop()
	})
}

func TestMetricsPassTheLinter(t *testing.T) {
	w := newWorld(t)
	w.poller(nil)
	problems, err := testutil.GatherAndLint(w.registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("error %v, problems %v", err, problems)
	}
}

// gauge is the sum of the series with the name.
func gauge(t *testing.T, w *world, name string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	t.Fatalf("no series %s", name)
	return 0
}
