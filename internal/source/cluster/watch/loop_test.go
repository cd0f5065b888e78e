package watch_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/clustertest"
	"github.com/routesrv/routesrv/internal/source/cluster/watch"
	"github.com/routesrv/routesrv/kube"
)

// What a watch goes through, what is asked for after it, and what is known in the end.
func TestTheLoopGoesOnAfterWhatAWatchMayMeet(t *testing.T) {
	added := service("ADDED", "new", 101)
	both := service("ADDED", "new", 101) + service("ADDED", "s", 90) + loaded(101) // in no order
	for _, tt := range []struct {
		name  string
		steps []step
		// what is asked for, and how the watches ended by the metrics
		want   string
		ends   map[string]float64
		broken int           // lines that say so
		pause  time.Duration // before the last watch, at least
		most   time.Duration // likewise, at most; default twice as much
	}{
		{"nothing", []step{stream(everything, time.Second, added)}, "all", nil, 0, 0, 0},
		{
			"ends as agreed", []step{stream(everything, 4*time.Minute, ends), stream(added)},
			"all, from 100", map[string]float64{"ended": 1}, 0, 0, 0,
		},
		{
			"ends at once", []step{stream(everything, 4*time.Minute, ends), stream(ends), stream(ends), stream(added)},
			"all, from 100, from 100, from 100", map[string]float64{"ended": 3}, 0, time.Second, 0,
		},
		{
			"breaks", []step{stream(everything, time.Minute, breaks), stream(added)},
			"all, from 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"breaks in mid-event", []step{stream(everything, time.Minute, added[:50], breaks), stream(added)},
			"all, from 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"breaks behind an event", []step{stream(everything, time.Minute, added, breaks), stream()},
			"all, from 101", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"too old at the start", []step{stream(everything, 4*time.Minute, ends), stream(failed(410, "Expired", "")), stream(both)},
			"all, from 100, all since 100", map[string]float64{"ended": 1, "expired": 1}, 0, 500 * time.Millisecond, 0,
		},
		{
			"too old by the status", []step{stream(everything, 4*time.Minute, ends), status(410), stream(both)},
			"all, from 100, all since 100", map[string]float64{"ended": 1, "expired": 1}, 0, 500 * time.Millisecond, 0,
		},
		{
			"too old in the middle", []step{stream(everything, 4*time.Minute, failed(410, "Gone", "")), stream(both)},
			"all, all since 100", map[string]float64{"expired": 1}, 0, 500 * time.Millisecond, 0,
		},
		{
			"too old, and too new", []step{stream(everything, 4*time.Minute, failed(410, "Expired", "")), tooNew, stream(both)},
			"all, all since 100, all", map[string]float64{"expired": 1}, 0, 0, 0,
		},
		{
			"an error of the server", []step{stream(everything, 4*time.Minute, failed(500, "InternalError", "")), stream(both)},
			"all, all since 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"too many requests in the stream",
			[]step{stream(everything, 4*time.Minute, failed(429, "TooManyRequests", `,"details":{"retryAfterSeconds":4}`)), stream(added)},
			"all, from 100", map[string]float64{"error": 1}, 1, 4 * time.Second, 0,
		},
		{
			"too many requests", []step{stream(everything, 4*time.Minute, ends), status(429, "Retry-After", "4"), stream(added)},
			"all, from 100, from 100", map[string]float64{"ended": 1}, 1, 4 * time.Second, 0,
		},
		{
			"too many requests for long", []step{stream(everything, 4*time.Minute, ends), status(429, "Retry-After", "9999999999"), stream(added)},
			"all, from 100, from 100", nil, 1, 500 * time.Millisecond, 20 * time.Second,
		},
		{
			"an error by the status", []step{stream(everything, 4*time.Minute, ends), status(500), stream(added)},
			"all, from 100, from 100", nil, 1, 500 * time.Millisecond, 0,
		},
		{
			"refused", []step{stream(everything, 4*time.Minute, ends), status(401), status(403), stream(added)},
			"all, from 100, from 100, from 100", nil, 1, time.Second, 0,
		},
		{
			"a request that the server does not take", []step{stream(everything, 4*time.Minute, ends), status(400), stream(both)},
			"all, from 100, all since 100", nil, 1, 500 * time.Millisecond, 0,
		},
		{
			"a page", []step{stream(everything, 4*time.Minute, ends), page("text/html"), stream(added)},
			"all, from 100, from 100", nil, 1, 500 * time.Millisecond, 0,
		},
		{
			"a page that claims to be JSON", []step{stream(everything, 4*time.Minute, ends), page("application/json"), stream(both)},
			"all, from 100, all since 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a kind of others", []step{stream(everything, 4*time.Minute, strings.ReplaceAll(added, "Service", "Pod")), stream(both)},
			"all, all since 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a type that does not exist", []step{stream(everything, 4*time.Minute, strings.Replace(added, "ADDED", "REPLACED", 1)), stream(both)},
			"all, all since 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"an object without a revision", []step{stream(everything, 4*time.Minute, strings.Replace(added, `"101"`, `""`, 1)), stream(both)},
			"all, all since 100", map[string]float64{"error": 1}, 1, 500 * time.Millisecond, 0,
		},
		{
			"a bookmark of what was", []step{stream(everything, time.Second, added, bookmark(99), 4*time.Minute, ends), stream()},
			"all, from 101", map[string]float64{"ended": 1}, 0, 0, 0,
		},
		{
			"a watch that never ends", []step{stream(everything), stream(added)},
			"all, from 100", map[string]float64{"ended": 1}, 0, 0, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			cfg := watch.Config{ReconcileInterval: time.Hour, WatchMetrics: watch.NewMetrics(registry)}
			play(t, cfg, tt.steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				time.Sleep(15 * time.Minute)
				got, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil || !slices.Equal(names(got), []string{"new", "s"}) || got.Newest != 101 {
					t.Errorf("%s %v, %v, want new and s at 101; log\n%s", clustertest.Summary(got), names(got), err, log())
				}
				what, after := s.watches()
				// Watches that end as agreed follow each other until the test ends.
				if n := len(tt.steps); strings.Join(what[:min(n, len(what))], ", ") != tt.want {
					t.Fatalf("asked for %q, want %q; log\n%s", what, tt.want, log())
				}
				if n := strings.Count(log(), watch.LogBroken); n != tt.broken || strings.Count(log(), watch.LogBack) != tt.broken {
					t.Errorf("want %d outages and the ends of them; log\n%s", tt.broken, log())
				}
				// A list confirms a watch that resumes after a failure, but not one whose objects were loaded again.
				lists := 0
				if strings.HasPrefix(what[len(tt.steps)-1], "from") {
					lists = tt.broken
				}
				if n := s.lists(); n != lists {
					t.Errorf("%d lists, want %d", n, lists)
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

// A watch that begins with everything at a revision below what is known tells of a restore, before any check does.
func TestAWatchThatBeginsInThePastTellsOfARestore(t *testing.T) {
	past := func(s *script, w http.ResponseWriter, r *http.Request) {
		s.SetRevision(50)
		stream(service("ADDED", "s", 40)+loaded(50))(s, w, r)
	}
	steps := []step{stream(everything, time.Minute, failed(410, "Expired", "")), past, stream(service("ADDED", "s", 40) + loaded(50))}
	play(t, watch.Config{}, steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
		before := readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		time.Sleep(time.Minute + 1100*time.Millisecond - before) // the delay is over, and a check need not have come
		got, err := w.Read(t.Context(), kube.ReadOptions{})
		what, _ := s.watches()
		if err != nil || got.Newest != 50 || strings.Join(what, ", ") != "all, all since 100, all" {
			t.Errorf("%s, %v, asked for %q; log\n%s", clustertest.Summary(got), err, what, log())
		}
		if !strings.Contains(log(), "50 after 100") {
			t.Errorf("log\n%s", log())
		}
	})
}

func TestABookmarkMovesTheWatchOn(t *testing.T) {
	steps := []step{stream(everything, time.Minute, bookmark(101), 4*time.Minute, ends)}
	play(t, watch.Config{}, steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
		before := readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		time.Sleep(5*time.Minute + time.Second - before)
		got, err := w.Read(t.Context(), kube.ReadOptions{})
		if what, _ := s.watches(); err != nil || got.Newest != 101 || !slices.Equal(names(got), []string{"s"}) || strings.Join(what, ", ") != "all, from 101" {
			t.Errorf("%s, %v, asked for %q; log\n%s", clustertest.Summary(got), err, what, log())
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
			play(t, watch.Config{}, []step{stream(everything, time.Second, tt.events)}, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				s.SetRevision(200)
				time.Sleep(2 * time.Second)
				got, err := w.Read(t.Context(), kube.ReadOptions{})
				if err != nil || strings.Join(names(got), " ") != tt.want {
					t.Errorf("%v, %v, want %q", names(got), err, tt.want)
				}
				if what, _ := s.watches(); len(what) != 1 || strings.Contains(log(), watch.LogBroken) {
					t.Errorf("asked for %q, want one watch; log\n%s", what, log())
				}
			})
		})
	}
}

// How a watch may begin with everything, and what follows where it does not come to that.
func TestAWatchThatBeginsWithEverything(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   cluster.Config
		steps []step
		want  string
		names string
		lists int           // of everything
		log   string        // what it says, at least
		most  time.Duration // until the first read
	}{
		{
			name: "in any order", steps: []step{stream(service("ADDED", "z", 90) + service("ADDED", "a", 95) + service("ADDED", "s", 91) + loaded(100))},
			want: "all", names: "a s z",
		},
		{
			name: "changes before the end", steps: []step{stream(service("ADDED", "z", 90) + service("ADDED", "s", 91) + service("DELETED", "z", 99) +
				service("MODIFIED", "s", 98) + service("ADDED", "b", 99) + bookmark(99) + loaded(100))},
			want: "all", names: "b s",
		},
		{
			name: "twice the same", steps: []step{stream(service("ADDED", "z", 90) + service("ADDED", "s", 91) + service("ADDED", "s", 92) + loaded(100))},
			want: "all", names: "s z",
		},
		{name: "nothing", steps: []step{stream(loaded(100))}, want: "all"},
		{
			name: "breaks", steps: []step{stream(service("ADDED", "x", 90), breaks), stream(everything)},
			want: "all, all", names: "s", most: time.Second,
		},
		{
			name: "ends before it had shown everything", steps: []step{stream(service("ADDED", "x", 90), ends), stream(everything)},
			want: "all, all", names: "s", most: time.Second, log: "the watch has ended before it had shown everything",
		},
		{
			name: "breaks again and again", steps: []step{stream(breaks), stream(ends), stream(service("ADDED", "x", 90), breaks), stream()},
			want: "all, all, all, from 100", names: "s", lists: 1, most: 7 * time.Second,
		},
		{
			name: "does not come to its end", cfg: cluster.Config{Timeout: 5 * time.Second}, steps: []step{stream(service("ADDED", "x", 90)), stream()},
			want: "all, from 100", names: "s", lists: 1, most: 6 * time.Second,
		},
		{
			name: "no answer", cfg: cluster.Config{Timeout: 5 * time.Second},
			steps: []step{func(_ *script, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, stream()},
			want:  "all, from 100", names: "s", lists: 1, most: 6 * time.Second,
		},
		{name: "is not known to the server", steps: []step{status(422), stream()}, want: "all, from 100", names: "s", lists: 1},
		{name: "an error", steps: []step{status(503), stream(everything)}, want: "all, all", names: "s", most: time.Second},
		{name: "too many requests", steps: []step{status(429, "Retry-After", "3"), stream(everything)}, want: "all, all", names: "s", most: 6 * time.Second},
		{name: "a page", steps: []step{page("text/html"), stream(everything)}, want: "all, all", names: "s", most: time.Second},
		{name: "an error in the stream", steps: []step{stream(failed(500, "InternalError", "")), stream(everything)}, want: "all, all", names: "s", most: time.Second},
		{
			name: "an object that is too large", cfg: cluster.Config{MaxBytes: 4000},
			steps: []step{stream(service("ADDED", strings.Repeat("x", 5000), 90)), stream(everything)}, want: "all, all", names: "s", most: time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, watch.Config{Config: tt.cfg}, tt.steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
				var got *kube.Snapshot
				after := readsUntil(t, w, time.Minute, func(s *kube.Snapshot, err error) bool { got = s; return err == nil })
				if after > tt.most+200*time.Millisecond {
					t.Errorf("the first read after %v, want %v", after, tt.most)
				}
				if strings.Join(names(got), " ") != tt.names || got.Revision != 100 {
					t.Errorf("%s %v, want %q at 100; log\n%s", clustertest.Summary(got), names(got), tt.names, log())
				}
				what, _ := s.watches()
				lists := s.lists()
				if strings.Join(what, ", ") != tt.want || lists != tt.lists || !strings.Contains(log(), tt.log) {
					t.Errorf("asked for %q and %d lists, want %q and %d; log\n%s", what, lists, tt.want, tt.lists, log())
				}
			})
		})
	}
}

