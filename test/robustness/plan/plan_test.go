package plan_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/test/robustness/plan"
)

var size = plan.Size{
	Storm: time.Minute, Servers: 3, Relays: 1, Sidecars: 4, Pollers: 10, Deltas: 4, Streams: 4, Every: 200 * time.Millisecond,
}

func TestASeedGivesOnePlan(t *testing.T) {
	a, b := plan.New(7, size), plan.New(7, size)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(a.Faults, plan.New(8, size).Faults) {
		t.Error("another seed gives the same faults")
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := plan.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, loaded); diff != "" {
		t.Error(diff)
	}
}

// TestPlansHaveEveryFault: over some seeds, every fault, every point of a kill, and every way to read and to fetch.
func TestPlansHaveEveryFault(t *testing.T) {
	names, points := make(map[string]bool), make(map[string]bool)
	for seed := range uint64(40) {
		p := plan.New(seed, size)
		links := p.Links()
		for _, f := range p.Faults {
			names[f.Name] = true
			if f.Name == plan.Kill {
				points[f.Point] = true
			}
			if _, member := p.Member(f.Link); !member && !slices.Contains(links, f.Link) && f.Link != plan.APIName {
				t.Errorf("seed %d: %s on %s, which does not exist", seed, f.Name, f.Link)
			}
			if f.From+f.For > p.Storm {
				t.Errorf("seed %d: %s outlives the storm", seed, f.Name)
			}
		}
	}
	for _, name := range plan.Names() {
		if !names[name] {
			t.Errorf("no plan has %s", name)
		}
	}
	for _, point := range plan.Points() {
		if !points[point] {
			t.Errorf("no plan kills at %q", point)
		}
	}
}

// TestARestoreIsSeen: no member is cut off while the API is restored, so that all can detect it.
func TestARestoreIsSeen(t *testing.T) {
	restores := 0
	for seed := range uint64(20) {
		p := plan.New(seed, size)
		for _, r := range p.Faults {
			if r.Name != plan.Restore {
				continue
			}
			restores++
			for _, f := range p.Faults {
				if f.Name != plan.Restore && f.From < r.From+4*time.Second && f.From+f.For > r.From {
					t.Errorf("seed %d: %s on %s from %v for %v, and a restore at %v", seed, f.Name, f.Link, f.From, f.For, r.From)
				}
			}
		}
	}
	if restores == 0 {
		t.Error("no restore in any plan")
	}
}
