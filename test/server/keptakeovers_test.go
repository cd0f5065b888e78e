package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

var taker = kube.Ref{Kind: kube.KindRouteGroup, Namespace: "other", Name: "all"}

// taking is a RouteGroup of a namespace that takes requests below /deep from the Ingresses of the namespace shop with these names.
func taking(namespace string, from ...string) string {
	return fmt.Sprintf(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: all, namespace: %s}
spec:
  hosts: [%s.example.org]
  backends: [{name: s, type: shunt}]
  routes: [{pathSubtree: /deep, backends: [{backendName: s}]}]
---`, namespace, strings.Join(from, ".example.org, "))
}

// allowing is an Ingress of the namespace shop with a list of those who may take its requests.
func allowing(name, list string) string {
	return strings.Replace(ingress(name), "namespace: shop}", "namespace: shop, annotations: {routesrv.dev/allow-takeover-by: "+fmt.Sprintf("%q", list)+"}}", 1)
}

// namespace is the namespace shop with such a list.
func namespace(list string) string {
	return fmt.Sprintf("\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {routesrv.dev/allow-takeover-by: %q}}\n---", list)
}

func keepTakeovers(routes int) func(*server.Config) {
	return func(cfg *server.Config) { cfg.Review.KeepTakeovers = takeover.Policy{Routes: routes} }
}

// takers waits until a table is served whose takers are the namespaces with the object all, and no object is kept but the given ones.
func (f *fixture) takers(namespaces []string, kept ...kube.Ref) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("table with the takers %v and %v kept", namespaces, kept), func() bool {
		var refs []kube.Ref
		for _, k := range f.guard().Kept {
			refs = append(refs, k.Ref)
		}
		return slices.Equal(takersIn(f.get("/routes").body), namespaces) && slices.Equal(refs, kept)
	})
	f.polled()
	if got := takersIn(f.get("/routes").body); !slices.Equal(got, namespaces) {
		f.t.Fatalf("two reads later the takers are %v, want %v; kept: %+v", got, namespaces, f.guard().Kept)
	}
}

// takersIn returns the namespaces of the object all that have routes in a table.
func takersIn(table string) (all []string) {
	for _, n := range []string{"other", "shop", "third"} {
		if strings.Contains(table, "kube_rg__"+n+"__all__") {
			all = append(all, n)
		}
	}
	return all
}

// noticed returns the takeovers in the status.
func (f *fixture) noticed() []api.Takeover {
	f.t.Helper()
	var s api.Status
	if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, "/status").body), &s); err != nil {
		f.t.Fatal(err)
	}
	return s.Takeovers
}

// TestWhoTakesTooMuchIsKept: the policy and the annotation of the losing object decide which takers are kept.
func TestWhoTakesTooMuchIsKept(t *testing.T) {
	both := []string{"cart", "search"}
	for _, c := range []struct {
		name    string
		routes  int
		from    []string
		objects string // of the losing namespace
		taker   string // namespace
		kept    bool
	}{
		{"no policy", 0, both, ingresses(both...), "other", false},
		{"one route", 1, both[:1], ingresses(both...), "other", true},
		{"two of two routes", 2, both, ingresses(both...), "other", true},
		{"one of two routes", 2, both[:1], ingresses(both...), "other", false},
		{"two of three routes", 3, both, ingresses(both...), "other", false},
		{"within one namespace", 1, both, ingresses(both...), "shop", false},
		{"everybody may", 1, both[:1], allowing("cart", "*"), "other", false},
		{"the namespace may", 1, both[:1], allowing("cart", "other"), "other", false},
		{"the object may", 1, both[:1], allowing("cart", "other/all"), "other", false},
		{"its namespace lets everybody", 1, both, ingresses(both...) + namespace("*"), "other", false},
		{"its namespace lets another one", 1, both, ingresses(both...) + namespace("third"), "other", true},
		{"a list with spaces", 1, both[:1], allowing("cart", " third , other/all ,"), "other", false},
		{"another namespace may", 1, both[:1], allowing("cart", "third, others, oth"), "other", true},
		{"another object may", 1, both[:1], allowing("cart", "other/al, third/all, all, other/, /all"), "other", true},
		{"an empty list", 1, both[:1], allowing("cart", ""), "other", true},
		{"a pattern is a name", 1, both[:1], allowing("cart", "oth*, other/*"), "other", true},
		{"one of two losers lets it", 1, both, allowing("cart", "*") + ingress("search"), "other", true},
		{"one of two losers lets it, and one route is too few", 2, both, allowing("cart", "*") + ingress("search"), "other", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := startReading(t, backend("s", "10.2.0.1")+c.objects, true, keepTakeovers(c.routes))
			f.apply(taking(c.taker, c.from...))
			if !c.kept {
				f.takers([]string{c.taker})
				return
			}
			f.takers(nil, taker)
			g := f.guard()
			if g.Reason != publish.ReasonTakeover || !g.ReleaseAt.IsZero() || !strings.Contains(g.Detail, "/deep: Ingress shop/") ||
				!strings.Contains(g.Detail, "-> RouteGroup other/all") || len(f.noticed()) > 0 {
				t.Errorf("kept: %+v; noticed: %+v", g, f.noticed())
			}
			f.logged("reason=takeover")
			f.apply(ingress("fresh") + pod("s", "10.2.0.2")) // all else stays live
			f.replaced("10.2.0.1:", "10.2.0.2:")
			f.eventually("the route of another object", func() bool { return strings.Contains(f.get("/routes").body, "fresh") })
			f.takers(nil, taker)
		})
	}
}

// TestKeptTakerIsReleased: what ends the wait of an object that takes requests of others, and what does not.
func TestKeptTakerIsReleased(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(*fixture)
		takers  []string
		kept    bool
	}{
		{"somebody accepts it", func(f *fixture) {
			if sent := f.accept("?digest=" + f.guard().Digest.String()); sent.status != http.StatusOK {
				f.t.Errorf("acceptance: %d %s", sent.status, sent.body)
			}
		}, []string{"other"}, false},
		{"a new version takes nothing", func(f *fixture) { f.apply(taking("other", "nobody")) }, []string{"other"}, false},
		{"a new version takes from another object", func(f *fixture) { f.apply(taking("other", "search")) }, nil, true},
		{"it is deleted", func(f *fixture) { f.deleteKind(taker.Kind, taker.Namespace, taker.Name) }, nil, false},
		{"the losing object is deleted", func(f *fixture) { f.delete("cart") }, []string{"other"}, false},
		{"the losing object allows it", func(f *fixture) { f.apply(allowing("cart", "other")) }, []string{"other"}, false},
		{"its namespace allows it", func(f *fixture) { f.apply(namespace("other/all")) }, []string{"other"}, false},
		{"the losing object gets another path", func(f *fixture) { f.apply(strings.Replace(ingress("cart"), "path: /,", "path: /only,", 1)) }, []string{"other"}, false},
		{"the losing object gets another filter", func(f *fixture) {
			f.apply(strings.Replace(ingress("cart"), "namespace: shop}", `namespace: shop, annotations: {zalando.org/skipper-filter: "status(418)"}}`, 1))
			f.eventually("the filter", func() bool { return strings.Contains(f.get("/routes").body, "418") })
		}, nil, true},
		{"the losing object gets another predicate", func(f *fixture) {
			f.apply(strings.Replace(ingress("cart"), "namespace: shop}", `namespace: shop, annotations: {zalando.org/skipper-predicate: 'Method("GET")'}}`, 1))
			f.eventually("the predicate", func() bool { return strings.Contains(f.get("/routes").body, "Method(") })
		}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := startReading(t, backend("s", "10.2.0.1")+ingresses("cart", "search", "a", "b", "c"), true, keepTakeovers(1))
			f.apply(taking("other", "cart"))
			f.takers(nil, taker)
			c.happens(f)
			if c.kept {
				f.takers(c.takers, taker)
			} else {
				f.takers(c.takers)
			}
		})
	}
}

// TestNewVersionThatTakesWaits: the served version of the object stays.
func TestNewVersionThatTakesWaits(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses("cart", "search")+taking("other", "nobody"), true, keepTakeovers(1))
	before := f.get("/routes").body
	f.apply(taking("other", "nobody", "search"))
	f.takers([]string{"other"}, taker)
	if got := f.get("/routes").body; got != before {
		t.Errorf("served is\n%s\nwant\n%s", got, before)
	}
}

// TestKeptTakerStaysKeptAfterARestart: with the objects of the state folder, and with none.
func TestKeptTakerStaysKeptAfterARestart(t *testing.T) {
	dir := t.TempDir()
	set := func(cfg *server.Config) { keepTakeovers(1)(cfg); cfg.StateDir = dir }
	objects := backend("s", "10.2.0.1") + ingresses("cart", "search")
	f := startReading(t, objects, true, set)
	f.apply(taking("other", "cart"))
	f.takers(nil, taker)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f = startReading(t, objects+taking("other", "cart"), true, set)
		f.polled()
		f.takers(nil, taker)
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
	}
	f = startReading(t, objects+taking("other", "cart"), true, set)
	f.polled()
	if sent := f.accept("?digest=" + f.guard().Digest.String()); sent.status != http.StatusOK {
		t.Errorf("acceptance: %d %s", sent.status, sent.body)
	}
	f.takers([]string{"other"})
}

// TestTakeoversOfTheLastHourAreTold: in the status, in the log, in a metric, and to both teams in Events.
func TestTakeoversOfTheLastHourAreTold(t *testing.T) {
	told := make(chan func() []poller.Problem, 1)
	f := startReading(t, backend("s", "10.2.0.1")+ingresses("cart", "search"), true, func(cfg *server.Config) {
		cfg.Events = func(ctx context.Context, problems func() []poller.Problem) {
			told <- problems
			<-ctx.Done()
		}
	})
	events := <-told
	if got := f.noticed(); len(got) > 0 {
		t.Fatalf("before: %+v", got)
	}
	f.apply(taking("other", "cart", "search"))
	f.eventually("two takeovers", func() bool { return len(f.noticed()) == 2 })
	for i, name := range []string{"cart", "search"} {
		from := kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name}
		example := "GET https://" + name + ".example.org/deep: Ingress shop/" + name + " -> RouteGroup other/all"
		if got := f.noticed()[i]; got.From != from || got.To != taker || got.Lost != 1 || got.Example != example || got.At.IsZero() {
			t.Errorf("noticed %+v, want %s", got, example)
		}
		var texts []string
		for _, p := range events() {
			if p.Reason == rules.Takeover && strings.Contains(p.Message, example) && p.Severity == rules.Warning {
				texts = append(texts, p.Owner.String())
			}
		}
		if slices.Sort(texts); !slices.Equal(texts, []string{from.String(), taker.String()}) {
			t.Errorf("%s: Events of %q", example, texts)
		}
	}
	f.logged(server.LogTakeover)
	if m := f.metrics(); !strings.Contains(m, "routesrv_takeovers_total 2\n") {
		t.Error("the metric does not count two")
	}
	f.delete("search") // its team needs no Event about it
	f.eventually("the deletion", func() bool { return !strings.Contains(f.get("/routes").body, "kube_shop__search__") })
	for _, p := range events() {
		if p.Owner.Name == "search" {
			t.Errorf("an Event for an object that is gone: %+v", p)
		}
	}
}
