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

// cluster is a table as the compiler makes it: definitions by id.
type cluster []table.Route

// add adds a route of an id for a host and a predicate on the path.
func (c *cluster) add(id, host, path, backend string) {
	*c = append(*c, table.Route{ID: id, Hosts: "^(" + host + ")$",
		Text: fmt.Sprintf("%s: Host(/^(%s)$/) && %s -> %s;", id, host, path, backend)})
}

func (c cluster) table(t testing.TB) *table.Table {
	t.Helper()
	tab, err := table.New(c, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

const alive = `"http://10.0.0.1:80"`

// ingresses are the Ingresses from to to-1 of a team, each with two paths, the redirect of one and a catch-all.
func ingresses(prefix string, from, to int, backend string) (c cluster) {
	for i := from; i < to; i++ {
		host := fmt.Sprintf("app-%d[.]example[.]org", i)
		id := fmt.Sprintf("kube_shop__%s_%d__app_%d_example_org__", prefix, i, i)
		c.add(id+"__s", host, `PathSubtree("/")`, backend)
		c.add(id+"_api__s", host, `PathSubtree("/api")`, backend)
		c.add(id+"_api__s_https_redirect", host, `PathSubtree("/api") && Header("X-Forwarded-Proto", "http")`, `redirectTo(308, "https:") -> <shunt>`)
		c.add(fmt.Sprintf("kube___catchall__app_%d____", i), host, `Path("/")`, `<shunt>`)
	}
	return c
}

// routeGroups are RouteGroups with two routes each.
func routeGroups(prefix string, from, to int) (c cluster) {
	for i := from; i < to; i++ {
		for j := range 2 {
			c.add(fmt.Sprintf("kube_rg__shop__%s_%d__all__%d_0", prefix, i, j), fmt.Sprintf("%s-%d[.]example[.]org", prefix, i),
				fmt.Sprintf(`PathSubtree("/%d")`, j), alive)
		}
	}
	return c
}

func join(parts ...cluster) cluster { return slices.Concat(parts...) }

// TestNewNamesForTheSameRequestsAreNoLoss: requests notice hosts and paths with a backend, not the names of objects and services.
func TestNewNamesForTheSameRequestsAreNoLoss(t *testing.T) {
	served := join(ingresses("app", 0, 40, alive), routeGroups("group", 0, 30))
	for name, next := range map[string]cluster{
		"Ingresses are renamed":  join(ingresses("blue-app", 0, 40, `"http://10.9.9.9:80"`), routeGroups("group", 0, 30)),
		"RouteGroups become one": join(ingresses("app", 0, 40, alive), merged("group", 0, 30)),
	} {
		for _, c := range []guard.Config{{}, {Namespaces: true}, {MaxLoss: 0.01, MaxBackendLoss: 0.01}} {
			r := newRun(t, c, nil)
			r.served = served.table(t)
			if v := r.judge(time.Second, next.valid().table(t)); v.Reason != "" {
				t.Errorf("%s: %+v", name, v)
			}
			if v := r.judge(time.Second, next[:len(next)/5].valid().table(t)); v.Reason == "" {
				t.Errorf("%s: afterwards, four fifths may be lost", name)
			}
		}
	}
}

// merged is one RouteGroup for the requests of many.
func merged(prefix string, from, to int) cluster {
	all := routeGroups(prefix, from, to)
	for i := range all {
		id := fmt.Sprintf("kube_rg__shop__one__all__%d_0", i)
		all[i].Text, all[i].ID = id+all[i].Text[len(all[i].ID):], id
	}
	return all
}

// valid replaces what an id cannot have.
func (c cluster) valid() cluster {
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
	r.served = ingresses("app", 0, 40, alive).table(t)
	v := r.judge(time.Second, ingresses("new", 0, 40, noEndpoints).table(t))
	r.wants(v, guard.BackendsLost)
	if want := "80 of 80 pairs of host and path with endpoints lost all endpoints (100.0 %, limit 50.0 %)"; v.Detail != want {
		t.Errorf("got %q", v.Detail)
	}
	r.wants(r.judge(time.Second, join(ingresses("new", 0, 30, alive), ingresses("new", 30, 40, noEndpoints)).table(t)), guard.BackendsLost)
	r.wants(r.judge(time.Second, ingresses("new", 0, 40, alive).table(t)), "")
}

// TestANamespaceThatMovesIsNotLost: all objects get another namespace. One that is deleted is lost, also if somebody else answers the
// same requests, and comes back as a whole.
func TestANamespaceThatMovesIsNotLost(t *testing.T) {
	of := func(namespace string, n int) (c cluster) {
		for i := range n {
			c.add(fmt.Sprintf("kube_%s__app_%d__h__p__s", namespace, i), fmt.Sprintf("app-%d[.]example[.]org", i), `PathSubtree("/")`, alive)
		}
		return c
	}
	rest := ingresses("app", 100, 400, alive)
	r := newRun(t, guard.Config{Namespaces: true}, nil)
	r.served = join(of("team", 30), rest).table(t)
	r.wants(r.judge(time.Second, join(of("moved", 30), rest).table(t)), "")

	r = newRun(t, guard.Config{Namespaces: true}, nil)
	r.served = join(of("team", 30), of("other", 30), rest).table(t)
	r.wants(r.judge(time.Second, join(of("other", 30), rest).table(t)), guard.NamespaceLost)
	r.wants(r.judge(time.Second, join(of("team", 29), of("other", 30), rest).table(t)), guard.NamespaceLost)
	r.wants(r.judge(time.Second, join(of("team", 30), of("other", 30), rest).table(t)), "")
}

// TestAnotherPathModeLosesNothing: the same paths are spelled as another predicate, and their ids change.
func TestAnotherPathModeLosesNothing(t *testing.T) {
	of := func(predicate string) *table.Table {
		var c cluster
		for i := range 30 {
			c.add(fmt.Sprintf("kube_shop__m%d_%d__h__p__s", len(predicate), i), "www[.]example[.]org", fmt.Sprintf(predicate, i), alive)
		}
		return c.table(t)
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
	apps, groups := ingresses("app", 0, 50, alive), routeGroups("group", 0, 30)
	for _, test := range []struct {
		name         string
		cfg          guard.Config
		served, next cluster
		detail       string
	}{
		{"all of 30", guard.Config{}, join(apps, groups), apps, "30 of 30 RouteGroups are gone (100.0 %, limit 90.0 %)"},
		{"nine tenths", guard.Config{}, join(apps, groups), join(apps, groups[:6]), "27 of 30 RouteGroups are gone (90.0 %, limit 90.0 %)"},
		{"less than nine tenths", guard.Config{}, join(apps, groups), join(apps, groups[:8]), ""},
		{"all of 20", guard.Config{}, join(apps, groups[:40]), apps, "20 of 20 RouteGroups are gone (100.0 %, limit 90.0 %)"},
		{"all of 19", guard.Config{}, join(apps, groups[:38]), apps, ""},
		{"Ingresses", guard.Config{}, join(apps[:80], routeGroups("group", 0, 200)), routeGroups("group", 0, 200), "20 of 20 Ingresses are gone (100.0 %, limit 90.0 %)"},
		{"rule off", guard.Config{MaxLoss: 1}, join(apps, groups), apps, ""},
		{"requests that others answer", guard.Config{}, join(apps, groups), join(apps, takenOver("group", 0, 30)), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRun(t, test.cfg, nil)
			r.served = test.served.table(t)
			v := r.judge(time.Second, test.next.table(t))
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
		r.served = join(apps, groups).table(t)
		r.wants(r.judge(time.Second, join(apps, groups[:30]).table(t)), "")
		r.wants(r.judge(time.Second, join(apps, groups[:10]).table(t)), "")
		r.wants(r.judge(time.Second, join(apps, groups[:6]).table(t)), guard.KindLost)
	})
	t.Run("behind as many new ones", func(t *testing.T) {
		r := newRun(t, guard.Config{}, nil)
		r.served = join(apps, groups).table(t)
		r.wants(r.judge(time.Second, join(apps, groups, routeGroups("junk", 0, 40)).table(t)), "")
		r.wants(r.judge(time.Second, join(apps, routeGroups("junk", 0, 40)).table(t)), guard.KindLost)
	})
}

// takenOver are Ingresses that answer the requests of RouteGroups.
func takenOver(prefix string, from, to int) cluster {
	all := routeGroups(prefix, from, to)
	for i := range all {
		id := fmt.Sprintf("kube_shop__moved_%d__h__p__s", i)
		all[i].Text, all[i].ID = id+all[i].Text[len(all[i].ID):], id
	}
	return all
}

// TestAdditionsDoNotHideALoss: more was added than had been there, and then all that had been there is deleted.
func TestAdditionsDoNotHideALoss(t *testing.T) {
	old, junk := ingresses("app", 0, 100, alive), ingresses("junk", 1000, 1110, alive)
	r := newRun(t, guard.Config{}, nil)
	r.served = old.table(t)
	r.wants(r.judge(time.Second, join(old, junk).table(t)), "")
	for range 3 {
		r.wants(r.judge(time.Second, junk.table(t)), guard.RoutesLost)
	}
	r.wants(r.judge(time.Second, join(old, junk).table(t)), "")
	r.wants(r.judge(time.Second, old.table(t)), "")
}

// TestARestoreIsNotPublishedInParts: what is deleted and applied again in steps of one percent is published when all of it is back,
// whatever reason the hold began with.
func TestARestoreIsNotPublishedInParts(t *testing.T) {
	const size = 100
	full := ingresses("app", 0, size, alive)
	generated := cluster{{ID: "kube__redirect", Text: `kube__redirect: Path("/") -> <shunt>;`}}
	for name, begin := range map[string]cluster{"empty": nil, "only generated": generated, "a tenth is left": append(full[:4*size/10:4*size/10], generated...)} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, guard.Config{}, nil)
			r.served = join(full, generated).table(t)
			first := r.judge(time.Second, begin.table(t))
			if first.Publish {
				t.Fatalf("%+v", first)
			}
			for back := size / 10; back < size; back++ {
				v := r.judge(time.Minute, join(full[:4*back], generated).table(t)) // longer than a hold, altogether
				if v.Publish || v.Reason != first.Reason {
					t.Fatalf("%d of %d are back: %+v", back, size, v)
				}
				if never := first.ReleaseAt.IsZero(); never != v.ReleaseAt.IsZero() && back < size*95/100 {
					t.Fatalf("%d of %d are back: released at %v, the hold began with %v", back, size, v.ReleaseAt, first.ReleaseAt)
				}
			}
			r.wants(r.judge(time.Second, join(full, generated).table(t)), "")
		})
	}
}

