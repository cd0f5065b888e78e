package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/fleet"
)

// dies makes a client report that its proxy died of the table bad and has the table good instead.
func (w *world) dies(pod string, bad, good int) {
	w.report(pod, fleet.Report{
		Holds: name(bad), Rejected: "suspect",
		Suspects: []fleet.Suspect{{Digest: name(bad).Digest, Proven: name(good).Digest, Deaths: 2, Evidence: "it died", Ago: 1}},
	})
}

// TestDeathsAreShown: a table of which proxies died is shown with the clients that reported it, for ten minutes. A client counts as dying until it has held
// the newest table for a minute and says nothing of deaths.
func TestDeathsAreShown(t *testing.T) {
	w := newWorld(fleet.Config{})
	if n := w.Dying(); n != 0 {
		t.Errorf("%d clients are dying before anything happened", n)
	}
	w.dies("p1", 2, 1)
	w.now = w.now.Add(time.Second)
	w.report("p3", fleet.Report{Holds: name(2)})
	w.dies("p2", 2, 0)
	want := []fleet.SuspectTable{{
		Digest: name(2).Digest, Clients: 2, Deaths: 4, Example: "ingress/p1", Evidence: "it died", Last: w.now.Add(-time.Second).UTC(),
	}}
	if diff := cmp.Diff(want, w.Clients().Suspects); diff != "" {
		t.Errorf("/clients (-want +got)\n%s", diff)
	}
	if s := w.client(t, "ingress/p1").Suspects; len(s) != 1 || s[0].Ago != 2 {
		t.Errorf("p1 is shown with %+v", s)
	}
	w.dying(t, 2)
	holds := func(n, times int) {
		for range times {
			w.now = w.now.Add(9 * time.Second)
			w.report("p1", fleet.Report{Holds: name(n)})
		}
	}
	holds(3, 6)
	w.dying(t, 1) // p2 is silent
	w.dies("p1", 3, 1)
	holds(4, 7)
	w.dying(t, 1)
	holds(4, 1)
	w.dying(t, 0)
	if n := len(w.Clients().Suspects); n != 2 {
		t.Errorf("%d suspects are shown, want 2", n)
	}
}

// dying expects how many clients have proxies that died, as the metric shows it.
func (w *world) dying(t *testing.T, want int) {
	t.Helper()
	w.Tick()
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(fmt.Sprintf(`
# HELP routesrv_clients_dying Live clients with a proxy that crashed because of a table, until they recover.
# TYPE routesrv_clients_dying gauge
routesrv_clients_dying %d
`, want)), "routesrv_clients_dying"); err != nil {
		t.Error(err)
	}
	if n := w.metric(t, "routesrv_clients", "rejected"); n != 0 {
		t.Errorf("%v clients are rejected, want one alert for a death", n)
	}
	if n := w.Dying(); n != want {
		t.Errorf("%d clients are dying, want %d", n, want)
	}
}

// metric returns the value of a gauge with a label.
func (w *world) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && len(m.Label) == 1 && m.Label[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no series %s of %s", name, label)
	return 0
}

// TestForgedReportsHideNoDeath: everyone can send reports under any id. Neither a crowd of invented clients nor empty reports under the real id
// hide a proxy that died, and the view stays bounded.
func TestForgedReportsHideNoDeath(t *testing.T) {
	a, b := newWorld(fleet.Config{}), newWorld(fleet.Config{})
	a.dies("real", 2, 1)
	a.now = a.now.Add(time.Second)
	for i := range 1500 {
		a.report(fmt.Sprintf("invented-%d", i), fleet.Report{Holds: name(1)})
		a.dies(fmt.Sprintf("a-%d", i), 1000+i, 1)
	}
	for range 5 {
		a.now = a.now.Add(time.Second)
		b.now = a.now
		a.report("real", fleet.Report{Holds: name(1)})
		b.report("real", fleet.Report{Holds: name(1)})
	}
	v := fleet.Merge(a.Clients(), []fleet.Answer{{Address: "10.0.0.2:9911", Clients: b.Clients()}}, fleet.Query{})
	if len(v.Suspects) != 16 || v.Suspects[0].Example != "ingress/real" || v.Suspects[0].Digest != name(2).Digest {
		t.Errorf("%d suspect tables, the first is %+v", len(v.Suspects), v.Suspects[0])
	}
	for _, c := range v.Clients {
		if c.ID == "ingress/real" && len(c.Suspects) != 1 {
			t.Errorf("the real client is shown as %+v", c)
		}
	}
	for i := range 20 {
		a.dies("real", 3000+i, 1)
	}
	if n := len(a.client(t, "ingress/real").Suspects); n != 4 {
		t.Errorf("%d suspects of one client", n)
	}
}

// TestProvenTablesAreReported: by how many live clients, and by which.
func TestProvenTablesAreReported(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.report("p1", fleet.Report{Holds: name(2), Proven: name(1)})
	w.report("p2", fleet.Report{Holds: name(2), Proven: name(2)})
	w.report("p3", fleet.Report{Holds: name(2), Proven: name(2)})
	w.report("p4", fleet.Report{Holds: name(2)})
	shows := func(id string, want *fleet.Name) {
		t.Helper()
		p := w.client(t, id).Proven
		if (p == nil) != (want == nil) || p != nil && p.Digest != want.Digest {
			t.Errorf("%s: shown is %+v, want %+v", id, p, want)
		}
	}
	one, two := name(1), name(2)
	for id, want := range map[string]*fleet.Name{"ingress/p1": &one, "ingress/p2": &two, "ingress/p3": &two, "ingress/p4": nil} {
		shows(id, want)
	}
	w.report("p2", fleet.Report{Holds: name(2)})
	w.now = w.now.Add(time.Minute)
	w.report("p3", fleet.Report{Holds: name(2), Proven: name(2)})
	shows("ingress/p2", nil)
	shows("ingress/p3", &two)
}

// TestReportsOfDeathsAreChecked: no report is large.
func TestReportsOfDeathsAreChecked(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for body, ok := range map[string]bool{
		`{"suspects": [{"digest": "` + digest + `", "deaths": 2, "evidence": "it\nhas \u00e9"}]}`: true,
		`{"suspects": [{"digest": "` + digest + `"}]}`:                                            false,
		`{"suspects": [{"deaths": 2}]}`:                                                           false,
		`{"suspects": [{"digest": "` + digest + `", "deaths": 2, "ago_seconds": -1}]}`:            false,
		`{"suspects": [` + strings.Repeat(`{"digest": "`+digest+`", "deaths": 2},`, 4) +
			`{"digest": "` + digest + `", "deaths": 2}]}`: false,
	} {
		r, err := fleet.ReadReport(strings.NewReader(body))
		if (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
		if ok && strings.Contains(r.Suspects[0].Evidence, "\n") {
			t.Errorf("evidence %q", r.Suspects[0].Evidence)
		}
	}
}
