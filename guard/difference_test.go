package guard_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// routeGroups are RouteGroups with two routes each.
func routeGroups(prefix string, from, to int) (c definitions) {
	for i := from; i < to; i++ {
		for j := range 2 {
			c.Add(fmt.Sprintf("kube_rg__shop__%s_%d__all__%d_0", prefix, i, j), fmt.Sprintf("%s-%d[.]example[.]org", prefix, i),
				fmt.Sprintf(`PathSubtree("/%d")`, j), alive)
		}
	}
	return c
}

func join(parts ...definitions) definitions { return slices.Concat(parts...) }

// TestNewNamesForTheSameRequestsAreNoLoss: requests notice hosts and paths with a backend, not the names of objects and services.
func TestNewNamesForTheSameRequestsAreNoLoss(t *testing.T) {
	served := join(ingressRoutes("app", 0, 40, alive), routeGroups("group", 0, 30))
	for name, next := range map[string]definitions{
		"Ingresses are renamed":  join(ingressRoutes("blue-app", 0, 40, `"http://10.9.9.9:80"`), routeGroups("group", 0, 30)),
		"RouteGroups become one": join(ingressRoutes("app", 0, 40, alive), merged("group", 0, 30)),
	} {
		for _, c := range []guard.Config{{}, {MaxLoss: 0.01, MaxBackendLoss: 0.01}} {
			r := newRun(t, c, nil)
			r.served = served.Table(t)
			if v := r.judge(time.Second, valid(next).Table(t)); v.Reason != "" {
				t.Errorf("%s: %+v", name, v)
			}
			if v := r.judge(time.Second, valid(next[:len(next)/5]).Table(t)); v.Reason == "" {
				t.Errorf("%s: afterwards, four fifths may be lost", name)
			}
		}
	}
}

// merged is one RouteGroup for the requests of many.
func merged(prefix string, from, to int) definitions {
	all := routeGroups(prefix, from, to)
	for i := range all {
		id := fmt.Sprintf("kube_rg__shop__one__all__%d_0", i)
		all[i].Text, all[i].ID = id+all[i].Text[len(all[i].ID):], id
	}
	return all
}

// valid replaces what an id cannot have.
func valid(c definitions) definitions {
	out := slices.Clone(c)
	for i := range out {
		id := []byte(out[i].ID)
		for j := range id {
			if id[j] == '-' {
				id[j] = '_'
			}
		}
		out[i].Text, out[i].ID = string(id)+out[i].Text[len(id):], string(id)
	}
	return out
}

// TestNewNamesWithoutEndpointsLoseThem: what is renamed and has no endpoints yet answers with an error.
func TestNewNamesWithoutEndpointsLoseThem(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = ingressRoutes("app", 0, 40, alive).Table(t)
	v := r.judge(time.Second, ingressRoutes("new", 0, 40, noEndpoints).Table(t))
	r.wants(v, guard.BackendsLost)
	if want := "80 of 80 pairs of host and path with endpoints lost all endpoints (100.0 %, limit 50.0 %)"; v.Detail != want {
		t.Errorf("got %q", v.Detail)
	}
	for alives, missing := range map[int]int{30: 20, 40: 0} {
		l := r.guard.Judge(r.served, join(ingressRoutes("new", 0, alives, alive), ingressRoutes("new", alives, 40, noEndpoints)).Table(t), r.held, r.now)
		if r.wants(l, ""); l.Missing([]guard.Code{guard.BackendsLost}) != missing || l.Missing([]guard.Code{guard.RoutesLost}) != 0 {
			t.Errorf("%d have endpoints: %d are missing, want %d", alives, l.Missing([]guard.Code{guard.BackendsLost}), missing)
		}
	}
}

