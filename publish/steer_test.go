package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func ingressRef(name string) kube.Ref {
	return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name}
}

func scopeOf(r kube.Ref) publish.Scope {
	return publish.Scope{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

var shop = publish.Scope{Namespace: "shop"}

func (c *cluster) steer(o publish.Order) {
	c.t.Helper()
	if err := c.publisher.Steer(o); err != nil {
		c.t.Fatal(err)
	}
}

// rollBack pins an Ingress at the version before its last change.
func (c *cluster) rollBack() {
	c.t.Helper()
	c.filter("shop/app-00", `setPath("/old")`)
	c.read()
	old := c.ingresses["shop/app-00"]
	c.filter("shop/app-00", `setPath("/bad")`)
	c.read()
	c.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(ingressRef("app-00"), old, "as of entry 1")}, Until: time.Now().Add(time.Hour), Scope: scopeOf(ingressRef("app-00"))})
}

// reason returns why an object is kept; empty if it is not.
func (c *cluster) reason(ref kube.Ref) guard.Code {
	for _, k := range c.publisher.Kept() {
		if k.Ref == ref {
			return k.Reason
		}
	}
	return ""
}

func TestFrozenObjectsStayAndAllElseFlows(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.filter("shop/app-00", `setPath("/old")`)
	c.read()
	c.steer(publish.Order{Freeze: true, Scope: shop, Until: time.Now().Add(time.Hour), By: "ann", Why: "sale"})
	c.keeps("nothing changed yet")

	c.filter("shop/app-00", `setPath("/new")`)
	c.filter("team/app-00", `setPath("/team")`)
	delete(c.ingresses, "shop/app-01")
	c.ingress("shop", "fresh", "fresh.example.org", "app-02")
	c.pod("shop", "app-00", "10.1.9.9")
	c.read()
	c.keeps("changed", "Ingress shop/app-00", "Ingress shop/app-01", "Ingress shop/fresh")
	c.reasons(publish.ReasonFreeze)
	c.serves("changed", `setPath("/old") -> "http://10.1.9.9:8080"`, `setPath("/team")`, "kube_shop__app_01", "!fresh", "!/new")
	if s := c.publisher.Holding(); s.Held {
		t.Errorf("what an operator froze counts as held: %+v", s)
	}
	if k := c.publisher.Kept()[0]; k.By != "ann" || k.Until.IsZero() || k.Detail != "frozen: namespace shop: sale" {
		t.Errorf("kept is %+v", k)
	}

	delete(c.services, "shop/app-03") // deletions of services flow
	delete(c.pods, "shop/app-03")
	c.read()
	c.serves("a deleted service", "!10.1.0.4")

	before, after, err := c.publisher.Preview(publish.Order{Release: true, Scope: shop})
	if err != nil || before.Equal(after) {
		t.Errorf("preview: %v", err)
	}
	c.steer(publish.Order{Release: true, Scope: shop})
	c.keeps("released")
	c.serves("released", `setPath("/new")`, "!kube_shop__app_01", "fresh")
	if err := c.publisher.Steer(publish.Order{Release: true, Scope: shop}); !errors.Is(err, publish.ErrNotSteered) {
		t.Errorf("error %v", err)
	}
}

func TestAFreezeOfOneObjectAndOfAll(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.steer(publish.Order{Freeze: true, Scope: scopeOf(ingressRef("app-00"))})
	c.filter("shop/app-00", `setPath("/new")`)
	c.filter("shop/app-01", `setPath("/other")`)
	c.read()
	c.keeps("one", "Ingress shop/app-00")
	c.steer(publish.Order{Freeze: true})
	c.filter("team/app-00", `setPath("/team")`)
	c.read()
	c.keeps("all", "Ingress shop/app-00", "Ingress team/app-00")
	c.steer(publish.Order{Release: true}) // of all, and of what is a part of it
	c.keeps("nothing")
	c.serves("all is new", `setPath("/new")`, `setPath("/team")`)
}

func TestAPinnedObject(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.rollBack()
	c.serves("pinned at once", `setPath("/old")`, "!/bad")
	for range 3 { // somebody applies it again and again, and pods come and go
		c.filter("shop/app-00", `setPath("/bad")`)
		c.pod("shop", "app-00", "10.1.7.7")
		c.read()
	}
	c.serves("applied again", `setPath("/old") -> "http://10.1.7.7:8080"`, "!/bad")
	delete(c.ingresses, "shop/app-00")
	c.read()
	c.serves("deleted", `setPath("/old") -> "http://10.1.7.7:8080"`)
	c.steer(publish.Order{Release: true, Scope: scopeOf(ingressRef("app-00"))})
	c.serves("its deletion", "!/old")
}

