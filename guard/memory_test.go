package guard_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// The default in the documentation.
func TestTheWindowIsTenMinutes(t *testing.T) {
	for at, want := range map[time.Duration]guard.Code{9 * time.Minute: guard.RoutesLost, 11 * time.Minute: ""} {
		r := newRun(t, guard.Config{}, numbered(0, 10))
		r.wants(r.read(time.Second, numbered(0, 6)...), "")
		r.wants(r.read(at, numbered(0, 4)...), want)
	}
}

// Losing one route a second is the same loss as losing all at once.
func TestRoutesThatGoOneByOneAreOneLoss(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 10))
	for left := 9; left >= 5; left-- {
		r.wants(r.read(time.Second, numbered(0, left)...), "")
	}
	r.wants(r.read(time.Second, numbered(0, 4)...), guard.RoutesLost)
}

func TestWhatComesBackIsNotMissing(t *testing.T) {
	r := newRun(t, guard.Config{}, numbered(0, 100))
	r.wants(r.read(time.Second, numbered(40, 100)...), "")
	r.wants(r.read(time.Second, numbered(5, 85)...), "") // 35 are back and 15 others are missing: 20 of 100
}

// A repair may lack some of the earlier routes, because the cluster changes meanwhile.
func TestARepairOfGrowthMayLackALittleOfTheWhole(t *testing.T) {
	for missing, want := range map[int]guard.Code{5: "", 6: guard.RoutesLost} {
		r := newRun(t, guard.Config{}, numbered(0, 100))
		r.wants(r.read(time.Second, numbered(30, 100)...), "")        // a loss
		r.wants(r.read(time.Second, numbered(30, 500)...), "")        // accidental growth
		r.wants(r.read(time.Second, numbered(missing, 100)...), want) // both are repaired
	}
}

// grownAndShrunk is a guard that has seen 100 routes, then 200, then 94 of the first 100 with 46 of the others.
func grownAndShrunk(t *testing.T) *run {
	t.Helper()
	r := newRun(t, guard.Config{MaxLoss: 0.3}, numbered(0, 100))
	r.wants(r.read(time.Second, numbered(0, 200)...), "")
	r.wants(r.read(time.Second, numbered(6, 146)...), "")
	return r
}

// After a return to the earlier routes, those that came and went in between are forgotten, and count neither for nor against.
func TestAfterAReturnWhatHadComeIsForgotten(t *testing.T) {
	for left, want := range map[int]guard.Code{75: "", 70: "", 69: guard.RoutesLost, 60: guard.RoutesLost} {
		r := grownAndShrunk(t)
		r.wants(r.read(time.Second, numbered(0, 100)...), "")
		r.wants(r.read(time.Second, numbered(0, left)...), want)
	}
}

// Nothing counts any more once the window has passed.
func TestAfterTheWindowLossesOfYoungRoutesAreForgotten(t *testing.T) {
	for left, want := range map[int]guard.Code{98: "", 97: guard.RoutesLost} { // of 140
		r := grownAndShrunk(t)
		served := numbered(6, 146)
		r.wants(r.read(2*guard.DefaultWindow, served...), "")
		r.wants(r.read(time.Second, served[:left]...), want)
	}
}

// An acceptance resets the comparison for hosts, too.
func TestAnAcceptedLossOfHostsIsOver(t *testing.T) {
	of := func(hosts int) (routes []string) {
		routes = numbered(100, 200) // without a host
		for i := range hosts {
			routes = append(routes, numbered(i, i+1)[0]+"@h"+numbered(i, i+1)[0])
		}
		return routes
	}
	r := newRun(t, guard.Config{}, of(20))
	r.wants(r.read(time.Second, of(12)...), "")
	few := newTable(t, of(4)...)
	r.wants(r.judge(time.Second, few), guard.HostsLost)
	r.guard.Forgive(few)
	r.served, r.held = few, guard.Held{}
	r.wants(r.read(time.Second, of(3)...), "") // one of four, and not 17 of 20
}

