package explain_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
)

func ticket(t testing.TB, name string) (*compile.Compiler, *kube.Snapshot) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, a)
}

func TestParseQuery(t *testing.T) {
	for words, want := range map[string]string{
		"ingress shop/cart": "Ingress shop/cart", "RG shop/cart": "RouteGroup shop/cart", "ing cart": "Ingress default/cart",
		"Shop.example.org": "host shop.example.org", "localhost": "host localhost", "kube_shop__cart": "route kube_shop__cart",
		"": "", "a b c": "", "pod a/b": "", "ing /b": "", "ing a/": "", "ing a/b/c": "", "a/b": "",
	} {
		q, err := explain.ParseQuery(strings.Split(words, " ")...)
		if want == "" && err == nil || want != "" && (err != nil || q.String() != want) {
			t.Errorf("%q: %s, %v, want %q", words, q, err, want)
		}
	}
}

// TestEverythingCanBeAskedAbout: each object, host and route of all tickets gets a sentence, and an object with an error among
// its problems is never reported as fine.
func TestEverythingCanBeAskedAbout(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tickets: %v", err)
	}
	asked := 0
	for _, path := range paths {
		c, s := ticket(t, strings.TrimSuffix(filepath.Base(path), ".txtar"))
		var queries []explain.Query
		for _, o := range s.Ingresses {
			queries = append(queries, explain.Query{Kind: kube.KindIngress, Namespace: o.Namespace, Name: o.Name})
			for _, r := range o.Spec.Rules {
				queries = append(queries, explain.Query{Host: r.Host})
			}
		}
		for _, o := range s.RouteGroups {
			queries = append(queries, explain.Query{Kind: kube.KindRouteGroup, Namespace: o.Namespace, Name: o.Name})
		}
		for r := range c.Latest().Routes.All() {
			queries = append(queries, explain.Query{Route: r.ID})
		}
		for _, q := range queries {
			asked++
			e := explain.Explain(explain.Input{Result: c.Latest()}, q)
			if !strings.HasSuffix(e.Cause, ".") || strings.HasSuffix(e.Cause, "..") || e.Result == "" || e.Result == explain.NotFound {
				t.Errorf("%s: %s: %s, %q", path, q, e.Result, e.Cause)
			}
			for _, o := range e.Objects {
				for _, p := range o.Problems {
					if p.Severity == rules.Error && e.Result != "error" {
						t.Errorf("%s: %s is %s with the error %s", path, q, e.Result, p.What)
					}
				}
			}
			var text bytes.Buffer
			if err := e.WriteText(&text); err != nil || !strings.HasPrefix(text.String(), e.Cause) {
				t.Errorf("%s: %v, %s", q, err, text.String())
			}
		}
	}
	if asked < 60 {
		t.Errorf("only %d questions", asked)
	}
}

// TestExplainBeforeTheFirstRead: a compiler that has not compiled yet reports that nothing was read.
func TestExplainBeforeTheFirstRead(t *testing.T) {
	c, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e := explain.Explain(explain.Input{Result: c.Latest()}, explain.Query{Host: "a.example.org"}); e.Result != explain.NotFound || !strings.Contains(e.Cause, "No data yet") {
		t.Errorf("%+v", e)
	}
}