// TestPinsThatTakeAwayMuchAreDecisions: the guard keeps nothing of what an operator took away, and does not wait for it later.
func TestPinsThatTakeAwayMuchAreDecisions(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	var pins []*publish.Kept
	for name := range c.ingresses {
		if ing := c.ingresses[name]; ing.Namespace == "shop" {
			pins = append(pins, publish.Pin(ing.Ref(), nil, "as of entry 1"))
		}
	}
	c.steer(publish.Order{Pins: pins, Scope: shop})
	c.serves("at once", "!kube_shop__", "kube_team__app_00")
	c.read()
	c.serves("another read", "!kube_shop__", "kube_team__app_00")
	if c.publisher.Holding().Held {
		t.Errorf("held: %+v", c.publisher.Holding())
	}
}

// TestTheEndOfAFreezeIsJudged: what was deleted meanwhile is an accident like any other.
func TestTheEndOfAFreezeIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, publish.Config{})
		c.read()
		c.steer(publish.Order{Freeze: true, Scope: shop, Until: time.Now().Add(2 * time.Hour), By: "ann"})
		c.remove("shop", 0, 20)
		c.read()
		c.reasons(publish.ReasonFreeze)
		time.Sleep(2 * time.Hour)
		c.read()
		c.reasons(guard.RoutesLost)
		c.serves("after the end", "kube_shop__app_00")
		if k, digest := c.publisher.Orders(); len(k) != 0 || !digest.IsZero() {
			t.Errorf("orders are %v", k)
		}
	})
}

// TestWhatAnObjectHas: pin before freeze before trial before takeover before guard before the newest version.
func TestWhatAnObjectHas(t *testing.T) {
	ref := ingressRef("app-00")
	for name, one := range map[string]struct {
		pin, freeze, trial, takeover, lost bool
		want                               guard.Code
	}{
		"nothing":                {},
		"lost":                   {lost: true, want: guard.RoutesLost},
		"takeover":               {takeover: true, want: publish.ReasonTakeover},
		"trial":                  {trial: true, takeover: true, want: publish.ReasonTrial},
		"frozen":                 {freeze: true, want: publish.ReasonFreeze},
		"frozen and lost":        {freeze: true, lost: true, want: publish.ReasonFreeze},
		"frozen and refused":     {freeze: true, trial: true, takeover: true, want: publish.ReasonFreeze},
		"pinned":                 {pin: true, want: publish.ReasonPin},
		"pinned and lost":        {pin: true, lost: true, want: publish.ReasonPin},
		"pinned and all of them": {pin: true, freeze: true, trial: true, takeover: true, want: publish.ReasonPin},
	} {
		t.Run(name, func(t *testing.T) {
			v := reviewer{}
			c := newCluster(t, publish.Config{Review: v.review})
			c.filter("shop/app-00", `setPath("/pinned")`)
			c.read()
			pinned := c.ingresses["shop/app-00"]
			c.filter("shop/app-00", `setPath("/served")`)
			c.read()
			if one.trial {
				v["newest"] = died("newest")
			} else if one.takeover {
				v["newest"] = publish.Objection{Reason: publish.ReasonTakeover, Detail: "takes requests"}
			}
			if one.freeze {
				c.steer(publish.Order{Freeze: true, Scope: shop})
			}
			if one.pin {
				c.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(ref, pinned, "")}})
			}
			c.filter("shop/app-00", `setPath("/newest")`)
			if one.lost {
				c.remove("shop", 0, 20)
			}
			c.read()
			if got := c.reason(ref); got != one.want {
				t.Errorf("it is kept for %q, want %q", got, one.want)
			}
			path := map[guard.Code]string{"": "/newest", publish.ReasonPin: "/pinned"}[one.want]
			if path == "" {
				path = "/served"
			}
			c.serves("what it has", `setPath("`+path+`")`)
		})
	}
}