// TestARestoreThatLacksLittleIsReleasedByTime: somebody deleted an object for good while everything was gone.
func TestARestoreThatLacksLittleIsReleasedByTime(t *testing.T) {
	full := ingresses("app", 0, 100, alive)
	for name, begin := range map[string]cluster{"empty": nil, "lost": full[:100]} {
		r := newRun(t, guard.Config{}, nil)
		r.served = full.table(t)
		r.judge(time.Second, begin.table(t))
		v := r.judge(20*time.Minute-time.Second, full[4:].table(t))
		if v.Publish || !v.ReleaseAt.Equal(r.now.Add(guard.DefaultHold)) {
			t.Fatalf("%s: %+v", name, v)
		}
		if v := r.judge(guard.DefaultHold, full[4:].table(t)); !v.Publish || v.Reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestWhatAnObjectNoLongerWantsNeedNotComeBack: an object came back in another version, under another path.
func TestWhatAnObjectNoLongerWantsNeedNotComeBack(t *testing.T) {
	full := ingresses("app", 0, 100, alive)
	custom := routeid.Custom("shop", "app-1", "old-api", 0, "app-1.example.org", "/old")
	full.add(custom, "app-1[.]example[.]org", `PathSubtree("/old")`, alive)
	for name, test := range map[string]struct {
		without []int // routes that do not come back
		want    guard.Code
	}{
		"a path of an object that exists": {[]int{1, 2}, ""},
		"an object":                       {[]int{0, 1, 2, 3}, guard.RoutesLost},
		"a custom route":                  {[]int{len(full) - 1}, ""},
		"a catch-all":                     {[]int{3}, ""},
	} {
		r := newRun(t, guard.Config{}, nil)
		r.served = full.table(t)
		r.wants(r.judge(time.Second, full[:40].table(t)), guard.RoutesLost)
		back := slices.Clone(full)
		for _, i := range slices.Backward(test.without) {
			back = slices.Delete(back, i, i+1)
		}
		if v := r.judge(time.Second, back.table(t)); v.Reason != test.want {
			t.Errorf("%s: %+v, want %q", name, v, test.want)
		}
	}
}

// TestCustomRoutesAreNoObjects: the id of a custom route has its name and that of its Ingress in one. Two teams that drop custom routes
// while objects are kept have lost no object, and what they drop is their decision up to the usual share.
func TestCustomRoutesAreNoObjects(t *testing.T) {
	full := ingresses("app", 0, 20, alive)
	plain := len(full)
	for i := range 10 {
		for _, name := range []string{"app-1", "app-2"} {
			path := fmt.Sprintf("/old-%d", i)
			full.add(routeid.Custom("shop", name, "old-"+name, i, name+".example.org", path), name+"[.]example[.]org", `PathSubtree("`+path+`")`, alive)
		}
	}
	g := newGuard(t, guard.Config{})
	g.Keeping(start)
	if l := g.Compare(full.table(t), full[:plain].table(t), start.Add(time.Second)); l.Reason != "" || l.Requests() < 20 {
		t.Errorf("%d requests are lost: %s, %s", l.Requests(), l.Reason, l.Detail)
	}
	if l := g.Compare(full.table(t), full[12:plain].table(t), start.Add(2*time.Second)); l.Reason == "" {
		t.Error("the loss of several objects is not noticed while objects are kept")
	}
}

// TestEndpointsComeBackTogether: services that are restarted one after another are not published half way.
func TestEndpointsComeBackTogether(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = ingresses("app", 0, 100, alive).table(t)
	for back := 10; back < 100; back++ {
		v := r.judge(time.Second, join(ingresses("app", 0, back, alive), ingresses("app", back, 100, noEndpoints)).table(t))
		r.wants(v, guard.BackendsLost)
	}
	r.wants(r.judge(time.Second, ingresses("app", 0, 100, alive).table(t)), "")
}

// TestAReasonThatAlternatesIsReleased: every 7 s the hold has another reason, and a hold takes 12 s.
func TestAReasonThatAlternatesIsReleased(t *testing.T) {
	full := ingresses("app", 0, 100, alive)
	few := full[:120]
	drained := join(ingresses("app", 0, 30, alive), ingresses("app", 30, 100, noEndpoints))
	within := full[:240]
	for name, reads := range map[string][2]cluster{
		"routes and endpoints": {few, drained}, "endpoints and routes": {drained, few}, "more and less": {few, within}, "two sizes": {full[:100], full[:180]},
	} {
		r := newRun(t, guard.Config{Hold: 12 * time.Second}, nil)
		r.served = full.table(t)
		released := time.Duration(0)
		for s := time.Duration(0); s < 30 && released == 0; s++ {
			if v := r.judge(time.Second, reads[s/7%2].table(t)); v.Publish {
				released = s * time.Second
			}
		}
		if released < 12*time.Second || released > 20*time.Second {
			t.Errorf("%s: released after %v", name, released)
		}
	}
}

// TestWhatOneObjectGivesUpIsNoLoss: in a cluster of a few objects, a new path of one is a large share of all requests. Its team wants it.
func TestWhatOneObjectGivesUpIsNoLoss(t *testing.T) {
	moved := func(ids string, paths ...string) (c cluster) {
		for i, path := range paths {
			c.add(fmt.Sprintf(ids, i), "shop[.]example[.]org", fmt.Sprintf("PathSubtree(%q)", path), alive)
		}
		return c
	}
	const byPath, byNumber = "kube_shop__web_app__shop_example_org___%d__s", "kube_rg__shop__web_app__all__%d_0"
	later := moved("kube_shop__web_app__shop_example_org___new_%d__s", "/two")
	other := moved("kube_shop__cart_app__shop_example_org___%d__s", "/cart")
	for name, tt := range map[string]struct {
		before, after cluster
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
		served := tt.before.table(t)
		g.Judge(served, served, start)
		if v := g.Judge(served, tt.after.table(t), start.Add(time.Second)); v.Reason != tt.want || v.Publish != (tt.want == "") {
			t.Errorf("%s: %+v, want %q", name, v, tt.want)
		}
	}
}
