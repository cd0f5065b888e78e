package guard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// run is a guard with the table that is served. A suspicious table is held back until the guard finds the next one fine.
type run struct {
	t      *testing.T
	guard  *guard.Guard
	served *table.Table
	held   guard.Held
	now    time.Time
}

func newRun(t *testing.T, cfg guard.Config, served []string) *run {
	t.Helper()
	return &run{t: t, guard: newGuard(t, cfg), served: newTable(t, served...), now: startTime}
}

// read judges a table some time after the previous one, and serves it if nothing speaks against it.
func (r *run) read(after time.Duration, routes ...string) *guard.Loss {
	r.t.Helper()
	return r.judge(after, newTable(r.t, routes...))
}

func (r *run) judge(after time.Duration, candidate *table.Table) *guard.Loss {
	r.now = r.now.Add(after)
	l := r.guard.Judge(r.served, candidate, r.held, r.now)
	switch {
	case l.Reason == "":
		r.served, r.held = candidate, guard.Held{}
	case r.held.Since.IsZero():
		r.held.Since = r.now
	}
	return l
}

func (r *run) wants(l *guard.Loss, want guard.Code) {
	r.t.Helper()
	if l.Reason != want {
		r.t.Fatalf("got reason %q, detail %q; want reason %q", l.Reason, l.Detail, want)
	}
}

func TestStepsBelowTheLimitAreOneLoss(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 2764))
	r.wants(r.read(0, numbered(0, 2764)...), "")
	r.wants(r.read(time.Second, numbered(0, 1382)...), "")
	for _, left := range []int{760, 395, 206} {
		v := r.read(time.Second, numbered(0, left)...)
		r.wants(v, guard.RoutesLost)
		want := fmt.Sprintf("%d of 2764 pairs of host and path of the last 10m0s are missing (%.1f %%, limit 50.0 %%)", 2764-left, 100-100*float64(left)/2764)
		if left == 760 && v.Detail != want {
			t.Errorf("got %q, want %q", v.Detail, want)
		}
	}
	r.wants(r.read(time.Second, numbered(0, 1382)...), "")
}

func TestStepsOfHostsAreOneLoss(t *testing.T) {
	hosts := func(n int) (routes []string) {
		for i := range n {
			routes = append(routes, fmt.Sprintf("r%d@h%d", i, i))
		}
		return append(routes, numbered(100, 300)...) // without a host
	}
	r := newRun(t, guard.Config{}, hosts(100))
	r.wants(r.read(time.Second, hosts(51)...), "")
	r.wants(r.read(time.Second, hosts(27)...), guard.HostsLost)
}

func TestSlowLossPasses(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 1000))
	for left := 1000; left > 0; left -= 10 {
		r.wants(r.read(time.Minute, numbered(0, left)...), "")
		if left == 210 {
			break // from here on a hundred in ten minutes are more than half
		}
	}
}

func TestWindowEnds(t *testing.T) {
	const window = 5 * time.Minute
	for _, test := range []struct {
		name  string
		after time.Duration
		want  guard.Code
	}{{"within", window - time.Second, guard.RoutesLost}, {"after", window, ""}} {
		t.Run(test.name, func(t *testing.T) {
			r := newRun(t, guard.Config{Window: window}, numbered(0, 1000))
			r.wants(r.read(0, numbered(0, 600)...), "")
			r.wants(r.read(test.after, numbered(0, 400)...), test.want)
		})
	}
}

// A client that follows a stream judges only changes: a loss counts relative to when the table was served.
func TestLossCountsFromWhenItWasServed(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 1000))
	r.wants(r.read(0, numbered(0, 600)...), "")
	r.wants(r.read(time.Hour, numbered(0, 400)...), "")
}

func TestGrowthCanBeRepairedAtOnce(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 1000))
	r.wants(r.read(time.Second, numbered(0, 10_000)...), "")
	r.wants(r.read(time.Second, numbered(10, 1000)...), "") // a few were removed meanwhile
	t.Run("and what follows is judged as if it had never been", func(t *testing.T) {
		r.wants(r.read(time.Second, numbered(400, 1000)...), "")
		r.wants(r.read(time.Second, numbered(600, 1000)...), guard.RoutesLost)
	})
	t.Run("unless it went on for longer than the window", func(t *testing.T) {
		r := newRun(t, guard.Config{}, numbered(0, 1000))
		r.wants(r.read(time.Second, numbered(0, 10_000)...), "")
		r.wants(r.read(11*time.Minute, numbered(0, 1000)...), guard.RoutesLost)
	})
	t.Run("but not what a loss looks like", func(t *testing.T) {
		r := newRun(t, guard.Config{}, numbered(0, 1000))
		r.wants(r.read(time.Second, numbered(0, 2764)...), "")
		r.wants(r.read(time.Second, numbered(0, 600)...), guard.RoutesLost)
	})
	t.Run("and an empty table is nothing to return to", func(t *testing.T) {
		r := newRun(t, guard.Config{}, nil)
		r.wants(r.read(time.Second, numbered(0, 100)...), "")
		r.wants(r.read(time.Second, "r1"), guard.RoutesLost)
	})
	t.Run("of hosts", func(t *testing.T) {
		r := newRun(t, guard.Config{}, []string{"a@h1,h2", "b"})
		r.wants(r.read(time.Second, "a@h1,h2", "b@h3,h4,h5,h6,h7"), "")
		r.wants(r.read(time.Second, "a@h1,h2", "b"), "")
	})
}