// TestSteeringSurvivesARestart: also what changed while the process did not run.
func TestSteeringSurvivesARestart(t *testing.T) {
	file := publish.LastKnownGood(t.TempDir())
	var earlier map[kube.Ref]kube.Object
	cfg := publish.Config{File: file, Changed: func(*kube.Snapshot) (map[kube.Ref]kube.Object, bool) { return earlier, earlier != nil }}
	c := newCluster(t, cfg)
	c.file = file
	c.filter("shop/app-00", `setPath("/old")`)
	c.filter("shop/app-01", `setPath("/one")`)
	c.read()
	old, one := c.ingresses["shop/app-00"], c.ingresses["shop/app-01"]
	c.filter("shop/app-00", `setPath("/bad")`)
	c.read()
	c.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(ingressRef("app-00"), old, "")}})
	c.steer(publish.Order{Freeze: true, Scope: shop})
	c.publisher.Flush()

	c.filter("shop/app-01", `setPath("/meanwhile")`)
	c.ingress("shop", "fresh", "fresh.example.org", "app-02")
	earlier = map[kube.Ref]kube.Object{one.Ref(): one, ingressRef("fresh"): nil}
	c.start(cfg)
	c.publisher.Boot(1<<20, nil)
	c.read()
	c.serves("after the restart", `setPath("/old")`, `setPath("/one")`, "!/meanwhile", "!fresh")
	c.keeps("after the restart", "Ingress shop/app-00", "Ingress shop/app-01", "Ingress shop/fresh")
	c.read()
	c.serves("another read", `setPath("/old")`, `setPath("/one")`, "!/meanwhile", "!fresh")

	// A replica without a file takes the list over. One with an old file drops its own list.
	list := c.publisher.List()
	c.publisher.Flush()
	c.start(publish.Config{})
	c.publisher.TakeOver(list)
	c.read()
	c.serves("another replica", `setPath("/old")`, `setPath("/one")`, "!/meanwhile", "!fresh")
	c.steer(publish.Order{Release: true})
	list = c.publisher.List()
	c.publisher.Flush()
	c.start(cfg)
	c.publisher.Boot(1<<20, nil)
	c.publisher.TakeOver(list)
	c.read()
	c.serves("after a release that it missed", `setPath("/meanwhile")`, "fresh")
	c.publisher.Flush()
}

// TestADefectUnfreezesNothing: a compiler that panics must not publish what is frozen.
func TestADefectUnfreezesNothing(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.steer(publish.Order{Freeze: true})
	c.filter("shop/app-00", `setPath("/new")`)
	c.read()
	c.builder.broken = true
	c.filter("shop/app-01", `setPath("/newer")`)
	c.read()
	c.serves("a defect", "!/new")
	c.builder.broken = false
	c.read()
	c.serves("mended", "!/new")
	if k, _ := c.publisher.Orders(); len(k) != 1 {
		t.Errorf("orders are %v, want the freeze", k)
	}
}

// TestATableCannotBeSteered: where objects are unknown.
func TestATableCannotBeSteered(t *testing.T) {
	p, err := publish.New(publish.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Steer(publish.Order{Freeze: true}); err == nil {
		t.Error("no error")
	}
	var none *table.Table
	if before, after, err := p.Preview(publish.Order{Freeze: true}); err == nil || before != none || after != none {
		t.Error("a preview of nothing")
	}
}

// lastRead is a sink that knows the last read.
type lastRead struct {
	publish.Sink
	read table.Read
}

func (l *lastRead) Begin() func(*table.Table, table.Read) {
	end := l.Sink.Begin()
	return func(t *table.Table, r table.Read) {
		l.read = r
		end(t, r)
	}
}

// TestWhatIsPinnedOrFrozenIsTakenBack: clients keep the candidate of a read if they have it, because another replica may have published it. That must
// not be what operators have taken back: a client that had not asked since would keep it for good.
func TestWhatIsPinnedOrFrozenIsTakenBack(t *testing.T) {
	sink := &lastRead{Sink: publish.Each(func(*table.Table) {})}
	c := newCluster(t, publish.Config{Sink: sink})
	c.rollBack()
	c.steer(publish.Order{Freeze: true, Scope: publish.Scope{Namespace: "team"}, Until: time.Now().Add(time.Hour)})
	c.filter("team/app-00", `setPath("/frozen")`)
	c.read()
	wanted := sink.read.Candidate
	if wanted == nil || !wanted.Equal(c.publisher.Table()) {
		t.Errorf("clients keep a table that operators do not want:\n%v", wanted)
	}
	c.remove("shop", 1, 20)
	c.read()
	c.keeps("an accident", append([]string{"Ingress shop/app-00", "Ingress team/app-00"}, names("Ingress shop/app-%02d", 1, 20)...)...)
	if text := string(sink.read.Candidate.Text()); strings.Contains(text, "/bad") || strings.Contains(text, "/frozen") || strings.Contains(text, "app_05_shop") {
		t.Errorf("the candidate is not the newest read as operators want it:\n%s", text)
	}
}

func names(format string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}