// TestAnotherPathModeLosesNothing: the same paths are spelled as another predicate, and their ids change.
func TestAnotherPathModeLosesNothing(t *testing.T) {
	of := func(predicate string) *table.Table {
		var c definitions
		for i := range 30 {
			c.Add(fmt.Sprintf("kube_shop__m%d_%d__h__p__s", len(predicate), i), "www[.]example[.]org", fmt.Sprintf(predicate, i), alive)
		}
		return c.Table(t)
	}
	for _, next := range []string{`PathSubtree("/app/%d/")`, `PathRegexp(/^(\/app\/%d)/)`, `PathRegexp("^/app/%d")`} {
		r := newRun(t, guard.Config{}, nil)
		r.served = of(`Path("/app/%d")`)
		r.wants(r.judge(time.Second, of(next)), "")
	}
	r := newRun(t, guard.Config{}, nil)
	r.served = of(`Path("/app/%d")`)
	r.wants(r.judge(time.Second, of(`Path("/{{ app }}/%d")`)), guard.RoutesLost)
}

func TestAKindIsLost(t *testing.T) {
	apps, groups := ingressRoutes("app", 0, 50, alive), routeGroups("group", 0, 30)
	for _, test := range []struct {
		name         string
		cfg          guard.Config
		served, next definitions
		detail       string
	}{
		{"all of 30", guard.Config{}, join(apps, groups), apps, "30 of 30 RouteGroups are missing (100.0 %, limit 50.0 %)"},
		{"more than half", guard.Config{}, join(apps, groups), join(apps, groups[:20]), "20 of 30 RouteGroups are missing (66.7 %, limit 50.0 %)"},
		{"fewer than 20 objects", guard.Config{}, join(apps, groups), join(apps, groups[:22]), ""},
		{"a lower limit", guard.Config{MaxLoss: 0.2}, join(apps, routeGroups("group", 0, 90)), join(apps, routeGroups("group", 0, 70)), "20 of 90 RouteGroups are missing (22.2 %, limit 20.0 %)"},
		{"all of 20", guard.Config{}, join(apps, groups[:40]), apps, "20 of 20 RouteGroups are missing (100.0 %, limit 50.0 %)"},
		{"all of 19", guard.Config{}, join(apps, groups[:38]), apps, ""},
		{"Ingresses", guard.Config{}, join(apps[:80], routeGroups("group", 0, 200)), routeGroups("group", 0, 200), "20 of 20 Ingresses are missing (100.0 %, limit 50.0 %)"},
		{"rule off", guard.Config{MaxLoss: 1}, join(apps, groups), apps, ""},
		{"requests that others answer", guard.Config{}, join(apps, groups), join(apps, takenOver("group", 0, 30)), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRun(t, test.cfg, nil)
			r.served = test.served.Table(t)
			v := r.judge(time.Second, test.next.Table(t))
			want := guard.KindLost
			if test.detail == "" {
				want = ""
			}
			r.wants(v, want)
			if v.Detail != test.detail {
				t.Errorf("got %q", v.Detail)
			}
		})
	}
	t.Run("in steps", func(t *testing.T) {
		r := newRun(t, guard.Config{}, nil)
		r.served = join(apps, groups).Table(t)
		r.wants(r.judge(time.Second, join(apps, groups[:30]).Table(t)), "")
		r.wants(r.judge(time.Second, join(apps, groups[:22]).Table(t)), "")
		r.wants(r.judge(time.Second, join(apps, groups[:20]).Table(t)), guard.KindLost)
	})
	t.Run("behind as many new ones", func(t *testing.T) {
		r := newRun(t, guard.Config{}, nil)
		r.served = join(apps, groups).Table(t)
		r.wants(r.judge(time.Second, join(apps, groups, routeGroups("junk", 0, 40)).Table(t)), "")
		r.wants(r.judge(time.Second, join(apps, routeGroups("junk", 0, 40)).Table(t)), guard.KindLost)
	})
}

// takenOver are Ingresses that answer the requests of RouteGroups.
func takenOver(prefix string, from, to int) definitions {
	all := routeGroups(prefix, from, to)
	for i := range all {
		id := fmt.Sprintf("kube_shop__moved_%d__h__p__s", i)
		all[i].Text, all[i].ID = id+all[i].Text[len(all[i].ID):], id
	}
	return all
}

