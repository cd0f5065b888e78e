package publish_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

const soak = 5 * time.Minute

// onCanary gives a configuration a canary.
func onCanary(cfg publish.Config) publish.Config {
	cfg.Canary = publish.CanaryConfig{Sink: publish.Each(func(*table.Table) {}), Soak: soak}
	return cfg
}

func judged(cfg publish.Config) publish.Config {
	cfg = onCanary(cfg)
	cfg.Canary.Judged = true
	return cfg
}

// canary expects texts in the table of the canary, or not if they begin with "!".
func (c *cluster) canary(when string, texts ...string) {
	c.t.Helper()
	body := string(c.publisher.Canary().Text())
	for _, text := range texts {
		text, not := strings.CutPrefix(text, "!")
		if strings.Contains(body, text) == not {
			c.t.Errorf("%s: %q in the table of the canary is %v:\n%s", when, text, not, body)
		}
	}
}

// soaks expects these objects to soak, or to be halted.
func (c *cluster) soaks(when string, want ...string) {
	c.t.Helper()
	var got []string
	for _, k := range c.publisher.Soaking() {
		name := k.Ref.String()
		if k.Soak.Halted != "" {
			name = "halted " + name
		}
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: %q soak, want %q", when, got, want)
	}
}

// later waits, and promotes what is due, as a server does.
func (c *cluster) later(d time.Duration) {
	time.Sleep(d)
	c.publisher.Promote()
}

func TestAChangeSoaksBeforeTheFleetGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		c.soaks("a first start")
		c.filter("shop/app-00", `setPath("/new")`) // changed
		delete(c.ingresses, "shop/app-01")         // deleted
		c.add("shop", "fresh", "10.1.0.99")        // created
		c.pod("shop", "app-02", "10.9.9.9")        // endpoints never soak
		c.pod("shop", "app-00", "10.9.9.8")
		c.read()
		all := []string{"Ingress shop/app-00", "Ingress shop/app-01", "Ingress shop/fresh"}
		c.soaks("three changes", all...)
		c.keeps("three changes")
		c.canary("three changes", "/new", "!app-01[.]shop", "fresh", "10.9.9.9", "10.9.9.8")
		c.serves("three changes", "!/new", "app-01[.]shop", "!fresh", "10.9.9.9", "10.9.9.8")
		if at := c.publisher.NextPromotion(); !at.Equal(time.Now().Add(soak)) {
			t.Errorf("next promotion at %v", at)
		}
		c.later(soak - time.Second)
		c.read()
		c.soaks("before its time", all...)
		c.later(time.Second)
		c.soaks("after the soak")
		c.serves("after the soak", "/new", "!app-01[.]shop", "fresh")
		if !c.publisher.Table().Equal(c.publisher.Canary()) {
			t.Error("the tables differ")
		}
		c.read()
		c.soaks("a read after the soak")
		c.serves("a read after the soak", "/new", "!app-01[.]shop", "fresh")
	})
}

func TestWhatOnlyLooksLikeAnEndpointSoaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.ingress("shop", "early", "early.example.org", "late")
		c.services["shop/other"] = c.services["shop/app-05"]
		c.read()
		c.pod("shop", "app-04", "") // without endpoints a route shows no filters
		c.read()
		c.soaks("no endpoints")
		c.serves("no endpoints", "no endpoints")
		c.pod("shop", "app-04", "10.9.9.1")
		c.read()
		c.soaks("endpoints again")
		c.serves("endpoints again", "10.9.9.1")

		c.pod("shop", "app-04", "")
		c.filter("shop/app-04", `setPath("/hidden")`)
		c.read()
		c.soaks("a filter that is hidden", "Ingress shop/app-04")
		c.pod("shop", "app-04", "10.9.9.1")
		c.read()
		c.soaks("it shows", "Ingress shop/app-04")
		c.serves("it shows", "!/hidden", "10.9.9.1")
		c.canary("it shows", "/hidden", "10.9.9.1")

		c.services["shop/late"] = &kube.Service{Namespace: "shop", Name: "late", Type: "ClusterIP", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}}}
		c.pod("shop", "late", "10.9.9.2")
		c.read()
		c.soaks("a service that is created", "Ingress shop/app-04", "Ingress shop/early")
		c.serves("a service that is created", "!10.9.9.2")
		c.canary("a service that is created", "10.9.9.2")
		c.pod("shop", "late", "10.9.9.3")
		c.read()
		c.later(soak)
		c.soaks("its end")
		c.serves("its end", "10.9.9.3", "/hidden")
	})
}

func TestDefaultFiltersSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		c.filters = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "app-00"}: `setPath("/default")`}}
		c.filter("shop/app-01", `setPath("/own")`)
		c.read()
		c.soaks("default filters", "DefaultFilters all", "Ingress shop/app-01")
		c.canary("default filters", "/default", "/own")
		c.serves("default filters", "!/default", "!/own")
		c.later(soak)
		c.serves("after the soak", "/default", "/own")
		c.soaks("after the soak")

		c.filters = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "app-00"}: `setPath("/bad")`}}
		c.read()
		c.steer(publish.Order{Halt: true, Why: "bad", By: "ann"})
		c.read()
		c.soaks("halted", "halted DefaultFilters all")
		c.canary("halted", "/default", "!/bad")
		c.serves("halted", "/default", "!/bad")
	})
}

func TestAFurtherVersionRestartsTheSoakThreeTimesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		began := time.Now()
		for i := range 20 {
			c.filter("shop/app-00", `setPath("/v`+strings.Repeat("i", i+1)+`")`)
			c.read()
			if text := string(c.publisher.Table().Text()); strings.Contains(text, "/vi") {
				if took := time.Since(began); took < 3*soak || took > 3*soak+time.Minute {
					t.Errorf("promoted after %v", took)
				}
				return
			}
			c.ingresses["shop/app-00"].Changed = "2026-11-23T12:05:00Z other" // the same routes
			c.read()
			time.Sleep(time.Minute)
		}
		t.Error("an object that keeps changing is never promoted")
	})
}

func TestARolledBackChangeEndsItsSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		before, old := c.publisher.Table(), c.ingresses["shop/app-00"]
		c.filter("shop/app-00", `setPath("/bad")`)
		c.read()
		again := *old
		c.ingresses["shop/app-00"] = &again
		c.read()
		c.soaks("rolled back")
		c.canary("rolled back", "!/bad")
		if !c.publisher.Table().Equal(before) || !c.publisher.Canary().Equal(before) {
			t.Error("the table is another one")
		}
	})
}

// TestEveryOtherReasonHoldsBackFromBoth: an object that soaks and is then kept for something else is served at the version of the fleet, everywhere.
func TestEveryOtherReasonHoldsBackFromBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		c.filter("shop/app-00", `setPath("/v2")`)
		c.read()
		c.steer(publish.Order{Freeze: true, Scope: shop, Until: time.Now().Add(time.Hour)})
		c.soaks("frozen")
		c.serves("frozen", "!/v2")
		c.canary("frozen", "!/v2")
		c.later(soak)
		c.read()
		c.serves("frozen for long", "!/v2")
		c.steer(publish.Order{Release: true, Scope: shop})
		c.soaks("released", "Ingress shop/app-00")
		c.canary("released", "/v2")
		c.serves("released", "!/v2")

		c.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(ingressRef("app-01"), nil, "not at all")}, Until: time.Now().Add(time.Hour)})
		c.soaks("a pin is served at once", "Ingress shop/app-00")
		c.serves("a pin is served at once", "!app-01[.]shop")
		c.canary("a pin is served at once", "!app-01[.]shop")
	})
}

// TestTheGuardJudgesWhatSoaksOnce: an accident is kept from the canary as well. What the guard releases soaks, and is not kept again.
func TestTheGuardJudgesWhatSoaksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		c.remove("shop", 0, 20)
		c.read()
		c.keeps("an accident", apps("Ingress", "shop", 0, 20)...)
		c.canary("an accident", "shop__app_00__")
		c.soaks("an accident")
		time.Sleep(time.Hour)
		c.read()
		c.keeps("the guard releases")
		c.soaks("the guard releases", apps("Ingress", "shop", 0, 20)...)
		c.canary("the guard releases", "!shop__app_00__")
		c.serves("the guard releases", "shop__app_00__")
		for range 30 {
			time.Sleep(10 * time.Second)
			c.read()
			c.keeps("it soaks")
		}
		c.soaks("promoted")
		c.serves("promoted", "!shop__app_00__")
		c.keeps("promoted")
	})
}

