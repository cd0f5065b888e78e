package source_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// What a watch goes through, from where the next one starts, and what is known in the end.
func TestTheLoopGoesOnAfterWhatAWatchMayMeet(t *testing.T) {
	added := service("ADDED", "new", 101)
	long := 4 * time.Minute
	twice := "from 100, from 100"
	for _, tt := range []struct {
		name  string
		steps []step
		// the watches, and how they ended by the metrics
		want   string
		ends   map[string]float64
		broken int           // lines that say so
		pause  time.Duration // before the last watch, at least
		most   time.Duration // likewise, at most; default twice as much
	}{
		{"nothing", []step{stream(time.Second, added)}, "from 100", nil, 0, 0, 0},
		{"ends as agreed", []step{stream(long, ends), stream(added)}, twice, map[string]float64{"ended": 1}, 0, 0, 0},
		{
			"ends at once", []step{stream(long, ends), stream(ends), stream(ends), stream(added)},
			twice + ", " + twice, map[string]float64{"ended": 3}, 0, time.Second, 0,
		},
		{"breaks", []step{stream(time.Minute, breaks), stream(added)}, twice, map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0},
		{
			"breaks in mid-event", []step{stream(time.Minute, added[:50], breaks), stream(added)},
			twice, map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"breaks behind an event", []step{stream(time.Minute, added, breaks), stream()},
			"from 100, from 101", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"too old", []step{stream(long, ends), stream(failed(410, "Expired", "")), stream(added)},
			twice + ", from 100", map[string]float64{"ended": 1, "error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"too old by the status", []step{stream(long, ends), status(410), stream(added)},
			twice + ", from 100", map[string]float64{"ended": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"an error of the server", []step{stream(long, failed(500, "InternalError", "")), stream(added)},
			twice, map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"too many requests in the stream",
			[]step{stream(long, failed(429, "TooManyRequests", `,"details":{"retryAfterSeconds":4}`)), stream(added)},
			twice, map[string]float64{"error": 1}, 1, 4 * time.Second, 0,
		},
		{
			"too many requests", []step{stream(long, ends), status(429, "Retry-After", "4"), stream(added)},
			twice + ", from 100", map[string]float64{"ended": 1}, 1, 4 * time.Second, 0,
		},
		{
			"too many requests for long", []step{stream(long, ends), status(429, "Retry-After", "9999999999"), stream(added)},
			twice + ", from 100", nil, 1, 500 * time.Millisecond, 20 * time.Second,
		},
		{
			"an error by the status", []step{stream(long, ends), status(500), stream(added)},
			twice + ", from 100", nil, 1, 500 * time.Millisecond, 0,
		},
		{
			"refused", []step{stream(long, ends), status(401), status(403), stream(added)},
			twice + ", " + twice, nil, 1, time.Second, 0,
		},
		{
			"a page", []step{stream(long, ends), page("text/html"), stream(added)},
			twice + ", from 100", nil, 1, 500 * time.Millisecond, 0,
		},
		{
			"a page that claims to be JSON", []step{stream(long, ends), page("application/json"), stream(added)},
			twice + ", from 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a kind of others", []step{stream(long, strings.ReplaceAll(added, "Service", "Pod")), stream(added)},
			"from 100, from 101", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a type that does not exist", []step{stream(long, strings.Replace(added, "ADDED", "REPLACED", 1)), stream(added)},
			"from 100, from 101", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"an object without a revision", []step{stream(long, strings.Replace(added, `"101"`, `""`, 1)), stream(added)},
			twice, map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a bookmark of what was", []step{stream(time.Second, added, bookmark(99), long, ends), stream()},
			"from 100, from 101", map[string]float64{"ended": 1}, 0, 0, 0,
		},
		{"a watch that never ends", []step{stream(), stream(added)}, twice, map[string]float64{"ended": 1}, 0, 0, 0},
		{
			"an object that is too large", []step{stream(long, service("ADDED", strings.Repeat("x", 9000), 102)), stream(added)},
			"from 100, from 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			cfg := cluster.Config{MaxBytes: 8000, Metrics: cluster.NewMetrics(registry)}
			play(t, cfg, tt.steps, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				time.Sleep(15 * time.Minute)
				got, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil || !slices.Equal(names(got), []string{"new", "s"}) || got.Newest != 101 {
					t.Errorf("%s %v, %v, want new and s at 101; log\n%s", summary(got), names(got), err, log())
				}
				what, after := s.watches()
				// Watches that end as agreed follow each other until the test ends.
				if n := len(tt.steps); strings.Join(what[:min(n, len(what))], ", ") != tt.want {
					t.Fatalf("asked for %q, want %q; log\n%s", what, tt.want, log())
				}
				if n := strings.Count(log(), cluster.LogBroken); n != tt.broken || strings.Count(log(), cluster.LogBack) != tt.broken {
					t.Errorf("want %d outages and the ends of them; log\n%s", tt.broken, log())
				}
				for why, n := range tt.ends {
					if got := restarts(t, registry, why); got < n || why != "ended" && got != n {
						t.Errorf("%v watches %s, want %v", got, why, n)
					}
				}
				if n := len(tt.steps); n > 1 && (after[n-1] < tt.pause || after[n-1] > max(tt.most, 2*tt.pause)) {
					t.Errorf("the last watch comes after %v, want %v to %v", after[n-1], tt.pause, max(tt.most, 2*tt.pause))
				}
			})
		})
	}
}

