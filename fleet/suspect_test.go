package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/table"
)

// dies makes a client report that its proxy died of the table bad and has the table good instead.
func (w *world) dies(pod string, bad, good int) {
	w.report(pod, fleet.Report{
		Holds: name(bad), Rejected: "suspect",
		Suspects: []fleet.Suspect{{Digest: name(bad).Digest, Proven: name(good).Digest, Deaths: 2, Evidence: "it died", Ago: 1}},
	})
}

// TestSuspectsAreCountedOverTheFleet: two clients confirm a table in a small fleet, 1 % in a large one.
func TestSuspectsAreCountedOverTheFleet(t *testing.T) {
	w := newWorld(fleet.Config{})
	if s := w.Suspects(); len(s) != 0 {
		t.Errorf("%+v before anything happened", s)
	}
	w.dies("p1", 2, 1)
	first := w.now.Add(-time.Second)
	w.now = w.now.Add(time.Second)
	w.report("p3", fleet.Report{Holds: name(2)})
	if s := w.Suspects(); len(s) != 1 || s[0].Confirmed || s[0].Clients != 1 {
		t.Errorf("%+v after one client", s)
	}
	w.dies("p2", 2, 0)
	want := []fleet.SuspectTable{{
		Digest: name(2).Digest, Proven: []table.Digest{name(1).Digest}, Clients: 2, Deaths: 4, Example: "ingress/p1", Evidence: "it died",
		First: first.UTC(), Last: w.now.Add(-time.Second).UTC(), Confirmed: true,
	}}
	if diff := cmp.Diff(want, w.Suspects()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want, w.View().Suspects); diff != "" {
		t.Errorf("/clients (-want +got)\n%s", diff)
	}
	w.Tick()
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP routesrv_suspect_tables Tables of which proxies of live clients probably died, confirmed by several clients or not.
# TYPE routesrv_suspect_tables gauge
routesrv_suspect_tables{confirmed="false"} 0
routesrv_suspect_tables{confirmed="true"} 1
`), "routesrv_suspect_tables"); err != nil {
		t.Error(err)
	}
	for i := range 250 {
		w.report(fmt.Sprintf("other-%d", i), fleet.Report{Holds: name(1)})
	}
	if s := w.Suspects(); len(s) != 1 || s[0].Confirmed {
		t.Errorf("%+v by 2 of 253", s)
	}
	w.dies("other-1", 2, 1)
	if s := w.Suspects(); len(s) != 1 || !s[0].Confirmed {
		t.Errorf("%+v by 3 of 253", s)
	}
	w.report("p1", fleet.Report{Holds: name(3)})
	if s := w.Suspects(); s[0].Clients != 2 {
		t.Errorf("%+v after a client no longer reports it", s)
	}
	w.now = w.now.Add(time.Minute)
	if s := w.Suspects(); len(s) != 0 {
		t.Errorf("%+v of clients that are silent", s)
	}
}

// TestSuspectsOfOneTime: where each read gives another table, proxies die of one flaw in different tables.
func TestSuspectsOfOneTime(t *testing.T) {
	w := newWorld(fleet.Config{})
	confirmed := func(want bool) {
		t.Helper()
		for _, s := range w.Suspects() {
			if s.Confirmed != want || s.Clients != 1 {
				t.Errorf("%+v", s)
			}
		}
	}
	w.report("p1", fleet.Report{Holds: name(4), Suspects: []fleet.Suspect{{Digest: name(2).Digest, Deaths: 2}, {Digest: name(3).Digest, Deaths: 2, Ago: 100}}})
	confirmed(false) // it is one client
	w.report("p2", fleet.Report{Holds: name(4), Suspects: []fleet.Suspect{{Digest: name(5).Digest, Deaths: 2, Ago: 1000}}})
	confirmed(false) // long ago
	w.report("p2", fleet.Report{Holds: name(4), Suspects: []fleet.Suspect{{Digest: name(4).Digest, Deaths: 2, Ago: 90}}})
	confirmed(true)
}

// TestSuspectsOverReplicasAndRelays: each client counts once, and a relay reports for its clients.
func TestSuspectsOverReplicasAndRelays(t *testing.T) {
	a, b, relay := newWorld(fleet.Config{}), newWorld(fleet.Config{}), newWorld(fleet.Config{Relay: true})
	a.dies("p1", 2, 1)
	b.dies("p1", 2, 1)
	b.dies("p2", 2, 1)
	relay.dies("r1", 2, 1)
	relay.dies("r2", 2, 1)
	id := fleet.Identity{Kind: fleet.RelayKind, ID: "relay", Interval: time.Second}.String()
	a.Reported(id, address(9), &fleet.Report{Holds: name(2), Clients: &fleet.Counts{Rejected: 2}, Suspects: relay.SuspectReport()})
	answers := []fleet.Answer{{Address: "10.0.0.2:9911", View: b.View()}, {Address: "10.0.0.3:9911", View: relay.View()}}
	for _, n := range []int{1, 2} { // with and without the details of the relay
		s := fleet.Merge(a.View(), answers[:n], fleet.Query{}).Suspects
		if len(s) != 1 || s[0].Clients != 4 || s[0].Deaths != 8 || !s[0].Confirmed {
			t.Errorf("%+v", s)
		}
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

// TestSuspectsAreBounded: whatever clients report, the list is short, and no report is large.
func TestSuspectsAreBounded(t *testing.T) {
	w := newWorld(fleet.Config{})
	for i := range 200 {
		w.dies(fmt.Sprint(i), 1000+i, 1)
		w.dies(fmt.Sprint("same-", i), 7, 100+i)
	}
	s := w.Suspects()
	if len(s) != 16 || s[0].Clients != 200 || len(s[0].Proven) != 4 {
		t.Errorf("%d tables, first %+v", len(s), s[0])
	}
	if n := len(w.SuspectReport()); n > 4 {
		t.Errorf("a relay reports %d tables", n)
	}
	digest := strings.Repeat("ab", 32)
	for body, ok := range map[string]bool{
		`{"suspects": [{"digest": "` + digest + `", "deaths": 2, "evidence": "it\nhas \u00e9"}]}`: true,
		`{"suspects": [{"digest": "` + digest + `"}]}`:                                            false,
		`{"suspects": [{"deaths": 2}]}`:                                                           false,
		`{"suspects": [{"digest": "` + digest + `", "deaths": 2, "ago_seconds": -1}]}`:            false,
		`{"suspects": [{"digest": "` + digest + `", "deaths": 2, "clients": -1}]}`:                false,
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
