package guard_test

import (
	"math"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

func newGuard(t *testing.T, cfg guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRules(t *testing.T) {
	r := func(routes ...string) []string { return routes }
	tests := []struct {
		name      string
		cfg       guard.Config
		served    []string // nil: nothing is served
		candidate []string
		want      guard.Code
		detail    string
	}{
		{name: "first table passes", candidate: r("a")},
		{name: "first table of generated routes passes", candidate: r("kube__redirect")},
		{name: "first table above a ceiling passes", cfg: guard.Config{MaxRoutes: 1}, candidate: r("a", "b")},
		{name: "first table without routes is held", candidate: r(), want: guard.Empty},
		{name: "table without routes is held", served: r("a"), candidate: r(), want: guard.Empty},
		{name: "empty goes before every other reason", served: r("a", "b"), candidate: r(), want: guard.Empty},

		{name: "no change passes", served: r("a", "b"), candidate: r("a", "b")},
		{name: "new routes pass", served: r("a"), candidate: r("a", "b", "c")},

		{
			name: "only generated routes are held", served: r("a", "kube__redirect"), candidate: r("kube__redirect"),
			want: guard.OnlyGenerated, detail: "all 1 routes are generated; 2 are served",
		},
		{
			name: "clones of generated routes are generated", served: r("a"),
			candidate: r("clone_kube__redirect", "clone_clone_kube__healthz_up", "kube__healthz_down", "__oauth2_grant_callback"),
			want:      guard.OnlyGenerated,
		},
		{name: "a catch-all is not generated", served: r("kube___catchall__a____"), candidate: r("kube___catchall__a____", "kube__redirect")},
		{name: "generated routes may follow generated routes", served: r("kube__healthz_up", "kube__redirect"), candidate: r("kube__redirect")},

		{name: "half of the routes may go", served: r("a", "b", "c", "d"), candidate: r("c", "d")},
		{
			name: "more than half may not", served: r("a", "b", "c", "d"), candidate: r("d"),
			want: guard.RoutesLost, detail: "3 of 4 pairs of host and path are missing (75.0 %, limit 50.0 %)",
		},
		{name: "two of three are more than half", served: r("a", "b", "c"), candidate: r("a"), want: guard.RoutesLost},
		{name: "one of one is more than half", served: r("a"), candidate: r("b"), want: guard.RoutesLost},
		{name: "new routes do not make up for lost ones", served: r("a", "b"), candidate: r("c", "d", "e"), want: guard.RoutesLost},
		{name: "the limit can be lower", cfg: guard.Config{MaxLoss: 0.1}, served: numbered(0, 199), candidate: numbered(20, 199), want: guard.RoutesLost},
		{name: "at the lower limit passes", cfg: guard.Config{MaxLoss: 0.1}, served: numbered(0, 200), candidate: numbered(20, 200)},
		{name: "fewer than 20 objects pass below half", cfg: guard.Config{MaxLoss: 0.1}, served: numbered(0, 40), candidate: numbered(19, 40)},
		{name: "a limit of 1 switches loss off", cfg: guard.Config{MaxLoss: 1}, served: r("a@h"), candidate: r("b")},
		{name: "but not the rule of generated routes", cfg: guard.Config{MaxLoss: 1}, served: r("a"), candidate: r("kube__redirect"), want: guard.OnlyGenerated},

		{
			name: "more than half of the hosts may not go", served: r("a@h1", "b@h2,h3", "c", "d", "e"), candidate: r("b@h2", "c", "d", "e"),
			want: guard.HostsLost, detail: "2 of 3 hosts are missing (66.7 %, limit 50.0 %)",
		},
		{name: "most of the pairs of a host are lost pairs", served: r("a@h1", "b@h2,h3", "c@h1"), candidate: r("a", "b@h2", "c"), want: guard.RoutesLost},
		{name: "half of the hosts may go", served: r("a@h1,h2", "b"), candidate: r("a@h1", "b")},
		{name: "a host is kept by any route", served: r("a@h1", "b@h1"), candidate: r("a", "b@h1,h2")},
		{
			name: "but not by its catch-all, which answers for nobody", served: r("a@h1", "b@h2", "c@h3", "d", "e", "kube___catchall__h1____@h1", "kube___catchall__h2____@h2"),
			candidate: r("c@h3", "d", "e", "kube___catchall__h1____@h1", "kube___catchall__h2____@h2"),
			want:      guard.HostsLost, detail: "2 of 3 hosts are missing (66.7 %, limit 50.0 %)",
		},

		{
			name: "growth past the ceiling of routes is held", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 3), candidate: numbered(0, 4),
			want: guard.TooManyRoutes, detail: "4 routes, limit 3; 3 are served",
		},
		{name: "growth to the ceiling passes", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 2), candidate: numbered(0, 3)},
		{name: "growth above the ceiling passes", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 4), candidate: numbered(0, 5)},
		{
			name: "growth past the ceiling of bytes is held", cfg: guard.Config{MaxBytes: 40}, served: numbered(0, 2), candidate: numbered(0, 3),
			want: guard.TooLarge, detail: "53 bytes, limit 40; 35 are served",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newGuard(t, test.cfg)
			var served *table.Table
			if test.served != nil {
				served = newTable(t, test.served...)
			}
			got := g.Judge(served, newTable(t, test.candidate...), guard.Held{}, startTime)
			if got.Reason != test.want {
				t.Errorf("got reason %q, detail %q; want reason %q", got.Reason, got.Detail, test.want)
			}
			if test.detail != "" && got.Detail != test.detail {
				t.Errorf("got detail %q, want %q", got.Detail, test.detail)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []guard.Config{
		{MaxLoss: -0.1}, {MaxLoss: 1.1}, {MaxLoss: math.NaN()}, {MaxBackendLoss: 1.1}, {MaxBackendLoss: math.NaN()},
		{Window: -1}, {Hold: -1}, {MaxRoutes: -1}, {MaxBytes: -1},
	} {
		if _, err := guard.New(cfg); err == nil {
			t.Errorf("New(%+v) gave no error", cfg)
		}
	}
}

// TestWindowGoesOnDuringAHold: a slow change during a hold does not count as a sudden loss, however long the hold lasts.
func TestWindowGoesOnDuringAHold(t *testing.T) {
	g := newGuard(t, guard.Config{Manual: true})
	held := backed(t, 10, 0, noEndpoints)
	served := backed(t, 100, 0, noEndpoints)
	for i := range 18 { // each loses 5 of 100, every twenty minutes
		now := startTime.Add(time.Duration(i) * 20 * time.Minute)
		if l := g.Judge(served, held, guard.Held{Since: startTime}, now); l.Reason != guard.RoutesLost {
			t.Fatalf("read %d: %+v", i, l)
		}
		next := backed(t, 100, 5*(i+1), noEndpoints)
		if l := g.Judge(served, next, guard.Held{Since: startTime}, now); l.Reason != "" {
			t.Fatalf("%d of 100 have no endpoints: %s", 5*(i+1), l.Reason)
		}
		served = next
	}
}