// A list at a revision below what is known tells of a restore, before any check does.
func TestAListOfThePastTellsOfARestore(t *testing.T) {
	past := func(s *script, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		time.Sleep(time.Minute)
		s.SetRevision(50)
		_, _ = io.WriteString(w, failed(410, "Expired", ""))
	}
	play(t, cluster.Config{}, []step{past}, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
		before := readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		time.Sleep(time.Minute + 1100*time.Millisecond - before) // the delay is over, and a check need not have come
		got, err := w.Read(t.Context(), kube.ReadOptions{})
		what, _ := s.watches()
		if err != nil || got.Newest != 50 || strings.Join(what, ", ") != "from 100, from 50" {
			t.Errorf("%s, %v, asked for %q; log\n%s", summary(got), err, what, log())
		}
		if !strings.Contains(log(), "50 after 100") {
			t.Errorf("log\n%s", log())
		}
	})
}

func TestABookmarkMovesTheWatchOn(t *testing.T) {
	steps := []step{stream(time.Minute, bookmark(101), 4*time.Minute, ends)}
	play(t, cluster.Config{}, steps, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
		before := readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		time.Sleep(5*time.Minute + time.Second - before)
		got, err := w.Read(t.Context(), kube.ReadOptions{})
		if what, _ := s.watches(); err != nil || got.Newest != 101 || !slices.Equal(names(got), []string{"s"}) || strings.Join(what, ", ") != "from 100, from 101" {
			t.Errorf("%s, %v, asked for %q; log\n%s", summary(got), err, what, log())
		}
	})
}

// restarts is the counter of watches of services that ended for the reason.
func restarts(t *testing.T, r *prometheus.Registry, why string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "routesrv_watch_restarts_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == "Service" && l[1].GetValue() == why {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// Events that do not fit what is known: what comes out is what the last of them says.
func TestEventsThatDoNotFitAreTakenAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name, events string
		want         string
	}{
		{"deleted and never seen", service("DELETED", "ghost", 101), "s"},
		{"modified and never added", service("MODIFIED", "new", 101), "new s"},
		{"added twice", service("ADDED", "new", 101) + service("ADDED", "new", 101), "new s"},
		{"added although it is known", service("ADDED", "s", 101), "s"},
		{"deleted twice", service("DELETED", "s", 101) + service("DELETED", "s", 101), ""},
		{"older than everything", service("ADDED", "new", 101) + service("DELETED", "s", 95) + service("MODIFIED", "old", 100), "new s"},
		{"out of order", service("DELETED", "new", 102) + service("ADDED", "new", 101), "s"},
		{"from nothing to nothing", service("ADDED", "new", 101) + service("DELETED", "new", 102) + service("ADDED", "new", 103), "new s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, cluster.Config{}, []step{stream(time.Second, tt.events)}, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				s.SetRevision(200)
				time.Sleep(2 * time.Second)
				got, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil || strings.Join(names(got), " ") != tt.want {
					t.Errorf("%v, %v, want %q", names(got), err, tt.want)
				}
				if what, _ := s.watches(); len(what) != 1 || strings.Contains(log(), cluster.LogBroken) {
					t.Errorf("asked for %q, want one watch; log\n%s", what, log())
				}
			})
		})
	}
}

