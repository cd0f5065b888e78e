package compile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
)

// TestEveryReasonIsExplained: each constant has its place among the reasons, with texts in the form in which they are joined.
func TestEveryReasonIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		if name, err := strconv.Unquote(lit.Value); err == nil {
			declared++
			info := compile.Reason(name).Info()
			if info.Means == name || info.Means == "" || strings.HasSuffix(info.Means, ".") {
				t.Errorf("%s means %q: want a clause without a full stop", name, info.Means)
			}
			if info.Do != "" && !strings.HasSuffix(info.Do, ".") || info.Do == "" && info.Severity > compile.Info {
				t.Errorf("%s: what to do is %q: want a sentence", name, info.Do)
			}
		}
		return true
	})
	if all := compile.Reasons(); len(all) != declared || declared < 20 {
		t.Errorf("%d reasons are declared, %d explained", declared, len(all))
	}
}

func ports(names ...string) []kube.ServicePort {
	var all []kube.ServicePort
	for i, n := range names {
		all = append(all, kube.ServicePort{Name: n, Port: 80 + i, TargetPort: kube.NumberPort(8080 + i)})
	}
	return all
}

func ingressTo(service, port string, annotations map[string]string) *kube.Ingress {
	return &kube.Ingress{Meta: kube.Meta{Namespace: "shop", Name: "cart", Annotations: annotations}, Spec: &kube.IngressSpec{
		Rules: []kube.IngressRule{{Host: "shop.example.org", HTTP: true, Paths: []kube.IngressPath{
			{Path: "/cart", PathType: "Prefix", Backend: &kube.IngressBackend{Service: service, PortName: port}},
		}}},
	}}
}

