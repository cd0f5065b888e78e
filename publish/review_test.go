package publish_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// reviewer objects to routes with a filter.
type reviewer publish.Objections

func (v reviewer) review(before, after *table.Table) publish.Objections {
	found := publish.Objections{}
	var old table.List
	if before != nil {
		old = before.Routes()
	}
	for _, is := range table.Changes(old, after.Routes()) {
		for filter, o := range v {
			if is != nil && strings.Contains(is.Text, filter) {
				found[is.ID] = o
			}
		}
	}
	return found
}

func died(filter string) publish.Objection {
	return publish.Objection{Reason: publish.ReasonTrial, Detail: filter + ": the trial proxy died of it"}
}

var onTrial = publish.Objection{Reason: publish.ReasonTrial, Detail: "on trial", Pending: true}

// filter gives an Ingress a new version, with a filter.
func (c *cluster) filter(name, text string) {
	ing := *c.ingresses[name]
	ing.Annotations = kube.Pairs{{Key: "zalando.org/skipper-filter", Value: text}}
	c.ingresses[name] = &ing
}

func (c *cluster) reasons(want guard.Code) {
	c.t.Helper()
	for _, k := range c.publisher.Kept() {
		if k.Reason != want {
			c.t.Errorf("%s is kept for %s, want %s", k.Ref, k.Reason, want)
		}
	}
}

func TestAnObjectWithABadTextIsKept(t *testing.T) {
	v := reviewer{"bad(": died("bad()")}
	c := newCluster(t, publish.Config{Review: v.review})
	c.filter("shop/app-00", "bad()")
	c.read()
	c.keeps("a first table", "Ingress shop/app-00")
	c.serves("a first table", "!bad()", "!app_00__app_00_shop", "kube_shop__app_01")

	c.filter("shop/app-01", `setPath("/old")`)
	c.read()
	c.filter("shop/app-01", `bad("new")`)
	c.filter("team/app-02", `setPath("/new")`)
	c.pod("shop", "app-01", "10.1.9.9")
	delete(c.ingresses, "team/app-03")
	c.read()
	c.keeps("a changed object", "Ingress shop/app-00", "Ingress shop/app-01")
	c.reasons(publish.ReasonTrial)
	c.serves("a changed object", "!bad(", `setPath("/old") -> "http://10.1.9.9:8080"`, `setPath("/new")`, "!kube_team__app_03")

	delete(c.ingresses, "shop/app-00")
	c.read()
	c.keeps("its deletion", "Ingress shop/app-01")
	since := c.publisher.Kept()[0].Since
	c.filter("shop/app-01", `bad("newer")`)
	c.read()
	if now := c.publisher.Kept()[0].Since; !now.Equal(since) {
		t.Errorf("kept since %v, and after another bad version since %v", since, now)
	}
	c.filter("shop/app-01", `setPath("/good")`)
	c.read()
	c.keeps("a good version")
	c.serves("a good version", `setPath("/good")`)
}

func TestAnOperatorAcceptsABadText(t *testing.T) {
	v := reviewer{"bad(": died("bad()")}
	c := newCluster(t, publish.Config{Review: v.review})
	c.read()
	c.filter("shop/app-00", "bad()")
	c.filter("shop/app-01", "bad()")
	c.read()
	if _, err := c.publisher.Accept(publish.Acceptance{
		Digest: c.publisher.Holding().Digest, By: "ann", Objects: []kube.Ref{{Kind: kube.KindIngress, Namespace: "shop", Name: "app-00"}},
	}); err != nil {
		t.Fatal(err)
	}
	c.keeps("accepted", "Ingress shop/app-01")
	c.serves("accepted", "bad()")
	c.read()
	c.keeps("another read", "Ingress shop/app-01")
}