// A stream of everything that breaks late is asked for less and less often, too.
func TestAStreamThatBreaksLateLeavesTheServerItsRest(t *testing.T) {
	late := stream(service("ADDED", "x", 90), 20*time.Second, breaks)
	play(t, watch.Config{}, []step{late, late, late, stream()}, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
		readsUntil(t, w, 2*time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		what, after := s.watches()
		if strings.Join(what, ", ") != "all, all, all, from 100" || after[1] < 500*time.Millisecond || after[2] < time.Second || after[3] < 2*time.Second {
			t.Errorf("asked for %q after %v, want delays that double; log\n%s", what, after, log())
		}
	})
}

// Whoever may not watch reads nothing new, and is told why and for how long already.
func TestAWatchThatIsRefusedForLongMakesReadsFail(t *testing.T) {
	for code, want := range map[int]string{401: "unauthorized: ", 403: `grant the verb "watch" on "services"`} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			steps := []step{stream(everything, 4*time.Minute, ends)}
			for range 100 {
				steps = append(steps, status(code))
			}
			play(t, watch.Config{}, steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
				readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
				time.Sleep(4 * time.Minute)
				var err error
				after := readsUntil(t, w, 2*time.Minute, func(s *kube.Snapshot, e error) bool {
					if err = e; e == nil && len(s.Services) != 1 {
						t.Errorf("lost: %s", clustertest.Summary(s))
					}
					return e != nil
				})
				if e, ok := errors.AsType[*kube.ReadError](err); !ok || e.Verb != "watch" || !strings.Contains(err.Error(), want) || after > watch.StaleAfter+time.Second {
					t.Errorf("after %v: %v, want an error with %q after %v", after, err, want, watch.StaleAfter)
				}
				if what, _ := s.watches(); len(what) < 4 || len(what) > 15 || slices.ContainsFunc(what[1:], func(s string) bool { return strings.HasPrefix(s, "all") }) {
					t.Errorf("asked for %q, want a few watches from where it was", what)
				}
				if n := strings.Count(log(), watch.LogBroken); n != 1 {
					t.Errorf("%d lines say that it is broken, want 1", n)
				}
			})
		})
	}
}

