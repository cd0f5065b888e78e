package explain_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
)

// FuzzExplain: whatever an object contains, the answer can be shown on a terminal, and its first line is the same each time.
func FuzzExplain(f *testing.F) {
	for _, s := range [][4]string{
		{"shop.example.org", "/cart", `redirectTo(302, "https://shop.example.org/")`, `Host("x")`},
		{"*.example.org", "/(", `redirectTo(302, "")`, `Path("/a") && Path("/b")`},
		{"a\nb", "/:x/*y", "setpath()", `Method("GET") && Method("PUT")`},
		{"", "", `redirectTo(302, "%zz")`, `Methods("put")`},
		{"SHOP.example.org:80", "^/a.*$", "\x1b[31m", `HeaderRegexp("a", "(")`},
		{"a", "/a\x00b", `redirectToLower(302)`, "Traffic(0.3)"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, host, path, filters, predicates string) {
		backend := &kube.IngressBackend{Service: "s", PortNumber: 80}
		s := &kube.Snapshot{Intent: kube.Intent{
			Ingresses: []*kube.Ingress{{
				Meta: kube.Meta{Namespace: "shop", Name: "a", Annotations: kube.PairsOf(map[string]string{
					"zalando.org/skipper-filter": filters, "zalando.org/skipper-predicate": predicates, "zalando.org/backend-weights": filters,
				})},
				Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: host, HTTP: true, Paths: []kube.IngressPath{
					{Path: path, Backend: backend}, {Path: path, PathType: "Prefix", Backend: backend},
				}}}},
			}, {Meta: kube.Meta{Namespace: "shop", Name: "no-spec"}}},
			RouteGroups: []*kube.RouteGroup{{
				Meta: kube.Meta{Namespace: "shop", Name: "a"},
				Spec: &kube.RouteGroupSpec{
					Hosts: []string{host, "b.example.org"}, Backends: []*kube.RouteGroupBackend{{Name: "b", Type: "shunt"}},
					Routes: []*kube.RouteSpec{{
						PathRegexp: path, Filters: []string{filters}, Predicates: []string{predicates}, Backends: []*kube.BackendReference{{BackendName: "b"}},
					}},
				},
			}, {Meta: kube.Meta{Namespace: "shop", Name: "no-spec"}}},
		}, Backends: kube.Backends{Services: []*kube.Service{{Namespace: "shop", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}}}}
		c, err := compile.New(rules.Options{HTTPSRedirect: true})
		if err != nil {
			t.Fatal(err)
		}
		result := c.Compile(s)
		queries := []explain.Query{{Host: host}, {Host: "b.example.org"}}
		for _, kind := range []kube.Kind{kube.KindIngress, kube.KindRouteGroup} {
			for _, name := range []string{"a", "no-spec"} {
				queries = append(queries, explain.Query{Kind: kind, Namespace: "shop", Name: name})
			}
		}
		for r := range result.Routes.All() {
			queries = append(queries, explain.Query{Route: r.ID})
		}
		for _, q := range queries {
			var first, again bytes.Buffer
			for _, b := range []*bytes.Buffer{&first, &again} {
				if err := explain.Explain(explain.Input{Result: c.Latest()}, q).WriteText(b); err != nil {
					t.Fatal(err)
				}
			}
			if text := first.String(); text != again.String() || len(text) < 3 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\r") {
				t.Errorf("%s: %q, then %q", q, text, again.String())
			}
		}
	})
}