func TestAReviewThatIsNotDone(t *testing.T) {
	v := reviewer{"new(": onTrial}
	c := newCluster(t, publish.Config{Review: v.review})
	c.read()
	c.filter("shop/app-00", "new()")
	c.filter("shop/app-01", `setPath("/new")`)
	c.read()
	if kept := c.publisher.Kept(); len(kept) != 1 || !kept[0].Pending || c.publisher.Holding().Held {
		t.Errorf("kept are %v, held is %v: want one object that waits", kept, c.publisher.Holding())
	}
	c.serves("on trial", "!new()", `setPath("/new")`)
	delete(v, "new(")
	c.read()
	c.keeps("accepted by the trial")
	c.serves("accepted by the trial", "new()")

	lapsed := onTrial
	lapsed.Lapsed, lapsed.Pending = true, false
	v["late("] = lapsed
	c.filter("shop/app-00", "late()")
	c.read()
	c.keeps("nobody could find out")
	c.serves("nobody could find out", "late()")

	v["bad("] = died("bad()")
	c.filter("shop/app-02", "bad()")
	c.read()
	for _, unknown := range []publish.Objection{onTrial, lapsed} {
		v["bad("] = unknown
		c.read()
		c.keeps("what was bad is tried again", "Ingress shop/app-02")
		c.serves("what was bad is tried again", "!bad(")
	}
}

func TestABadDefaultFilter(t *testing.T) {
	v := reviewer{"bad(": died("bad()")}
	c := newCluster(t, publish.Config{Review: v.review, File: publish.LastKnownGood(t.TempDir())})
	c.filters = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "app-00"}: `setPath("/old")`}}
	c.read()
	c.serves("good", `setPath("/old")`)
	c.filters = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "app-00"}: "bad()"}}
	c.filter("shop/app-01", `setPath("/new")`)
	c.read()
	c.keeps("bad", "DefaultFilters all")
	c.serves("bad", `setPath("/old")`, `setPath("/new")`, "!bad()")
	c.publisher.Flush()
	c.start(publish.Config{Review: v.review, File: c.file})
	c.read()
	c.keeps("after a restart", "DefaultFilters all")
	c.serves("after a restart", `setPath("/old")`, "!bad()")
	c.publisher.Flush()
}

func TestABadTextAndAnAccident(t *testing.T) {
	v := reviewer{"bad(": died("bad()")}
	cfg := publish.Config{Review: v.review, File: publish.LastKnownGood(t.TempDir()), Guard: guard.Config{MaxLoss: 0.2}}
	c := newCluster(t, cfg)
	c.filter("shop/app-01", `setPath("/old")`)
	c.read()
	c.filter("shop/app-01", "bad()")
	c.remove("team", 0, 8)
	c.remove("shop", 5, 20)
	c.read()
	want := append(apps("Ingress", "team", 0, 8), append(apps("Ingress", "shop", 5, 20), "Ingress shop/app-01")...)
	c.keeps("both", want...)
	c.serves("both", "!bad(", `setPath("/old")`, "kube_team__app_03")
	for range 2 {
		c.publisher.Flush()
		c.start(cfg)
		c.read()
		c.keeps("after a restart", want...)
		c.serves("after a restart", "!bad(", `setPath("/old")`, "kube_team__app_03")
	}
	c.restore("team", 0, 8)
	c.restore("shop", 5, 20)
	c.read()
	c.keeps("the accident is over", "Ingress shop/app-01")
	delete(c.ingresses, "shop/app-01")
	c.read()
	c.keeps("deleted")
	c.publisher.Flush()
}

func TestAKeptObjectKeepsItsServices(t *testing.T) {
	v := reviewer{"bad(": died("bad()")}
	c := newCluster(t, publish.Config{Review: v.review})
	c.read()
	c.ingress("shop", "app-00", "app-00.shop.example.org", "app-01")
	c.filter("shop/app-00", "bad()")
	c.pod("shop", "app-00", "")
	c.read()
	c.keeps("its old service has no pods", "Ingress shop/app-00", "Service shop/app-00")
	c.serves("its old service has no pods", `"http://10.1.0.1:8080"`, "!bad(")
	c.filter("shop/app-00", "good()")
	c.read()
	c.keeps("a good version")
}

// TestADefectOfAReviewReleasesNothing: what is kept does not get out because the review panics.
func TestADefectOfAReviewReleasesNothing(t *testing.T) {
	v, broken := reviewer{"bad(": died("bad()")}, false
	c := newCluster(t, publish.Config{Review: func(before, after *table.Table) publish.Objections {
		if broken {
			panic("index out of range")
		}
		return v.review(before, after)
	}})
	c.read()
	c.filter("shop/app-00", "bad()")
	c.read()
	c.keeps("before", "Ingress shop/app-00")
	broken = true
	c.filter("shop/app-01", `setPath("/new")`)
	c.read()
	c.serves("while the review panics", "!bad()", "!/new")
	broken = false
	c.read()
	c.keeps("after that", "Ingress shop/app-00")
	c.serves("after that", "!bad()", "/new")
}

