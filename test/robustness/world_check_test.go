package robustness

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/test/robustness/faultproxy"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/record"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// TestEveryFaultOfAPlanIsKnown to the package that injects it.
func TestEveryFaultOfAPlanIsKnown(t *testing.T) {
	process := []string{plan.Kill, plan.Freeze, plan.Partition, plan.NoFiles, plan.DiskFull, plan.ReadOnly, plan.Restore}
	known := slices.Concat(faultproxy.Names(), APIFaults(), process)
	for _, name := range plan.Names() {
		if !slices.Contains(known, name) {
			t.Errorf("nobody makes %s", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(plan.Names(), name) {
			t.Errorf("no plan has %s", name)
		}
	}
}

type list struct {
	Kind     string
	Metadata struct{ ResourceVersion string }
	Items    []json.RawMessage
}

func get(t *testing.T, url string) (status int, body []byte, l list) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(body, &l) // some faults make this fail
	return resp.StatusCode, body, l
}

// TestTheAPITreatsEachMemberInItsOwnWay: a fault affects one member, and is recorded.
func TestTheAPITreatsEachMemberInItsOwnWay(t *testing.T) {
	rec := record.New(record.Config{})
	api, err := NewAPI(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	tr := traffic.New(traffic.Config{Seed: 1, Apps: 30})
	for _, w := range tr.Begin() {
		if err := api.Apply(w); err != nil {
			t.Fatal(err)
		}
	}
	var urls [2]string
	for i, m := range []string{"s1", "s2"} {
		if urls[i], err = api.Listen(m, "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	const services, cached = "/api/v1/services", "?resourceVersion=5000&resourceVersionMatch=NotOlderThan"
	for _, c := range []struct {
		fault APIFault
		want  func(status int, body []byte, l list) bool
	}{
		{APIFault{Name: ListEmpty}, func(_ int, _ []byte, l list) bool { return l.Kind == "ServiceList" && len(l.Items) == 0 }},
		{APIFault{Name: ListHalf}, func(_ int, _ []byte, l list) bool { return len(l.Items) > 0 && len(l.Items) < 15 }},
		{APIFault{Name: ListShort}, func(_ int, b []byte, _ list) bool { return !json.Valid(b) && len(b) > 1000 }},
		{APIFault{Name: ListOther}, func(_ int, _ []byte, l list) bool { return l.Kind == "PodList" }},
		{APIFault{Name: APIStatus, Status: 410}, func(status int, _ []byte, _ list) bool { return status == 410 }},
		{APIFault{Name: APIStatus, Status: 410, Path: "ingresses"}, func(_ int, _ []byte, l list) bool { return len(l.Items) == 30 }},
	} {
		end, err := api.Inject("s1", c.fault)
		if err != nil {
			t.Fatal(err)
		}
		if status, body, l := get(t, urls[0]+services+cached); !c.want(status, body, l) {
			t.Errorf("%+v: %d, %d items, %.80s", c.fault, status, len(l.Items), body)
		}
		if _, _, l := get(t, urls[1]+services+cached); len(l.Items) != 30 {
			t.Errorf("%+v of s1: s2 gets %d items", c.fault, len(l.Items))
		}
		end()
		if _, _, l := get(t, urls[0]+services); len(l.Items) != 30 {
			t.Errorf("after %+v: %d items", c.fault, len(l.Items))
		}
	}
	h := rec.End(history.Run{})
	var faults []string
	for _, r := range h.Reads {
		if r.Whole != (r.Fault == "") || r.Fault != "" && r.Member != "s1" {
			t.Errorf("%+v", r)
		}
		if r.Fault != "" {
			faults = append(faults, r.Fault)
		}
	}
	if want := []string{ListEmpty, ListHalf, ListShort, ListOther}; !slices.Equal(faults[:min(4, len(faults))], want) {
		t.Errorf("recorded %q, want %q", faults, want)
	}
	if len(h.Changes) != 90 || h.Changes[89].Revision != h.Changes[0].Revision+89 {
		t.Errorf("%d changes", len(h.Changes))
	}
}
