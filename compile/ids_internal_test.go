package compile

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
)

// Hashes of ids may be equal by chance. Then each id has its own contest, and no route is left out.
func TestEqualHashesOfIDsLeaveNoRouteOut(t *testing.T) {
	c, err := New(rules.Options{HTTPSRedirect: true, Healthcheck: true})
	if err != nil {
		t.Fatal(err)
	}
	s := newState(c.set, c.fixed)
	s.fixed.routes = slices.Clone(s.fixed.routes)
	var all []claim
	for i := range s.fixed.routes {
		s.fixed.routes[i].ID = 7
		all = append(all, claim{s.fixed, i})
	}
	load(s.ids, all, func(r *rules.Route) uint64 { return r.ID })
	var texts rules.Texts
	if first := s.contestOf(7, &texts); first != nil {
		s.contests.Set(first)
		if problems := first.problems(&texts); len(problems) > 0 {
			t.Error(problems)
		}
	}
	if len(all) < 3 {
		t.Fatalf("%d routes", len(all))
	}
	for _, one := range all {
		if !s.has(one) {
			t.Errorf("%s is left out", texts.ID(s.fixed.unit, one.route()))
		}
	}
}
