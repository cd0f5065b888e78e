package gate_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// lanes is a compiler that records which lanes exist. Tables of an intent that is served come from the lane of that intent.
type lanes struct {
	of    map[*kube.Ingress]*table.Table // by the first Ingress of the intent
	alive []gate.Lane
}

func (l *lanes) CompileHalves(lane gate.Lane, i *kube.Intent, _ *kube.Backends, _ table.List) table.List {
	if !slices.Contains(l.alive, lane) {
		l.alive = append(l.alive, lane)
	}
	return l.of[i.Ingresses[0]].Routes()
}

func (l *lanes) Keep(before, _ *kube.Backends) *kube.Backends { return before }

func (l *lanes) Drop(lane gate.Lane) {
	l.alive = slices.DeleteFunc(l.alive, func(a gate.Lane) bool { return a == lane })
}

// TestLanesLiveAsLongAsTheyAreNeeded: what is compiled for a hold uses memory, and is released with the hold.
func TestLanesLiveAsLongAsTheyAreNeeded(t *testing.T) {
	l := &lanes{of: make(map[*kube.Ingress]*table.Table)}
	g, err := gate.New(gate.Config{Sink: gate.Each(func(*table.Table) {}), Halves: l})
	if err != nil {
		t.Fatal(err)
	}
	offer := func(n int, revision uint64) gate.Outcome {
		t.Helper()
		c := offered(tableOf(t, n, revision))
		ing := &kube.Ingress{}
		l.of[ing] = c.Table
		c.Snapshot = &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ing}}}
		o := g.Begin().Offer(c)
		return o
	}
	alive := func(what string, want ...gate.Lane) {
		t.Helper()
		if !slices.Equal(l.alive, want) {
			t.Errorf("%s: lanes %v, want %v", what, l.alive, want)
		}
	}
	offer(100, 1)
	alive("a table is served")
	if o := offer(10, 2); o.Result != gate.Held || g.State().Half != guard.HeldIntent {
		t.Fatalf("outcome %+v, state %+v: want the intent held", o, g.State())
	}
	alive("the intent is held", gate.OldIntent)
	l.alive = append(l.alive, gate.OldBoth) // as an earlier read may have needed it
	offer(11, 3)
	alive("one lane is enough", gate.OldIntent)
	if o := offer(100, 4); o.Result != gate.Unchanged {
		t.Fatalf("outcome %+v", o)
	}
	alive("the hold is over")
}

// A folder that cannot be created is reported at the start, and not when the first table is to be written.
func TestFolderThatCannotBeMadeIsToldAtTheStart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := fileGate(t, gate.FileConfig{Path: filepath.Join(folder, "table.eskip"), MakeFolder: true})
	g.Boot(1<<20, nil)
	if f := g.Files()[0]; f.Error == "" || g.Served() != nil {
		t.Errorf("the status is %+v, want an error", f)
	}
}