// Whoever may not watch reads nothing new, and is told why and for how long already.
func TestAWatchThatIsRefusedForLongMakesReadsFail(t *testing.T) {
	for code, want := range map[int]string{401: "unauthorized: ", 403: `grant the verb "watch" on "services"`} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			steps := []step{stream(4*time.Minute, ends)}
			for range 100 {
				steps = append(steps, status(code))
			}
			play(t, cluster.Config{}, steps, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				time.Sleep(4 * time.Minute)
				var err error
				after := readsUntil(t, w, 2*time.Minute, func(s *kube.Snapshot, e error) bool {
					if err = e; e == nil && len(s.Services) != 1 {
						t.Errorf("lost: %s", summary(s))
					}
					return e != nil
				})
				if e, ok := errors.AsType[*kube.ReadError](err); !ok || e.Verb != "watch" || !strings.Contains(err.Error(), want) || after > cluster.StaleAfter+time.Second {
					t.Errorf("after %v: %v, want an error with %q after %v", after, err, want, cluster.StaleAfter)
				}
				if what, _ := s.watches(); len(what) < 4 || len(what) > 15 {
					t.Errorf("asked for %q, want a few watches", what)
				}
				if n := strings.Count(log(), cluster.LogBroken); n != 1 {
					t.Errorf("%d lines say that it is broken, want 1", n)
				}
			})
		})
	}
}

// A server that is down is only asked for one object now and then, and reads are good again soon after it is back.
func TestAnOutageEndsSoonAfterTheServerIsBack(t *testing.T) {
	down := kubetest.Fault{Status: http.StatusServiceUnavailable}
	steps := []step{stream(time.Minute, breaks)}
	play(t, cluster.Config{}, steps, func(t *testing.T, s *script, w *cluster.Watcher, log func() string) {
		readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		s.SetFault(pathServices, down)
		time.Sleep(90 * time.Second)
		if err := s.Apply(strings.ReplaceAll(newObject, "NAME", "new")); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		time.Sleep(30 * time.Second)
		s.mu.Lock()
		for _, a := range s.asked {
			if a.what != "current" {
				t.Errorf("a server that is down is asked for %q", a.what)
			}
		}
		s.mu.Unlock()
		s.SetFault(pathServices, kubetest.Fault{})
		after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool {
			return err == nil && slices.Equal(names(s), []string{"new", "s"})
		})
		if after > 3*time.Second {
			t.Errorf("read %v after the outage; log\n%s", after, log())
		}
	})
}

// Run ends at once, whatever it waits for. The bubble sees to it that nothing is left behind.
func TestRunEndsInEveryPhase(t *testing.T) {
	hangs := func(_ *script, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name  string
		steps []step
		list  step
		after time.Duration
	}{
		{"before anything", nil, nil, 0},
		{"no answer to a watch", []step{hangs}, nil, time.Second},
		{"in the middle of an event", []step{stream(service("ADDED", "x", 90)[:20])}, nil, time.Second},
		{"no answer to a list", nil, hangs, time.Second},
		{"in the middle of a list", nil, stream(`{"kind":"ServiceList","apiVersion":"v1",`), time.Second},
		{"a delay", []step{status(500), status(500), status(500), status(500)}, status(500), 10 * time.Second},
		{"a delay that the server wants", []step{status(429, "Retry-After", "10")}, nil, time.Second},
		{"watching", []step{stream()}, nil, time.Second},
		{"no answer to the next watch", []step{stream(4*time.Minute, ends), hangs}, nil, 4*time.Minute + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, cluster.Config{}, tt.steps, func(t *testing.T, s *script, w *cluster.Watcher, _ func() string) {
				s.mu.Lock()
				s.list = tt.list
				s.mu.Unlock()
				time.Sleep(tt.after)
			})
		})
	}
}