// mixed makes a table of routes with endpoints and routes without.
func mixed(t *testing.T, with, without []string) *table.Table {
	t.Helper()
	var routes []table.Route
	for _, id := range with {
		routes = append(routes, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> "http://10.0.0.1:80";`})
	}
	for _, id := range without {
		routes = append(routes, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> ` + noEndpoints + ";"})
	}
	tab, err := table.New(routes, 1, startTime)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// A route that lost its endpoints and is removed later counts as a lost route, and no longer as a lost backend.
func TestARouteWithoutEndpointsThatGoesIsForgotten(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = mixed(t, numbered(0, 100), nil)
	r.wants(r.judge(time.Second, mixed(t, numbered(40, 100), numbered(0, 40))), "")
	r.wants(r.judge(time.Second, mixed(t, numbered(40, 100), nil)), "")
	r.wants(r.judge(time.Second, mixed(t, numbered(70, 100), numbered(40, 70))), "") // 30 of 60, and not 70 of 100
	r.wants(r.judge(time.Second, mixed(t, numbered(71, 100), numbered(40, 71))), guard.BackendsLost)
}

// The share of lost backends is relative to the routes that have endpoints now, however many had them before.
func TestTheShareOfBackendsIsOfThoseThatAreServed(t *testing.T) {
	for name, next := range map[string]struct{ with, without []string }{
		"routes with endpoints are gone": {numbered(60, 100), numbered(0, 20)},
		"all of them are gone":           {nil, numbered(0, 60)},
	} {
		r := newRun(t, guard.Config{MaxLoss: 1}, nil)
		r.served = mixed(t, numbered(0, 100), nil)
		r.wants(r.judge(time.Second, mixed(t, numbered(20, 100), numbered(0, 20))), "")
		r.wants(r.judge(2*guard.DefaultWindow, mixed(t, next.with, next.without)), "")
		r.wants(r.judge(2*guard.DefaultWindow, mixed(t, numbered(60, 100), next.without)), "")
		r.wants(r.judge(2*guard.DefaultWindow, r.served), "")
		if v := r.judge(time.Second, mixed(t, numbered(81, 100), append(numbered(60, 81), next.without...))); v.Reason != guard.BackendsLost {
			t.Errorf("%s: 21 of 40 lost their endpoints: %+v", name, v)
		}
	}
}

// In one step some services get their endpoints back and as many routes are removed: the former no longer count as missing.
func TestBackendsThatComeBackWhileOthersGoAreNotMissing(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = mixed(t, numbered(0, 100), nil)
	r.wants(r.judge(time.Second, mixed(t, numbered(40, 100), numbered(0, 40))), "")
	kept := append(numbered(40, 60), numbered(80, 100)...)
	r.wants(r.judge(time.Second, mixed(t, append(numbered(0, 20), kept...), numbered(20, 40))), "")
	r.wants(r.judge(time.Second, mixed(t, append(numbered(15, 20), kept...), append(numbered(20, 40), numbered(0, 15)...))), "") // 35 of 80
}

// Texts come from other servers, which may print optional spaces.
func TestSpaceInABackendChangesNothing(t *testing.T) {
	of := func(backend string) *table.Table {
		var routes []table.Route
		for _, id := range numbered(0, 30) {
			routes = append(routes, table.Route{ID: id, Text: id + ": * -> " + backend})
		}
		tab, err := table.New(routes, 1, startTime)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	for _, with := range []string{`"http://10.0.0.1" ;`, `<roundRobin, "http://10.0.0.1" > ;`, `<"http://10.0.0.1">;`} {
		for _, without := range []string{"<shunt>;", "< shunt > ;"} {
			r := newRun(t, guard.Config{}, nil)
			r.served = of(with)
			r.wants(r.judge(time.Second, of(without)), guard.BackendsLost)
		}
	}
}