// After an outage a list may show what was missed before the watch does. The watch that goes on from there has nothing to tell,
// and reads succeed all the same.
func TestAListThatShowsWhatWasMissedEndsAnOutage(t *testing.T) {
	const away = 2 * time.Minute
	var begin time.Time
	later := func(s *script, w http.ResponseWriter, r *http.Request) {
		if time.Since(begin) < away {
			status(http.StatusServiceUnavailable)(s, w, r)
			return
		}
		stream()(s, w, r)
	}
	steps := []step{stream(everything, time.Minute, breaks)}
	for range 300 {
		steps = append(steps, later)
	}
	play(t, watch.Config{ProbeInterval: time.Second}, steps, func(t *testing.T, s *script, w *watch.Watcher, log func() string) {
		begin = time.Now()
		readsUntil(t, w, time.Minute, func(_ *kube.Snapshot, err error) bool { return err == nil })
		time.Sleep(time.Until(begin.Add(90 * time.Second)))
		if err := s.Apply(strings.ReplaceAll(newObject, "NAME", "new")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(begin.Add(away)))
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
		{"no answer to a watch of everything", []step{hangs}, nil, time.Second},
		{"in the middle of everything", []step{stream(service("ADDED", "x", 90), 3*time.Second, service("ADDED", "y", 90))}, nil, time.Second},
		{"in the middle of an event", []step{stream(service("ADDED", "x", 90)[:20])}, nil, time.Second},
		{"no answer to a list", []step{status(422)}, hangs, time.Second},
		{"in the middle of a list", []step{status(422)}, stream(`{"kind":"ServiceList","apiVersion":"v1",`), time.Second},
		{"a delay", []step{status(500), status(500), status(500), status(500)}, status(500), 10 * time.Second},
		{"a delay that the server wants", []step{status(429, "Retry-After", "10")}, nil, time.Second},
		{"watching", []step{stream(everything)}, nil, time.Second},
		{"no answer to the next watch", []step{stream(everything, 4*time.Minute, ends), hangs}, nil, 4*time.Minute + time.Second},
		{"a loss that is confirmed", []step{stream(everything, 6*time.Second, failed(410, "Expired", "")), stream(loaded(101))}, hangs, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, watch.Config{}, tt.steps, func(t *testing.T, s *script, w *watch.Watcher, _ func() string) {
				s.mu.Lock()
				s.list = tt.list
				s.mu.Unlock()
				time.Sleep(tt.after)
			})
		})
	}
}
