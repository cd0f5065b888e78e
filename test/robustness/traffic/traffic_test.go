package traffic_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

func sequence(seed uint64, n int) (all []traffic.Write) {
	t := traffic.New(traffic.Config{Seed: seed, Apps: 30, MassEvery: 100, RepairAfter: 60})
	all = t.Begin()
	for range n {
		all = append(all, t.Next()...)
	}
	return append(all, t.End()...)
}

func TestASeedGivesOneSequence(t *testing.T) {
	a := sequence(3, 2000)
	if diff := cmp.Diff(a, sequence(3, 2000)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(a, sequence(4, 2000)) {
		t.Error("another seed gives the same")
	}
	classes := make(map[string]int)
	for _, w := range a {
		classes[w.Class]++
	}
	for _, c := range []string{traffic.Valid, traffic.Invalid, traffic.Poison, traffic.Mass, traffic.Repair, traffic.Endpoint} {
		if classes[c] == 0 {
			t.Errorf("nothing is %s: %v", c, classes)
		}
	}
}

// TestObjectsAreWhatTheAPIWouldStore: they can be decoded, and have the names that they are written under.
func TestObjectsAreWhatTheAPIWouldStore(t *testing.T) {
	for _, w := range sequence(5, 1000) {
		if w.Object == "" {
			continue
		}
		o, err := kube.DecodeJSON(kube.Kind(w.Kind), []byte(w.Object))
		if err != nil {
			t.Fatalf("%v: %v", w.Key, err)
		}
		if ref := o.Ref(); ref.Name != w.Name || ref.Namespace != w.Namespace || string(ref.Kind) != w.Kind {
			t.Fatalf("%v says that it is %v", w.Key, ref)
		}
	}
}

// TestEndLeavesEverythingValid: the last write of each object is a repair, or deleted it, or it belongs to a guest, and the
// marker exists.
func TestEndLeavesEverythingValid(t *testing.T) {
	last := make(map[traffic.Key]traffic.Write)
	for _, w := range sequence(6, 1500) {
		last[w.Key] = w
	}
	marked := 0
	for k, w := range last {
		if w.Object != "" && (w.Class == traffic.Invalid || w.Class == traffic.Poison || w.Class == traffic.Mass) {
			t.Errorf("%v is left %s", k, w.Class)
		}
		if strings.Contains(w.Object, traffic.New(traffic.Config{Seed: 6}).Marker()) {
			marked++
		}
	}
	if marked != 1 {
		t.Errorf("%d objects have the marker", marked)
	}
}

// TestRepairBringsBackWhatWasTaken, unless it has been created again, but no guest that has left.
func TestRepairBringsBackWhatWasTaken(t *testing.T) {
	tr := traffic.New(traffic.Config{Seed: 8, Apps: 30, MassEvery: 50, RepairAfter: 40})
	state := make(map[traffic.Key]string)
	for _, w := range tr.Begin() {
		state[w.Key] = w.Object
	}
	repairs := 0
	for range 3000 {
		for _, w := range tr.Next() {
			if _, there := state[w.Key]; w.Class == traffic.Repair && there && state[w.Key] != "" {
				t.Fatalf("%v is repaired, and was there", w.Key)
			}
			if w.Class == traffic.Repair {
				repairs++
			}
			state[w.Key] = w.Object
		}
		for k, text := range tr.State() {
			if state[k] != text {
				t.Fatalf("%v: the state of the traffic is another one", k)
			}
		}
	}
	if repairs == 0 {
		t.Error("nothing was repaired")
	}
}
