package robustness_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
)

// TestShrinkFindsWhatItTakes: a failure that needs two faults and one client is reduced to these, and the client's upstreams.
func TestShrinkFindsWhatItTakes(t *testing.T) {
	p := plan.New(11, size(time.Minute, 11))
	link := plan.Link("p7", mustMember(t, p, "p7").Upstreams[0])
	p.Faults = append(p.Faults, plan.Fault{Name: "cut", Link: link, From: time.Second}, plan.Fault{Name: "freeze", Link: "s1", From: 2 * time.Second})
	runs := 0
	needed := func(_ context.Context, p *plan.Plan) bool {
		runs++
		has := func(name, link string) bool {
			return slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Name == name && f.Link == link })
		}
		_, client := p.Member("p7")
		return has("cut", link) && has("freeze", "s1") && client
	}
	small := robustness.Shrink(t.Context(), p, needed)
	if len(small.Faults) != 2 || len(small.Steps) != 0 {
		t.Errorf("left: %d faults %+v, %d steps", len(small.Faults), small.Faults, len(small.Steps))
	}
	for _, m := range small.Members {
		if m.Kind != history.Server && m.Name != "p7" && m.Name != "r1" {
			t.Errorf("%s is left", m.Name)
		}
	}
	t.Logf("%d runs", runs)
}

// TestShrinkEndsWithItsContext and returns its result so far.
func TestShrinkEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	p := plan.New(11, size(time.Minute, 11))
	small := robustness.Shrink(ctx, p, func(context.Context, *plan.Plan) bool {
		if runs++; runs == 3 {
			cancel()
		}
		return true
	})
	if runs != 3 || small == nil {
		t.Errorf("%d runs", runs)
	}
}

func mustMember(t *testing.T, p *plan.Plan, name string) history.Member {
	t.Helper()
	m, ok := p.Member(name)
	if !ok {
		t.Fatalf("no member %s", name)
	}
	return m
}