// However a cluster shrinks within a window, at least half of what was served at its beginning is served at all times.
func TestNoSeriesOfLossesPasses(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		const size = 400
		r := newRun(t, guard.Config{Hold: time.Hour}, numbered(0, size))
		var there, extra [size]bool
		for i := range there {
			there[i] = true
		}
		for range 100 {
			var routes []string
			share := random.Float64()
			next, nextExtra := there, extra
			for i := range next {
				next[i] = next[i] && random.Float64() < 0.5+share/2 || random.Float64() < share/20
				nextExtra[i] = random.Float64() < share/2
				if next[i] {
					routes = append(routes, fmt.Sprintf("r%d", i))
				}
				if nextExtra[i] {
					routes = append(routes, fmt.Sprintf("x%d", i))
				}
			}
			if r.read(5*time.Second, routes...).Reason == "" {
				there, extra = next, nextExtra
			}
			count := 0
			for _, is := range there {
				if is {
					count++
				}
			}
			// Everything else that was added and removed counts as served, too, so the share is of more routes than these.
			if count < size/8 {
				t.Fatalf("seed %d: %d of %d routes are left", seed, count, size)
			}
		}
	}
}

func TestBackendsLost(t *testing.T) {
	for _, test := range []struct {
		name        string
		cfg         guard.Config
		served      int // without endpoints
		routes, now int
		empty       string
		want        guard.Code
		detail      string
	}{
		{name: "all", routes: 100, now: 100, want: guard.BackendsLost,
			detail: "100 of 100 pairs of host and path with endpoints lost all endpoints (100.0 %, limit 50.0 %)"},
		{name: "more than half", routes: 100, now: 51, want: guard.BackendsLost},
		{name: "half", routes: 100, now: 50},
		{name: "fewer than 20", routes: 19, now: 19},
		{name: "20", routes: 20, now: 20, want: guard.BackendsLost},
		{name: "of those that had some", routes: 100, served: 60, now: 81, want: guard.BackendsLost},
		{name: "half of those that had some", routes: 100, served: 60, now: 80},
		{name: "a higher limit", cfg: guard.Config{MaxBackendLoss: 0.9}, routes: 100, now: 90},
		{name: "above a higher limit", cfg: guard.Config{MaxBackendLoss: 0.9}, routes: 100, now: 91, want: guard.BackendsLost},
		{name: "switched off", cfg: guard.Config{MaxBackendLoss: 1}, routes: 100, now: 100},
		{name: "is independent of lost routes", cfg: guard.Config{MaxLoss: 1}, routes: 100, now: 100, want: guard.BackendsLost},
		{name: "to loopback", routes: 100, now: 100, empty: "<loopback>"},
		{name: "to dynamic", routes: 100, now: 100, empty: "<dynamic>"},
		{name: "to forward", routes: 100, now: 100, empty: "<forward>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.empty == "" {
				test.empty = noEndpoints
			}
			r := newRun(t, test.cfg, nil)
			r.served = backed(t, test.routes, test.served, test.empty)
			v := r.judge(0, backed(t, test.routes, test.now, test.empty))
			r.wants(v, test.want)
			if test.detail != "" && v.Detail != test.detail {
				t.Errorf("got %q, want %q", v.Detail, test.detail)
			}
		})
	}
}

func TestBackendsAreLostInSteps(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	table := func(without int) *table.Table { return backed(t, 100, without, noEndpoints) }
	r.served = table(0)
	r.wants(r.judge(time.Second, table(49)), "")
	r.wants(r.judge(time.Second, table(60)), guard.BackendsLost)
	r.wants(r.judge(time.Second, table(30)), "") // some are back
	r.wants(r.judge(time.Second, table(50)), "")
	r.wants(r.judge(time.Second, table(51)), guard.BackendsLost)
}

func TestRoutesThatAreGoneAreNoLostBackends(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = backed(t, 100, 0, noEndpoints)
	r.wants(r.judge(time.Second, backed(t, 60, 0, noEndpoints)), "")
	r.wants(r.judge(time.Second, backed(t, 60, 30, noEndpoints)), "")
	r.wants(r.judge(time.Second, backed(t, 60, 31, noEndpoints)), guard.BackendsLost)
}

// TestNamespacesWithDashes: the Ingresses of namespaces whose names contain "--" are counted one by one, whatever their ids show.
func TestNamespacesWithDashes(t *testing.T) {
	apps := func(from int) *table.Table {
		var c definitions
		for i := from; i < 300; i++ {
			c.Add(fmt.Sprintf("kube_team_%d__shop__app_%d__app_%d_example_org____s", i%10, i, i), fmt.Sprintf("app-%d[.]example[.]org", i), `PathSubtree("/")`, alive)
		}
		return c.Table(t)
	}
	r := newRun(t, guard.Config{MaxLoss: 0.1}, nil)
	r.served = apps(0)
	r.wants(r.judge(time.Second, apps(25)), "")
	r.wants(r.judge(time.Second, apps(40)), guard.RoutesLost)
	r.served = apps(0)
	r.held = guard.Held{Since: r.now, Ongoing: true}
	r.wants(r.judge(time.Second, apps(1)), guard.RoutesLost)
}
