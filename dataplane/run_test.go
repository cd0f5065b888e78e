package dataplane_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// times records when the requests of a server came, relative to the start of the test.
func times(s *routeServer, start time.Time) func() []time.Duration {
	var at []time.Duration
	before := s.answer
	s.fail(func(w http.ResponseWriter, r *http.Request) {
		at = append(at, time.Since(start))
		s.mu.Lock()
		tab := s.table
		s.mu.Unlock()
		switch {
		case before != nil:
			before(w, r)
		default:
			serveTable(w, r, tab, "")
		}
	})
	return func() []time.Duration { return at }
}

func TestPollsAtOnceAndThenWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.servers[0].set(newTable(t, 1, "a"))
		at := times(w.servers[0], time.Now())
		chance := []float64{0, 0.5, 0.999}
		w.cfg.Random = func() float64 { r := chance[0]; chance = append(chance[1:], r); return r }
		stop := w.run(w.client())
		time.Sleep(10 * time.Second)
		stop()
		want := []time.Duration{0, 2700 * time.Millisecond, 5700 * time.Millisecond, 8999400 * time.Microsecond}
		if got := at(); !slices.Equal(got, want) {
			t.Errorf("polled at %v, want %v", got, want)
		}
	})
}

func TestFailingServerIsLeftAloneLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.servers[0].status(http.StatusInternalServerError)
		at := times(w.servers[0], time.Now())
		w.cfg.Random = func() float64 { return 1 - 1e-9 }
		stop := w.run(w.client())
		time.Sleep(2 * time.Minute)
		stop()
		want := []time.Duration{0, 6, 18, 42, 72, 102} // doubled up to 30 s
		for i := range want {
			want[i] *= time.Second
		}
		got := at()
		for i := range got {
			got[i] = got[i].Round(time.Millisecond)
		}
		if !slices.Equal(got, want) {
			t.Errorf("polled at %v, want %v", got, want)
		}
		if n := w.log.count(dataplane.LogUnreachable); n != 1 {
			t.Errorf("said %d times that no server can be reached, want once", n)
		}
		if n := w.log.count(dataplane.LogServerFailed); n != 1 {
			t.Errorf("said %d times that the server fails, want once", n)
		}
	})
}

func TestAdviceToWaitIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.servers[0].fail(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "20")
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		at := times(w.servers[0], time.Now())
		stop := w.run(w.client())
		time.Sleep(30 * time.Second)
		stop()
		if got, want := at(), []time.Duration{0, 22500 * time.Millisecond}; !slices.Equal(got, want) {
			t.Errorf("polled at %v, want %v", got, want)
		}
	})
}

func TestDeadlineIsNotTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		tab := newTable(t, 1, "a")
		w.servers[0].fail(func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(9 * time.Second) // three intervals
			serveTable(rw, r, tab, "")
		})
		c := w.client()
		stop := w.run(c)
		time.Sleep(9*time.Second + time.Millisecond)
		synctest.Wait()
		holds(t, c, tab)
		w.servers[0].fail(hang)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		s := c.Status().Servers[0]
		if s.Reason != string(dataplane.ReasonTimeout) {
			t.Errorf("the server that hangs has the reason %q", s.Reason)
		}
		holds(t, c, tab)
		stop()
	})
}

func TestEndOfTheLoopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.servers[0].fail(hang)
		c := w.client()
		stop := w.run(c)
		time.Sleep(time.Second)
		stop()
		for _, s := range c.Status().Servers {
			if s.Failures != 0 {
				t.Errorf("%s has failed: %s", s.URL, s.LastError)
			}
		}
	})
}

func TestRecheckIsEarlyAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.servers[0].set(newTable(t, 1, "a"))
		at := times(w.servers[0], time.Now())
		c := w.client()
		stop := w.run(c)
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			c.Recheck()
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		w.servers[0].status(http.StatusInternalServerError)
		time.Sleep(2 * time.Second) // the poll at 4 s fails
		c.Recheck()
		synctest.Wait()
		stop()
		if got, want := at(), []time.Duration{0, time.Second}; !slices.Equal(got, want) {
			t.Errorf("polled at %v, want %v", got, want)
		}
		if got := w.servers[0].count(); got != 3 {
			t.Errorf("%d requests, want 3: a server that fails is not asked early", got)
		}
	})
}

func TestOthersAreTriedInTheSameRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		tab := newTable(t, 1, "a")
		w.servers[0].fail(hang)
		w.servers[1].set(nil) // 404: no table yet
		w.servers[2].set(tab)
		c := w.client()
		start := time.Now()
		mustPoll(t, c)
		if took := time.Since(start); took != dataplane.DefaultTimeout {
			t.Errorf("the round took %v", took)
		}
		holds(t, c, tab)
		got := c.Status().Servers
		if got[0].Reason != string(dataplane.ReasonTimeout) || got[1].Reason != string(dataplane.ReasonNotReady) || !got[2].InUse {
			t.Errorf("servers are %+v", got)
		}
		mustPoll(t, c) // stays with this server, and sends nothing to the others
		if a, b, c := w.servers[0].count(), w.servers[1].count(), w.servers[2].count(); a != 1 || b != 1 || c != 2 {
			t.Errorf("%d, %d and %d requests, want 1, 1 and 2", a, b, c)
		}
		if got := w.metric("dataplane_failovers_total"); got != 1 {
			t.Errorf("%v failovers, want 1", got)
		}
	})
}

func TestRoundIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		for _, s := range w.servers {
			s.fail(hang)
		}
		tab := newTable(t, 1, "a")
		w.servers[4].set(tab)
		c := w.client()
		start := time.Now()
		if err := c.Poll(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if took := time.Since(start); took != 3*dataplane.DefaultTimeout {
			t.Errorf("the round took %v", took)
		}
		mustPoll(t, c) // servers that were not tried come first now
		holds(t, c, tab)
		if took := time.Since(start); took != 4*dataplane.DefaultTimeout {
			t.Errorf("the two rounds took %v", took)
		}
	})
}

func TestGoesBackToThePreferredServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		tab := newTable(t, 1, "a")
		w.servers[0].status(http.StatusServiceUnavailable)
		w.servers[1].set(tab)
		c := w.client()
		stop := w.run(c)
		defer stop()
		time.Sleep(10 * time.Second)
		inUse := func() string {
			synctest.Wait()
			for _, s := range c.Status().Servers {
				if s.InUse {
					return s.URL
				}
			}
			return ""
		}
		if got := inUse(); got != "http://b/routes" {
			t.Fatalf("%s is in use", got)
		}
		time.Sleep(75 * time.Second) // it is tried once more, a minute and a quarter after it failed
		if got := w.servers[0].count(); got != 2 {
			t.Errorf("%d requests to a server that fails, want 2", got)
		}
		w.servers[0].set(tab)
		time.Sleep(60 * time.Second)
		if got := inUse(); got != "http://b/routes" {
			t.Errorf("%s is in use: the last failure is less than a minute and a quarter ago", got)
		}
		time.Sleep(20 * time.Second)
		if got := inUse(); got != "http://a/routes" {
			t.Errorf("%s is in use", got)
		}
		if got := w.metric("dataplane_failovers_total"); got != 2 {
			t.Errorf("%v changes, want 2", got)
		}
		if len(w.published) != 1 {
			t.Errorf("%d tables published, want 1", len(w.published))
		}
	})
}

func TestGoingBackDoesNotDelayPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.servers[0].fail(hang)
		w.servers[1].set(newTable(t, 1, "a"))
		c := w.client()
		stop := w.run(c)
		defer stop()
		time.Sleep(15 * time.Second)
		var longest time.Duration
		last := time.Now()
		for n := w.servers[1].count(); time.Since(last) < time.Minute && n < 60; {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if now := w.servers[1].count(); now != n {
				longest, last, n = max(longest, time.Since(last)), time.Now(), now
			}
		}
		if longest > 5*time.Second {
			t.Errorf("%v between two polls", longest)
		}
	})
}

func TestPanicsChangeNothing(t *testing.T) {
	w := newWorld(t, 1)
	first, second := newTable(t, 1, "a"), newTable(t, 2, "a")
	publish := w.publish
	w.publish = func(tab *table.Table, info api.Applied) {
		if tab.Revision() == 2 && len(w.published) == 1 {
			w.published = append(w.published, nil)
			panic("no")
		}
		publish(tab, info)
	}
	c := w.client()
	w.servers[0].set(first)
	mustPoll(t, c)
	w.servers[0].set(second)
	failPoll(t, c, dataplane.ReasonPanic)
	holds(t, c, first)
	fileHolds(t, fileOf(w.cfg), first)
	mustPoll(t, c)
	if got, want := w.servers[0].last(t).Header.Get("If-None-Match"), etagOf(first, "+zstd"); got != want {
		t.Errorf("the next request names %s, want %s", got, want)
	}
	holds(t, c, second)
}