// TestWhatAnObjectRefersToIsReviewed: the object does not change, and its routes do. Each of these changes would publish a text that failed its
// trial. Another team's change is served with the same read.
func TestWhatAnObjectRefersToIsReviewed(t *testing.T) {
	kept := func(c *cluster, when string) {
		c.t.Helper()
		c.keeps(when, "Ingress beta/late")
		c.reasons(publish.ReasonTrial)
		c.serves(when, "!bad(", `setPath("/innocent")`)
	}
	for name, tt := range map[string]struct{ before, after func(*cluster) }{
		"the Service is created later": {
			func(c *cluster) { c.ingress("beta", "late", "late.example.org", "late") },
			func(c *cluster) { c.add("beta", "late", "10.7.0.1") },
		},
		"pods become ready later": {
			func(c *cluster) { c.add("beta", "late", "") },
			func(c *cluster) { c.pod("beta", "late", "10.7.0.1") },
		},
		"the Service gets the port later": {
			func(c *cluster) { c.add("beta", "late", "10.7.0.1"); c.services["beta/late"].Ports[0].Port = 81 },
			func(c *cluster) { c.add("beta", "late", "10.7.0.1") },
		},
		"the Service gets another type": {
			func(c *cluster) {
				c.add("beta", "late", "10.7.0.1")
				c.services["beta/late"].Type, c.services["beta/late"].ExternalName = "ExternalName", "late.example.com"
			},
			func(c *cluster) { c.add("beta", "late", "10.7.0.1") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, publish.Config{Review: reviewer{"bad(": died("bad()")}.review})
			c.read()
			tt.before(c)
			c.filter("beta/late", "bad()")
			late := c.ingresses["beta/late"]
			c.read()
			tt.after(c)
			c.ingresses["beta/late"] = late // it does not change
			c.filter("team/app-00", `setPath("/innocent")`)
			c.read()
			kept(c, "afterwards")
			service := c.services["beta/late"]
			delete(c.services, "beta/late")
			c.read()
			c.serves("the Service is deleted", "!bad(")
			c.services["beta/late"] = service
			c.read()
			kept(c, "the Service is created again")
			if _, err := c.publisher.Accept(publish.Acceptance{Digest: c.publisher.Holding().Digest, Namespaces: []string{"beta"}}); err != nil {
				t.Fatal(err)
			}
			c.serves("accepted", "bad(")
			c.read()
			c.keeps("a read after the acceptance")
			c.serves("a read after the acceptance", "bad(")
		})
	}
}

// TestAServedRouteKeepsItsExpression: what an object refers to changes the predicates of a route that is served. It keeps the served ones, with the
// endpoints of today.
func TestAServedRouteKeepsItsExpression(t *testing.T) {
	takes := publish.Objection{Reason: publish.ReasonTakeover, Detail: "takes requests"}
	v := reviewer{}
	c := newCluster(t, publish.Config{Review: v.review})
	c.read()
	group := *c.groups["team/group"]
	spec := *group.Spec
	spec.Backends = []*kube.RouteGroupBackend{
		{Name: "a", Type: "service", ServiceName: "app-00", ServicePort: 80}, {Name: "b", Type: "service", ServiceName: "app-01", ServicePort: 80},
	}
	spec.DefaultBackends = []*kube.BackendReference{{BackendName: "a", Weight: 1}, {BackendName: "b", Weight: 1}}
	group.Spec = &spec
	c.groups["team/group"] = &group
	second := c.services["team/app-01"]
	delete(c.services, "team/app-01")
	c.read()
	c.serves("one backend", "!Traffic")
	v["Traffic"] = takes
	c.services["team/app-01"] = second
	c.pod("team", "app-00", "10.2.7.7")
	c.read()
	if strings.Contains(string(c.before.Text()), "Traffic") {
		c.keeps("two backends", "RouteGroup team/group")
		c.serves("two backends", "!Traffic", "http://10.2.7.7:8080")
	} else {
		t.Errorf("the newest table has no weights:\n%s", c.before.Text())
	}
}