// TestProblemsSpeakToTheTeam holds the words that application developers read.
func TestProblemsSpeakToTheTeam(t *testing.T) {
	ready := kube.Subset{Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Name: "http", Port: 8080}}}
	for _, c := range []struct {
		name      string
		ingress   *kube.Ingress
		endpoints []kube.Subset
		reason    compile.Reason
		want      string
	}{
		{"port", ingressTo("cart", "htp", nil), []kube.Subset{ready}, compile.PortNotFound,
			`Service "cart" has no port "htp", only 80 ("http"), so requests are answered with 502. Name a port`},
		{"service", ingressTo("card", "http", nil), []kube.Subset{ready}, compile.ServiceNotFound,
			`there is no Service "card" in the namespace "shop", so the routes to it are left out. Create the Service`},
		{"selector", ingressTo("cart", "http", nil), nil, compile.NoEndpoints,
			`no pod is behind Service "cart": its selector matches none, or none runs, so requests are answered with 502. Compare`},
		{"not ready", ingressTo("cart", "http", nil), []kube.Subset{{NotReady: 3}}, compile.NoEndpoints,
			`Service "cart" has 3 pods, and none of them is ready, so requests`},
		{"class", ingressTo("cart", "http", map[string]string{"kubernetes.io/ingress.class": "skiper"}), []kube.Subset{ready}, compile.NotSelected,
			`its class is "skiper" (the annotation kubernetes.io/ingress.class), and only classes that match "skipper" are served`},
		{"filter", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-filter": `setpath("/")`}), []kube.Subset{ready}, compile.WouldReject,
			`proxies know no filter setpath (is setPath meant?), so they ignore the routes that have it. Correct`},
		{"arguments", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-predicate": `Traffic(30)`}), []kube.Subset{ready}, compile.WouldReject,
			`proxies do not accept the predicate Traffic(30): argument 1: 30: want a number from 0 to 1, so they ignore`},
		{"annotation", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-filter": `setPath("/`}), []kube.Subset{ready}, compile.InvalidObject,
			`the object is not valid, so nothing of it is served: invalid "zalando.org/skipper-filter" annotation`},
	} {
		s := &kube.Snapshot{Backends: kube.Backends{
			Services:  []*kube.Service{{Namespace: "shop", Name: "cart", Ports: ports("http")}},
			Endpoints: []*kube.Endpoints{{Namespace: "shop", Name: "cart", Subsets: c.endpoints}},
		}}
		problems := mustCompiler(t, compile.Options{}).Check(s, c.ingress)
		at := slices.IndexFunc(problems, func(p compile.Problem) bool { return p.Reason == c.reason })
		if at < 0 || !strings.HasPrefix(problems[at].Text(), c.want) {
			t.Errorf("%s: %s, want %s: %s", c.name, texts(problems), c.reason, c.want)
		}
	}
}

func texts(problems []compile.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString("\n" + string(p.Reason) + ": " + p.Text())
	}
	return b.String()
}

// TestIDsStayAsLongAsTheProblem: numbers in the text do not count, and no two problems have one id.
func TestIDsStayAsLongAsTheProblem(t *testing.T) {
	ids := map[string]bool{}
	for _, notReady := range []int{0, 1, 5} {
		s := &kube.Snapshot{Backends: kube.Backends{
			Services:  []*kube.Service{{Namespace: "shop", Name: "cart", Ports: ports("http")}},
			Endpoints: []*kube.Endpoints{{Namespace: "shop", Name: "cart", Subsets: []kube.Subset{{NotReady: notReady}}}},
		}}
		for _, p := range mustCompiler(t, compile.Options{}).Check(s, ingressTo("cart", "http", nil)) {
			ids[p.ID()] = true
		}
	}
	if len(ids) != 1 || !ids["a37d7ccc8616"] {
		t.Errorf("ids %v, want the one that other releases have", ids)
	}
	for _, c := range goldenCases(t) {
		seen := map[string]compile.Problem{}
		for _, p := range mustCompiler(t, c.options).Compile(c.snapshot).Problems {
			if other, again := seen[p.ID()]; again && p.Owner != (kube.Ref{}) && p != other {
				t.Errorf("%s: one id for two problems: %+v and %+v", c.path, p, other)
			}
			seen[p.ID()] = p
		}
	}
}

// TestCheckSaysWhatCompileSays: for random objects, in random clusters, whatever was checked before.
func TestCheckSaysWhatCompileSays(t *testing.T) {
	p := newPool(t)
	found := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		options := p.cases[r.IntN(len(p.cases))].options
		checker := mustCompiler(t, options)
		s := p.cases[r.IntN(len(p.cases))].snapshot
		for range 30 {
			s = p.mutate(r, s)
			next := p.mutate(r, s)
			var changed kube.Object
			if len(next.Ingresses) == len(s.Ingresses) {
				for i, ing := range next.Ingresses {
					if ing != s.Ingresses[i] && ing.Ref() == s.Ingresses[i].Ref() {
						changed = ing
					}
				}
			}
			if len(next.RouteGroups) == len(s.RouteGroups) {
				for i, rg := range next.RouteGroups {
					if rg != s.RouteGroups[i] && rg.Ref() == s.RouteGroups[i].Ref() {
						changed = rg
					}
				}
			}
			if changed == nil || duplicated(s, changed.Ref()) {
				continue
			}
			want := mustCompiler(t, options).Compile(next).ProblemsOf(changed.Ref())
			if got := checker.Check(s, changed); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s: check says %s\ncompile says %s", seed, changed.Ref(), texts(got), texts(want))
			}
			found += len(want)
		}
	}
	if found < 100 {
		t.Errorf("only %d problems were compared", found)
	}
}

// duplicated reports whether several objects have the name: an API has no such objects.
func duplicated(s *kube.Snapshot, ref kube.Ref) bool {
	n := 0
	for _, ing := range s.Ingresses {
		if ing.Ref() == ref {
			n++
		}
	}
	for _, rg := range s.RouteGroups {
		if rg.Ref() == ref {
			n++
		}
	}
	return n > 1
}
