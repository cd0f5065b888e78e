package takeover_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

func ingress(tb testing.TB, namespace, name, path string) *kube.Ingress {
	tb.Helper()
	text := fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q, "annotations": {"zalando.org/skipper-ingress-path-mode": "path-prefix"}},
		"spec": {"rules": [{"host": "shop.example.org", "http": {"paths": [{"path": %q, "pathType": "Prefix",
		"backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}`, namespace, name, path)
	o, err := kube.DecodeJSON(kube.KindIngress, []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return o.(*kube.Ingress)
}

func service(namespace string) *kube.Service {
	return &kube.Service{Namespace: namespace, Name: "web", Type: "ExternalName", ExternalName: "web.example.net", Ports: []kube.ServicePort{{Port: 80}}}
}

// TestTryExchangesObjects: a new object takes a subtree, its earlier version does not count, and its deletion by the same change gives back.
func TestTryExchangesObjects(t *testing.T) {
	compiler, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := &kube.Snapshot{
		Intent:   kube.Intent{Ingresses: []*kube.Ingress{ingress(t, "shop-team", "cart", "/"), ingress(t, "evil", "all-of-it", "/old")}},
		Backends: kube.Backends{Services: []*kube.Service{service("shop-team"), service("evil")}},
	}
	result := compiler.Compile(snapshot)
	owner := explain.OwnerFunc(result.Inspect, snapshot)
	for path, want := range map[string]string{
		"/cart": "GET https://shop.example.org/cart: Ingress shop-team/cart -> Ingress evil/all-of-it",
		"/old":  "",
	} {
		object := ingress(t, "evil", "all-of-it", path)
		trial, err := result.Try(object)
		if err != nil {
			t.Fatal(err)
		}
		r, err := takeover.Try(result, []takeover.Tried{{Ref: object.Ref(), Trial: trial}}, owner, takeover.Options{Proxy: match.Options{NormalizeHost: true}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range r.Takeovers {
			got = append(got, one.String())
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
}

// TestTheCatchAllOfAHostTakesFromOthers: an object that brings a host for one path takes all other paths of that host from an object that names it in a
// predicate; they get a 404 then.
func TestTheCatchAllOfAHostTakesFromOthers(t *testing.T) {
	at := func(namespace, name, host, path, kind string) *kube.Ingress {
		o := *ingress(t, namespace, name, path)
		spec := *o.Spec
		spec.Rules = []kube.IngressRule{spec.Rules[0]}
		paths := slices.Clone(spec.Rules[0].Paths)
		paths[0].PathType = kind
		spec.Rules[0].Host, spec.Rules[0].Paths, o.Spec = host, paths, &spec
		return &o
	}
	victim := at("shop-team", "all", "", "/", "Prefix")
	victim.Annotations = kube.PairsOf(map[string]string{
		"zalando.org/skipper-predicate": `Host("^new[.]example[.]org$")`, "zalando.org/skipper-ingress-path-mode": "path-prefix",
	})
	compiler, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := &kube.Snapshot{
		Intent:   kube.Intent{Ingresses: []*kube.Ingress{victim}},
		Backends: kube.Backends{Services: []*kube.Service{service("shop-team"), service("evil")}},
	}
	result := compiler.Compile(before)
	owner := explain.OwnerFunc(result.Inspect, before)
	object := at("evil", "one", "new.example.org", "/one", "Exact")
	trial, err := result.Try(object)
	if err != nil {
		t.Fatal(err)
	}
	tried, err := takeover.Try(result, []takeover.Tried{{Ref: object.Ref(), Trial: trial}}, owner, takeover.Options{Proxy: match.Options{NormalizeHost: true}})
	if err != nil {
		t.Fatal(err)
	}

	after := *before
	after.Ingresses = append(slices.Clone(before.Ingresses), object)
	next := compiler.Compile(&after)
	found := takeover.Find(takeover.Side{Routes: result.Routes, Owner: owner},
		takeover.Side{Routes: next.Routes, Owner: explain.OwnerFunc(next.Inspect, &after)}, takeover.Options{Proxy: match.Options{NormalizeHost: true}})
	for what, r := range map[string]*takeover.Report{"tried": tried, "found": found} {
		if len(r.Takeovers) != 1 {
			t.Fatalf("%s: takeovers are %+v, unknown %+v", what, r.Takeovers, r.Unknown)
		}
		one := r.Takeovers[0]
		if one.From.Name != "all" || one.To.Name != "one" || one.To.Namespace != "evil" {
			t.Errorf("%s: %s -> %s", what, one.From, one.To)
		}
	}
	refused := takeover.Policy{Routes: 1}.Refused(found, func(_, _ shadowdiff.Owner) bool { return false })
	own, _ := next.Inspect(object.Ref())
	if !slices.ContainsFunc(own.Routes, func(r compile.InspectedRoute) bool { return refused[r.ID] != "" }) {
		t.Errorf("refused are %v, which is no route of the object", refused)
	}
}

// TestLosingACatchAllIsATakeover: an object of another namespace brings a path for a host for which the host gets no catch-all any more. Requests for all other
// paths, which got a 404, reach an object for any host.
func TestLosingACatchAllIsATakeover(t *testing.T) {
	decode := func(namespace, name, host, path, kind string) *kube.Ingress {
		const backend = `{"service": {"name": "web", "port": {"number": 80}}}`
		spec := fmt.Sprintf(`{"rules": [{"host": %q, "http": {"paths": [{"path": %q, "pathType": %q, "backend": %s}]}}]}`, host, path, kind, backend)
		if host == "" {
			spec = fmt.Sprintf(`{"defaultBackend": %s}`, backend)
		}
		text := fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q}, "spec": %s}`, namespace, name, spec)
		o, err := kube.DecodeJSON(kube.KindIngress, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o.(*kube.Ingress)
	}
	shop, all := decode("shop", "api", "shop.example.org", "/api", "ImplementationSpecific"), decode("all", "rest", "", "", "")
	for _, c := range []struct {
		name   string
		before []*kube.Ingress
		object *kube.Ingress
		want   string
	}{
		{"a subtree", []*kube.Ingress{all, shop}, decode("new", "sub", "shop.example.org", "/sub", "Prefix"), "Ingress shop/api -> Ingress new/sub"},
		{"the rest of the host", []*kube.Ingress{all, shop}, decode("new", "root", "shop.example.org", "/", "Prefix"), "Ingress shop/api -> Ingress new/root"},
		{"an expression", []*kube.Ingress{all, shop}, decode("new", "expr", "shop.example.org", "/sub", "ImplementationSpecific"), ""},
		{"its own subtree", []*kube.Ingress{all, shop}, decode("shop", "api", "shop.example.org", "/api", "Prefix"), ""},
		{"another host", []*kube.Ingress{all, shop}, decode("shop", "api", "other.example.org", "/api", "ImplementationSpecific"), ""},
	} {
		compiler, err := compile.New(rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &kube.Snapshot{
			Intent:   kube.Intent{Ingresses: c.before},
			Backends: kube.Backends{Services: []*kube.Service{service("shop"), service("all"), service("new")}},
		}
		result := compiler.Compile(s)
		owner := explain.OwnerFunc(result.Inspect, s)
		trial, err := result.Try(c.object)
		if err != nil {
			t.Fatal(err)
		}
		options := takeover.Options{Proxy: match.Options{NormalizeHost: true}}
		tried, err := takeover.Try(result, []takeover.Tried{{Ref: c.object.Ref(), Trial: trial}}, owner, options)
		if err != nil {
			t.Fatal(err)
		}
		after := *s
		after.Ingresses = slices.DeleteFunc(slices.Clone(c.before), func(i *kube.Ingress) bool { return i.Ref() == c.object.Ref() })
		after.Ingresses = append(after.Ingresses, c.object)
		next := compiler.Compile(&after)
		found := takeover.Find(takeover.Side{Routes: result.Routes, Owner: owner},
			takeover.Side{Routes: next.Routes, Owner: explain.OwnerFunc(next.Inspect, &after)}, options)
		for what, r := range map[string]*takeover.Report{"tried": tried, "found": found} {
			var got []string
			for _, one := range r.Takeovers {
				got = append(got, one.From.String()+" -> "+one.To.String())
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("%s, %s: %q, want %q", c.name, what, text, c.want)
			}
		}
	}
}

// TestClonesTakeFromOthers: a clone rule makes a route of an object that matches other requests than the object asks for.
func TestClonesTakeFromOthers(t *testing.T) {
	of := func(namespace, name, path, method string) *kube.Ingress {
		o := ingress(t, namespace, name, path)
		o.Annotations = kube.PairsOf(map[string]string{"zalando.org/skipper-predicate": "Method(\"" + method + "\")", "zalando.org/skipper-ingress-path-mode": "path-prefix"})
		return o
	}
	compiler, err := compile.New(rules.Options{CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile(`^Method[(]"GET"[)]$`), `Method("POST")`)}})
	if err != nil {
		t.Fatal(err)
	}
	before := &kube.Snapshot{
		Intent:   kube.Intent{Ingresses: []*kube.Ingress{of("shop-team", "all", "/", "POST")}},
		Backends: kube.Backends{Services: []*kube.Service{service("shop-team"), service("evil")}},
	}
	result := compiler.Compile(before)
	object := of("evil", "one", "/one", "GET")
	trial, err := result.Try(object)
	if err != nil {
		t.Fatal(err)
	}
	r, err := takeover.Try(result, []takeover.Tried{{Ref: object.Ref(), Trial: trial}}, explain.OwnerFunc(result.Inspect, before), takeover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Takeovers) != 1 || !strings.HasPrefix(r.Takeovers[0].String(), "POST https://shop.example.org/one: Ingress shop-team/all -> Ingress evil/one") {
		t.Errorf("takeovers are %v", r.Takeovers)
	}
}
