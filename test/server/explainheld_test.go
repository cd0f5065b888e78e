package server_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// explained asks about an object, a host or a route.
func (f *fixture) explained(query string) (e explain.Explanation, text string) {
	f.t.Helper()
	got := f.request("GET", f.support, "/explain?format=json&"+query)
	if err := json.Unmarshal([]byte(got.body), &e); err != nil {
		f.t.Fatalf("%s: %v in %s", query, err, got.body)
	}
	return e, f.request("GET", f.support, "/explain?"+query).body
}

// about is the query for an Ingress of the namespace shop.
func about(name string) string {
	return url.Values{"kind": {"ingress"}, "namespace": {"shop"}, "name": {name}}.Encode()
}

// TestExplainDuringAHoldIsAboutWhatIsServed: most Ingresses were deleted, one was changed and one is new. The guard keeps those that would be
// lost, and each answer says so; the others are served.
func TestExplainDuringAHoldIsAboutWhatIsServed(t *testing.T) {
	names := shops(30)
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, nil)
	if e, _ := f.explained(about("shop3")); e.Result != "fine" || e.Hold != nil {
		t.Fatalf("before: %+v", e)
	}
	f.breakSource(true)
	f.polled()
	f.delete(names[:20]...)
	f.apply(strings.ReplaceAll(ingress("shop25"), "shop25.example.org", "other.example.org") + ingress("fresh"))
	f.breakSource(false)
	g := f.held()

	held := "the guard holds it back since " + g.Since.UTC().Format("2006-01-02T15:04:05Z") + " (routes_lost: 2"
	for _, c := range []struct {
		query, begin, newest, result, advice string
		contains                             []string
	}{
		{
			about("shop3"), "Ingress shop/shop3 is served: 1 route for shop3.example.org, 1 ready pod behind Service s. " +
				"The newest read of the cluster no longer shows Ingress shop/shop3: " + held, explain.NewestDeleted, "warning",
			"Apply it again if it was deleted by mistake. If the change is intended, wait for that time", []string{"until " + g.ReleaseAt.UTC().Format("2006-01-02T15:04")},
		},
		{
			"host=shop3.example.org", "Host shop3.example.org is served by Ingress shop/shop3. The newest read of the cluster no longer shows Ingress shop/shop3: " + held,
			explain.NewestDeleted, "warning", "Apply it again", nil,
		},
		{
			"route=kube_shop__shop3__shop3_example_org_____s", "Ingress shop/shop3 is served: 1 route", explain.NewestDeleted, "warning", "Apply it again", nil,
		},
		{
			about("shop25"), "Ingress shop/shop25 is served: 1 route for other.example.org, 1 ready pod behind Service s.", "", "fine", "", nil,
		},
		{about("shop26"), "Ingress shop/shop26 is served: 1 route for shop26.example.org, 1 ready pod behind Service s.", "", "fine", "", nil},
		{about("fresh"), "Ingress shop/fresh is served: 1 route for fresh.example.org, 1 ready pod behind Service s.", "", "fine", "", nil},
	} {
		e, text := f.explained(c.query)
		if !strings.HasPrefix(e.Cause, c.begin) || e.Result != c.result || !strings.Contains(e.Advice, c.advice) || len(e.Objects) != 1 || e.Objects[0].Newest != c.newest {
			t.Errorf("%s: %s %q, advice %q, objects %+v\nwant %s %q", c.query, e.Result, e.Cause, e.Advice, e.Objects, c.result, c.begin)
			continue
		}
		for _, part := range c.contains {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in\n%s", c.query, part, text)
			}
		}
		if c.newest != "" && (!strings.Contains(text, "newest") || e.Objects[0].Routes[0].State != explain.StateServed || len(e.Objects[0].Requests) == 0 || e.Objects[0].Requests[0].Result != "own") {
			t.Errorf("%s: routes %+v, requests %+v in\n%s", c.query, e.Objects[0].Routes, e.Objects[0].Requests, text)
		}
	}
	if e, _ := f.explained(about("never")); e.Result != explain.NotFound {
		t.Errorf("an object that is nowhere: %+v", e)
	}
	f.apply(ingresses(names...))
	f.state("") // the object that has changed is as before, too
	if e, _ := f.explained(about("shop3")); e.Result != "fine" || e.Hold != nil || e.Objects[0].Newest != "" {
		t.Errorf("after the hold: %+v", e)
	}
}

// TestExplainSaysThatAddressesAreKept: the services lost all pods, and their last addresses are served.
func TestExplainSaysThatAddressesAreKept(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(shops(30)...), true, nil)
	f.apply(pod("s", ""))
	if g := f.held(); !g.keeps(kube.KindService) {
		t.Fatalf("held: %+v", g)
	}
	e, text := f.explained(about("shop3"))
	if want := "Ingress shop/shop3 is served: 1 route for shop3.example.org, 1 ready pod behind Service s. In the newest read of the cluster its " +
		"services have no ready pods, and their last addresses are kept: the guard holds it back"; !strings.HasPrefix(e.Cause, want) || e.Result != "warning" {
		t.Errorf("%s", text)
	}
}

// TestExplainOfAHoldAfterARestart: the history knows the objects that were deleted while the server did not run.
func TestExplainOfAHoldAfterARestart(t *testing.T) {
	dir := t.TempDir()
	state := func(cfg *server.Config) { cfg.StateDir, cfg.Compile.Healthcheck = dir, true }
	names := []string{"shop-app-0", "shop-app-1", "shop-app-2"}
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, state)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	again := startReading(t, backend("s", "10.2.0.1"), true, state)
	if g := again.held(); g.Reason != guard.OnlyGenerated {
		t.Fatalf("held: %+v", g)
	}
	e, text := again.explained(about("shop-app-1"))
	if !strings.HasPrefix(e.Cause, "Ingress shop/shop-app-1 is served: 1 route for shop-app-1.example.org, 1 ready pod behind Service s. The newest read of the cluster no longer shows") ||
		!strings.Contains(text, "time does not end this hold") || e.Result != "warning" {
		t.Errorf("%s", text)
	}
	if e, _ := again.explained(about("shop-app-7")); e.Result != explain.NotFound {
		t.Errorf("an object that is nowhere: %+v", e)
	}
}