// TestAdditionsDoNotHideALoss: more was added than had been there, and then all that had been there is deleted.
func TestAdditionsDoNotHideALoss(t *testing.T) {
	old, junk := ingressRoutes("app", 0, 100, alive), ingressRoutes("junk", 1000, 1110, alive)
	r := newRun(t, guard.Config{}, nil)
	r.served = old.Table(t)
	r.wants(r.judge(time.Second, join(old, junk).Table(t)), "")
	for range 3 {
		r.wants(r.judge(time.Second, junk.Table(t)), guard.RoutesLost)
	}
	r.wants(r.judge(time.Second, join(old, junk).Table(t)), "")
	r.wants(r.judge(time.Second, old.Table(t)), "")
}

// TestCustomRoutesAreNoObjects: the id of a custom route has its name and that of its Ingress in one. Two teams that drop custom routes
// while an accident is going on have lost no object, and what they drop is their decision up to the usual share.
func TestCustomRoutesAreNoObjects(t *testing.T) {
	full := ingressRoutes("app", 0, 20, alive)
	plain := len(full)
	for i := range 10 {
		for _, name := range []string{"app-1", "app-2"} {
			path := fmt.Sprintf("/old-%d", i)
			full.Add(routeid.Custom("shop", name, "old-"+name, i, name+".example.org", path), name+"[.]example[.]org", `PathSubtree("`+path+`")`, alive)
		}
	}
	g := newGuard(t, guard.Config{})
	keeping := guard.Held{Since: startTime, Ongoing: true}
	if l := g.Judge(full.Table(t), full[:plain].Table(t), keeping, startTime.Add(time.Second)); l.Reason != "" || l.Requests() < 20 {
		t.Errorf("%d requests are lost: %s, %s", l.Requests(), l.Reason, l.Detail)
	}
	if l := g.Judge(full.Table(t), full[12:plain].Table(t), keeping, startTime.Add(2*time.Second)); l.Reason == "" {
		t.Error("the loss of several objects is not noticed while an accident is going on")
	}
}

// TestWhatOneObjectGivesUpIsNoLoss: in a cluster of a few objects, a new path of one is a large share of all requests. Its team wants it.
func TestWhatOneObjectGivesUpIsNoLoss(t *testing.T) {
	moved := func(ids string, paths ...string) (c definitions) {
		for i, path := range paths {
			c.Add(fmt.Sprintf(ids, i), "shop[.]example[.]org", fmt.Sprintf("PathSubtree(%q)", path), alive)
		}
		return c
	}
	const byPath, byNumber = "kube_shop__web_app__shop_example_org___%d__s", "kube_rg__shop__web_app__all__%d_0"
	later := moved("kube_shop__web_app__shop_example_org___new_%d__s", "/two")
	other := moved("kube_shop__cart_app__shop_example_org___%d__s", "/cart")
	for name, tt := range map[string]struct {
		before, after definitions
		want          guard.Code
	}{
		"an Ingress with another path":        {moved(byPath, "/one"), later, ""},
		"an Ingress that lost two of three":   {moved(byPath, "/one", "/two", "/three"), moved(byPath, "/one"), ""},
		"a RouteGroup, whose ids stay":        {moved(byNumber, "/one", "/two"), moved(byNumber, "/three", "/four"), ""},
		"an Ingress beside another":           {join(moved(byPath, "/one", "/two"), other), join(later, other), ""},
		"an Ingress that is deleted":          {join(moved(byPath, "/one", "/two"), other), other, guard.RoutesLost},
		"two Ingresses with another path":     {join(moved(byPath, "/one"), other), join(later, moved("kube_shop__cart_app__shop_example_org___new_%d__s", "/basket")), guard.RoutesLost},
		"one with another path, one deleted":  {join(moved(byPath, "/one"), other), later, guard.RoutesLost},
		"routes that no object of ours makes": {moved("mine_%d", "/one", "/two"), moved("mine_%d", "/three"), guard.RoutesLost},
	} {
		g, err := guard.New(guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		served := tt.before.Table(t)
		g.Judge(served, served, guard.Held{}, startTime)
		if l := g.Judge(served, tt.after.Table(t), guard.Held{}, startTime.Add(time.Second)); l.Reason != tt.want {
			t.Errorf("%s: %q, %s, want %q", name, l.Reason, l.Detail, tt.want)
		}
	}
}
