package publish_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// series returns the values of all series that are not zero, by name and label.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				all[name] = v
			}
		}
	}
	return all
}

// TestMetricsOfAHold: alerts use these metrics, so they exist before the first hold and reset after each one.
func TestMetricsOfAHold(t *testing.T) {
	reg := prometheus.NewRegistry()
	g, err := publish.New(publish.Config{Sink: publish.Each(func(*table.Table) {}), Metrics: publish.NewMetrics(reg, "x")})
	if err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, f := range families {
		counts[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{"x_guard_holds_total": len(publish.Reasons()), "x_guard_held": 1, "x_kept_objects": 6}
	if !maps.Equal(counts, want) {
		t.Errorf("before the first table there are the series %v, want %v", counts, want)
	}
	shows := func(what string, want map[string]float64) {
		t.Helper()
		if got := series(t, reg); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	g.Begin().Offer(offered(tableOf(t, 100, 1)))
	shows("the first table", map[string]float64{})
	for n := range 3 {
		g.Begin().Offer(offered(tableOf(t, 10+n, 2)))
	}
	shows("a hold", map[string]float64{"x_guard_holds_total routes_lost": 1, "x_guard_held": 1})
	g.Begin().Offer(offered(tableOf(t, 99, 3)))
	shows("not all is back", map[string]float64{"x_guard_holds_total routes_lost": 1, "x_guard_held": 1})
	g.Begin().Offer(offered(tableOf(t, 100, 3)))
	shows("the source shows a table that is fine", map[string]float64{"x_guard_holds_total routes_lost": 1})
	none := tableOf(t, 0, 4)
	g.Begin().Offer(offered(none))
	shows("a second hold", map[string]float64{
		"x_guard_holds_total routes_lost": 1, "x_guard_holds_total empty": 1, "x_guard_held": 1,
	})
	if _, err := g.Accept(publish.Acceptance{Digest: none.Digest()}); err != nil {
		t.Fatal(err)
	}
	shows("an acceptance", map[string]float64{"x_guard_holds_total routes_lost": 1, "x_guard_holds_total empty": 1})
}

// The first table of a new cluster may be empty: nothing is lost, so nobody should be woken.
func TestAnEmptyFirstTableIsNoHoldThatCounts(t *testing.T) {
	reg := prometheus.NewRegistry()
	var decisions []api.Decision
	g, err := publish.New(publish.Config{
		Sink: publish.Each(func(*table.Table) {}), Metrics: publish.NewMetrics(reg, "x"),
		Decided: func(d api.Decision) { decisions = append(decisions, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := g.Begin().Offer(offered(tableOf(t, 0, 1))); o.Result != publish.Held || g.Held() == nil {
		t.Fatalf("outcome %+v", o)
	}
	if got := series(t, reg); got["x_guard_holds_total empty"] != 0 || len(decisions) != 0 {
		t.Errorf("series %v, decisions %+v: want none of a hold", got, decisions)
	}
	g.Begin().Offer(offered(tableOf(t, 3, 2)))
	if s := g.Served(); s.Initialized.IsZero() || s.Updated.Before(s.Initialized) || s.Table.Len() != 3 {
		t.Errorf("initialized %v, updated %v, %d routes", s.Initialized, s.Updated, s.Table.Len())
	}
}

// TestTimes: confirming a table does not count as an update, and a table is initialized once.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newPublisher(t, guard.Config{})
		start := time.Now()
		at := func() string {
			s := g.Served()
			return fmt.Sprint(s.Initialized.Sub(start), " ", s.Updated.Sub(start), " ", s.Committed.Sub(start), " ", s.Confirmed.Sub(start))
		}
		for _, step := range []struct {
			n    int
			want string
		}{{3, "0s 0s 0s 0s"}, {3, "0s 0s 0s 1s"}, {4, "0s 2s 2s 2s"}, {4, "0s 2s 2s 3s"}} {
			g.Begin().Offer(offered(tableOf(t, step.n, 1)))
			if got := at(); got != step.want {
				t.Errorf("initialized, updated, committed and confirmed are %s, want %s", got, step.want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestWritesAreCounted: writes are counted by file and result.
func TestWritesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "later")
		reg := prometheus.NewRegistry()
		g, err := publish.New(publish.Config{
			Sink: publish.Each(func(*table.Table) {}), Metrics: publish.NewMetrics(reg, "x"),
			File: publish.LastKnownGood(folder),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder, nil, 0o600); err != nil { // no folder can be created there
			t.Fatal(err)
		}
		g.Begin().Offer(offered(tableOf(t, 3, 1)))
		synctest.Wait()
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		g.Begin().Offer(offered(tableOf(t, 4, 2)))
		synctest.Wait()
		if s := series(t, reg); s["x_file_writes_total last_known_good error"] != 1 || s["x_file_writes_total last_known_good ok"] != 1 {
			t.Errorf("series are %v, want one write of each kind", s)
		}
	})
}

// TestTheFileTellsOfTheLastReadAtTheEnd: a process that exits writes the state once more if its table was confirmed after the last
// write, and only then, and never the whole table.
func TestTheFileTellsOfTheLastReadAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		reg := prometheus.NewRegistry()
		writes := func() float64 { return series(t, reg)["x_file_writes_total last_known_good ok"] }
		g, err := publish.New(publish.Config{
			Sink: publish.Each(func(*table.Table) {}), File: publish.FileConfig{Name: "last_known_good", Path: path},
			Metrics: publish.NewMetrics(reg, "x"),
		})
		if err != nil {
			t.Fatal(err)
		}
		g.Flush() // nothing is served
		offer := func() {
			g.Begin().Offer(publish.Candidate{Table: tableOf(t, 3, 1), Read: table.Read{Newest: 1, Oldest: 1, At: time.Now()}, Snapshot: &kube.Snapshot{}})
		}
		offer()
		g.Flush()
		if writes() != 1 {
			t.Errorf("%v writes, want 1: the file says all that there is", writes())
		}
		time.Sleep(time.Hour)
		offer()
		last := time.Now()
		time.Sleep(time.Hour)
		g.Flush()
		state := readFile(t, path+".state")
		time.Sleep(time.Hour)
		g.Flush()
		if again := readFile(t, path+".state"); writes() != 1 || again != state {
			t.Errorf("%v writes of the table, the state is %q and then %q", writes(), state, again)
		}
		again := filePublisher(t, publish.FileConfig{Path: path})
		again.Boot(1<<20, nil)
		if s := again.Served(); s == nil || !s.Read.At.Equal(last) {
			t.Errorf("after a restart: %+v, want a table that was read at %v", s, last)
		}
	})
}