// TestManySmallDeletionsThatSoakAreAnAccident: the guard counts what soaks, as far as its window goes.
func TestManySmallDeletionsThatSoakAreAnAccident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		for i := range 20 {
			c.add("more", []string{"a", "b", "c", "d", "e"}[i%5]+strings.Repeat("x", i/5+1), "10.7.0."+string(rune('1'+i%9)))
		}
		c.read()
		for i := range 20 {
			c.remove("shop", i, i+1)
			time.Sleep(5 * time.Second)
			c.read()
		}
		if n := len(c.publisher.Kept()); n != 20 {
			t.Errorf("%d are kept", n)
		}
		c.soaks("an accident")
		c.canary("an accident", "shop__app_00__", "shop__app_19__")
	})
}

func TestTheQueryHaltsWhatSoaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var decisions []api.Decision
		c := newCluster(t, judged(publish.Config{Decided: func(d api.Decision) { decisions = append(decisions, d) }}))
		c.read()
		answer := func(firing bool) {
			time.Sleep(10 * time.Second)
			c.publisher.Judge(publish.Verdict{At: time.Now(), Firing: firing, Text: map[bool]string{true: `{pod="canary-1"} 0.5`, false: "no series"}[firing]})
		}
		answer(false)
		c.filter("shop/app-00", `setPath("/bad")`)
		c.read()
		answer(true)
		c.soaks("it fires", "halted Ingress shop/app-00")
		c.canary("it fires", "!/bad")
		c.serves("it fires", "!/bad")
		c.filter("shop/app-01", `setPath("/innocent")`)
		c.read()
		answer(true)
		c.soaks("it still fires", "halted Ingress shop/app-00", "Ingress shop/app-01")
		c.canary("it still fires", "!/bad", "/innocent")
		c.later(soak + time.Second)
		answer(true)
		c.serves("nothing is promoted while it fires", "!/innocent")
		answer(false)
		c.serves("it fires no more", "/innocent", "!/bad")
		c.soaks("it fires no more", "halted Ingress shop/app-00")
		c.ingresses["shop/app-00"].Changed = "2026-11-23T12:05:00Z other"
		c.pod("shop", "app-00", "10.9.9.9")
		c.later(time.Hour)
		c.read()
		c.soaks("time does not end it", "halted Ingress shop/app-00")
		c.canary("time does not end it", "10.9.9.9", "!/bad")
		c.filter("shop/app-00", `setPath("/better")`)
		c.read()
		c.soaks("a new version", "Ingress shop/app-00")
		c.canary("a new version", "/better")
		c.later(soak - time.Second)
		answer(false)
		c.serves("a new version", "/better")
		var seen []string
		for _, d := range decisions {
			seen = append(seen, d.What+" "+d.Objects+": "+d.Detail)
		}
		want := []string{`halted Ingress shop/app-00: soaked 10s; the query returned {pod="canary-1"} 0.5`, "promoted Ingress shop/app-01: soaked 5m31s; the query returned no series", "promoted Ingress shop/app-00: soaked 5m9s; the query returned no series"}
		if !slices.Equal(seen, want) {
			t.Errorf("decisions\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestWithoutAnAnswerTheSoakIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, judged(publish.Config{}))
		c.read()
		c.publisher.Judge(publish.Verdict{At: time.Now(), Text: "no series"})
		c.filter("shop/app-00", `setPath("/new")`)
		c.read()
		began := time.Now()
		for !strings.Contains(string(c.publisher.Table().Text()), "/new") {
			time.Sleep(10 * time.Second)
			c.publisher.Judge(publish.Verdict{At: time.Now(), Err: true, Text: "connection refused"})
			c.read()
			if time.Since(began) > time.Hour {
				t.Fatal("never promoted")
			}
		}
		if took := time.Since(began); took != 3*soak {
			t.Errorf("promoted after %v", took)
		}
	})
}

func TestOperatorsPromoteAndHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, onCanary(publish.Config{}))
		c.read()
		if err := c.publisher.Steer(publish.Order{Promote: true}); !errors.Is(err, publish.ErrNotSoaking) {
			t.Errorf("nothing soaks: %v", err)
		}
		for _, name := range []string{"shop/app-00", "shop/app-01", "team/app-02"} {
			c.filter(name, `setPath("/`+strings.ReplaceAll(name, "/", "-")+`")`)
		}
		c.read()
		before, after, err := c.publisher.Preview(publish.Order{Promote: true, Scope: shop})
		if err != nil || before != c.publisher.Table() || !strings.Contains(string(after.Text()), "/shop-app-00") || strings.Contains(string(after.Text()), "/team-app-02") {
			t.Errorf("preview: %v\n%s", err, after.Text())
		}
		c.steer(publish.Order{Promote: true, Scope: scopeOf(ingressRef("app-00")), By: "ann", Why: "urgent"})
		c.serves("one is promoted", "/shop-app-00", "!/shop-app-01", "!/team-app-02")
		c.steer(publish.Order{Halt: true, Scope: shop, By: "ann", Why: "looks bad"})
		c.soaks("one is halted", "halted Ingress shop/app-01", "Ingress team/app-02")
		c.canary("one is halted", "!/shop-app-01", "/team-app-02")
		c.later(soak)
		c.read()
		c.serves("after the soak", "/team-app-02", "!/shop-app-01")
		c.steer(publish.Order{Promote: true})
		c.serves("all are promoted", "/shop-app-01")
		c.soaks("all are promoted")
	})
}

func TestAHaltedCreationStaysHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, judged(publish.Config{}))
		c.read()
		c.add("shop", "good", "10.1.0.98")
		c.add("shop", "bad", "10.1.0.99")
		c.read()
		c.steer(publish.Order{Halt: true, Scope: scopeOf(ingressRef("bad")), By: "ann", Why: "looks bad"})
		all := []string{"halted Ingress shop/bad", "Ingress shop/good"}
		c.soaks("halted", all...)
		c.read()
		c.soaks("a read", all...)
		c.steer(publish.Order{Promote: true, Scope: scopeOf(ingressRef("good")), By: "ann"})
		c.soaks("promoted", "halted Ingress shop/bad")
		c.serves("promoted", "shop__good", "!shop__bad")
		c.canary("promoted", "shop__good", "!shop__bad")
	})
}

func TestSoaksSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := judged(publish.Config{File: publish.LastKnownGood(t.TempDir())})
		c := newCluster(t, cfg)
		c.ingress("shop", "early", "early.example.org", "late")
		c.read()
		c.filter("shop/app-00", `setPath("/bad")`)
		c.read()
		c.publisher.Judge(publish.Verdict{At: time.Now(), Firing: true, Text: "x"})
		c.filter("shop/app-01", `setPath("/good")`)
		c.services["shop/late"] = c.services["shop/app-09"]
		late := *c.services["shop/late"]
		late.Name = "late"
		c.services["shop/late"] = &late
		c.pod("shop", "late", "10.9.9.2")
		c.read()
		all := []string{"halted Ingress shop/app-00", "Ingress shop/app-01", "Ingress shop/early"}
		c.soaks("before", all...)
		until := c.publisher.NextPromotion()
		c.publisher.Flush()
		time.Sleep(time.Minute)
		cfg = judged(publish.Config{File: cfg.File})
		c.start(cfg)
		c.read()
		c.soaks("after", all...)
		c.canary("after", "!/bad", "/good", "10.9.9.2")
		c.serves("after", "!/bad", "!/good", "!10.9.9.2")
		if at := c.publisher.NextPromotion(); !at.Equal(until) {
			t.Errorf("the soak ends at %v, want %v", at, until)
		}
		c.later(time.Until(until) - time.Second)
		c.publisher.Judge(publish.Verdict{At: time.Now(), Text: "no series"})
		c.later(time.Second)
		c.serves("promoted", "!/bad", "/good", "10.9.9.2")
		c.publisher.Flush()
	})
}

// TestReplicasPromoteAtTheSameTime: the earliest time at which a replica has seen a version counts.
func TestReplicasPromoteAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newCluster(t, onCanary(publish.Config{})), newCluster(t, onCanary(publish.Config{}))
		a.read()
		b.read()
		a.filter("shop/app-00", `setPath("/new")`)
		b.filter("shop/app-00", `setPath("/new")`)
		a.read()
		until := a.publisher.NextPromotion()
		time.Sleep(3 * time.Second)
		b.read()
		b.publisher.Adopt(a.publisher.Soaking())
		a.publisher.Adopt(b.publisher.Soaking())
		b.read()
		a.read()
		if x, y := a.publisher.NextPromotion(), b.publisher.NextPromotion(); !x.Equal(until) || !y.Equal(until) {
			t.Errorf("promoted at %v and %v, want %v", x, y, until)
		}
		if err := a.publisher.Steer(publish.Order{Halt: true, By: "ann", Why: "bad"}); err != nil {
			t.Fatal(err)
		}
		b.publisher.Adopt(a.publisher.Soaking())
		b.read()
		b.soaks("halted by the other replica", "halted Ingress shop/app-00")
	})
}