// TestAChangeThatIsHeldIsTold: the answer mentions a held table, since proxies then do not get what is compiled.
func TestAChangeThatIsHeldIsTold(t *testing.T) {
	c, _ := ticket(t, "all-is-well")
	q := explain.Query{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"}
	e := explain.Explain(explain.Input{Result: c.Latest(), HasServed: true}, q) // an older, empty table
	if want := "Ingress shop/cart: its latest change is not served yet (1 route)"; !strings.HasPrefix(e.Cause, want) || e.Objects[0].Routes[0].State != explain.StateWaiting {
		t.Errorf("%s, %+v, want %s", e.Cause, e.Objects[0].Routes, want)
	}
	e = explain.Explain(explain.Input{Result: c.Latest(), HasServed: true, Served: c.Latest().Routes}, q)
	if e.Result != "fine" || e.Objects[0].Routes[0].State != explain.StateServed {
		t.Errorf("%s: %s", e.Result, e.Cause)
	}
}

// TestWhatIsNotReadIsTold: the answer names the namespace or selector of the server when it can be why an object is missing.
func TestWhatIsNotReadIsTold(t *testing.T) {
	c, _ := ticket(t, "all-is-well")
	in := explain.Input{Result: c.Latest(), Namespace: "shop", Selectors: map[kube.Kind]map[string]string{kube.KindIngress: {"team": "a", "on": ""}}}
	e := explain.Explain(in, explain.Query{Kind: kube.KindIngress, Namespace: "pay", Name: "till"})
	if want := `only the namespace "shop" is read, and only objects of the kind Ingress with the label on,team=a are read`; !strings.Contains(e.Advice, want) {
		t.Errorf("advice %q, want %q", e.Advice, want)
	}
	e = explain.Explain(in, explain.Query{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"})
	if !strings.Contains(e.Objects[0].Selection, `only the namespace "shop" is read`) {
		t.Errorf("selection %q", e.Objects[0].Selection)
	}
}

// TestObjectsThatAreNotReadAreNoReason: with a selector for Services, one that seems to be missing may exist.
func TestObjectsThatAreNotReadAreNoReason(t *testing.T) {
	only := map[kube.Kind]map[string]string{kube.KindService: {"routed": "yes"}, kube.KindEndpoints: {"routed": "yes"}}
	for name, want := range map[[2]string]string{
		{"service-in-another-namespace", "ingress shop/cart"}: "Only objects of the kind Service with the label routed=yes are read here.",
		{"selector-typo", "ingress shop/cart"}:                "Only objects of the kind Endpoints with the label routed=yes are read here.",
	} {
		c, _ := ticket(t, name[0])
		q, err := explain.ParseQuery(strings.Fields(name[1])...)
		if err != nil {
			t.Fatal(err)
		}
		if e := explain.Explain(explain.Input{Result: c.Latest(), Selectors: only}, q); !strings.HasSuffix(e.Advice, want) {
			t.Errorf("%s: advice %q, want %q", name, e.Advice, want)
		}
	}
}

// TestSinceIsShown: the answer shows how long a problem has existed, if the caller recorded that.
func TestSinceIsShown(t *testing.T) {
	c, _ := ticket(t, "port-name")
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	e := explain.Explain(explain.Input{Result: c.Latest(), Since: func(id string) (time.Time, bool) { return at, id == "nobody" || len(id) == 12 }},
		explain.Query{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"})
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil || !strings.Contains(text.String(), ", since 2026-02-03T04:05:06Z\n") {
		t.Errorf("%v, %s", err, text.String())
	}
}

// TestAnswersAreBounded: an object may have any number of paths and hosts, and the answer stays short enough for people.
func TestAnswersAreBounded(t *testing.T) {
	backend := &kube.IngressBackend{Service: "s", PortNumber: 80}
	ing := &kube.Ingress{Meta: kube.Meta{Namespace: "shop", Name: "many"}, Spec: &kube.IngressSpec{}}
	for i := range 100 {
		rule := kube.IngressRule{Host: fmt.Sprintf("h%d.example.org", i), HTTP: true}
		for j := range 5 {
			rule.Paths = append(rule.Paths, kube.IngressPath{Path: fmt.Sprintf("/p%d", j), PathType: "Exact", Backend: backend})
		}
		ing.Spec.Rules = append(ing.Spec.Rules, rule)
	}
	s := &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ing}}, Backends: kube.Backends{
		Services: []*kube.Service{{Namespace: "shop", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}},
	}}
	for i := range 30 {
		s.Ingresses = append(s.Ingresses, &kube.Ingress{
			Meta: kube.Meta{Namespace: "shop", Name: fmt.Sprint("other", i)},
			Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: "h0.example.org", HTTP: true, Paths: []kube.IngressPath{
				{Path: fmt.Sprint("/other", i), PathType: "Exact", Backend: backend},
			}}}},
		})
	}
	c, err := compile.New(rules.Options{HTTPSRedirect: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Compile(s)
	in, q := explain.Input{Result: c.Latest()}, explain.Query{Kind: kube.KindIngress, Namespace: "shop", Name: "many"}
	e, searches := explain.Explain(in, q), explain.Searches(in, q)
	o := e.Objects[0]
	if len(o.Hosts) != 50 || len(o.Routes) != 200 || len(o.Requests) != 20 || searches != 50 {
		t.Errorf("%d hosts, %d routes, %d requests, %d searches for a host: want 50, 200, 20, 50", len(o.Hosts), len(o.Routes), len(o.Requests), searches)
	}
	if len(o.Hosts[0].Others) != 30 {
		t.Errorf("%d others have the first host, want 30", len(o.Hosts[0].Others))
	}
	e = explain.Explain(explain.Input{Result: c.Latest()}, explain.Query{Host: "h0.example.org"})
	if e.Total != 31 || len(e.Objects) != 20 {
		t.Errorf("%d of %d objects, want 20 of 31", len(e.Objects), e.Total)
	}
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n28 objects more; -o json has the first 20\n", "\n  route      and 92 more\n", "\n  route      1000 in all, with companions\n", "\n  request    and 14 more\n",
		"\n  host       and 44 more\n", ", Ingress shop/other1, Ingress shop/other10 and 27 more have as well\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestRequestsAreMadeUpOnce: backends that share a path share one made-up request, and the number of hosts looked at is limited.
func TestRequestsAreMadeUpOnce(t *testing.T) {
	hosts := make([]kube.IngressRule, 15)
	for i := range hosts {
		hosts[i] = kube.IngressRule{Host: fmt.Sprintf("h%d.example.org", i), HTTP: true, Paths: []kube.IngressPath{
			{Path: "/", PathType: "Exact", Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}},
		}}
	}
	s := &kube.Snapshot{
		Intent: kube.Intent{
			Ingresses: []*kube.Ingress{{Meta: kube.Meta{Namespace: "shop", Name: "hosts"}, Spec: &kube.IngressSpec{Rules: hosts}}},
			RouteGroups: []*kube.RouteGroup{{Meta: kube.Meta{Namespace: "shop", Name: "split"}, Spec: &kube.RouteGroupSpec{
				Hosts:           []string{"shop.example.org"},
				Backends:        []*kube.RouteGroupBackend{{Name: "a", Type: "shunt"}, {Name: "b", Type: "shunt"}},
				DefaultBackends: []*kube.BackendReference{{BackendName: "a", Weight: 9}, {BackendName: "b", Weight: 1}},
				Routes:          []*kube.RouteSpec{{Path: "/cart", Methods: []string{"GET", "POST"}}},
			}}},
		},
		Backends: kube.Backends{Services: []*kube.Service{{Namespace: "shop", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}}},
	}
	c, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Compile(s)
	for name, want := range map[string]int{"hosts": 10, "split": 2} {
		kind := kube.KindIngress
		if name == "split" {
			kind = kube.KindRouteGroup
		}
		e := explain.Explain(explain.Input{Result: c.Latest()}, explain.Query{Kind: kind, Namespace: "shop", Name: name})
		if got := e.Objects[0].Requests; len(got) != want {
			t.Errorf("%s: %d requests, want %d: %+v", name, len(got), want, got)
		}
		for _, r := range e.Objects[0].Requests {
			if r.Result != "own" {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	e := explain.Explain(explain.Input{Result: c.Latest()}, explain.Query{Host: "shop.exampel.org"})
	if e.Advice != "Did you mean shop.example.org?" {
		t.Errorf("advice %q", e.Advice)
	}
}

// TestTheWorstIsTheCause: of several faults the answer names the most severe one; for a route, the fault of that route.
func TestTheWorstIsTheCause(t *testing.T) {
	path := func(path, service string) kube.IngressPath {
		return kube.IngressPath{Path: path, PathType: "Exact", Backend: &kube.IngressBackend{Service: service, PortNumber: 80}}
	}
	ing := &kube.Ingress{
		Meta: kube.Meta{Namespace: "shop", Name: "cart"},
		Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: "shop.example.org", HTTP: true, Paths: []kube.IngressPath{path("/a", "idle")}}}},
	}
	annotations := map[string]string{
		"zalando.org/skipper-routes":  `own: Method("GET") -> nothing() -> <shunt>`,
		"zalando.org/backend-weights": `{"idle": 1, "absent": 1}`,
	}
	annotate := func(key, value string) {
		annotations[key] = value
		ing.Annotations = kube.PairsOf(annotations)
	}
	service := func(name string) *kube.Service {
		return &kube.Service{Namespace: "shop", Name: name, Selector: true, Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}
	}
	ask := func(q explain.Query) string {
		c, err := compile.New(rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Compile(&kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ing}}, Backends: kube.Backends{Services: []*kube.Service{service("idle")}}})
		return explain.Explain(explain.Input{Result: c.Latest()}, q).Cause
	}
	object := explain.Query{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() { ing.Annotations = kube.PairsOf(annotations) }, "proxies know no filter nothing"},
		{func() { annotate("zalando.org/skipper-routes", `own: Method("GET") -> <shunt>`) }, `no pod is behind Service "idle"`},
		{func() { ing.Spec.Rules[0].Paths = append(ing.Spec.Rules[0].Paths, path("/b", "gone")) }, `there is no Service "gone"`},
		{func() { annotate("kubernetes.io/ingress.class", "x") }, `its class is "x"`},
	} {
		step.change()
		if got := ask(object); !strings.HasPrefix(got, "Ingress shop/cart: "+step.want) {
			t.Errorf("cause %q, want %q", got, step.want)
		}
	}
	annotate("kubernetes.io/ingress.class", "")
	annotate("zalando.org/skipper-routes", `own: Method("GET") -> nothing() -> <shunt>`)
	if got := ask(explain.Query{Route: "kube_shop__cart_own_0__shop_example_org_a____"}); !strings.Contains(got, "proxies know no filter nothing") {
		t.Errorf("of the route: %q", got)
	}
}
