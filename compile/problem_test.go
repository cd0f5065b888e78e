package compile_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
)

// TestEveryReasonIsExplained: each constant is listed among the reasons, with texts in a form that can be joined.
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
	return &kube.Ingress{Meta: kube.Meta{Namespace: "shop", Name: "cart", Annotations: kube.PairsOf(annotations)}, Spec: &kube.IngressSpec{
		Rules: []kube.IngressRule{{Host: "shop.example.org", HTTP: true, Paths: []kube.IngressPath{
			{Path: "/cart", PathType: "Prefix", Backend: &kube.IngressBackend{Service: service, PortName: port}},
		}}},
	}}
}

// TestProblemsSpeakToTheTeam checks the text that application developers read.
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
		{"one not ready", ingressTo("cart", "http", nil), []kube.Subset{{NotReady: 1}}, compile.NoEndpoints,
			`Service "cart" has one pod, which is not ready, so requests`},
		{"port of no pod", ingressTo("cart", "http", nil), []kube.Subset{{
			Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Name: "admin", Port: 8081}, {Name: "metrics", Port: 9090}},
		}}, compile.NoEndpoints, `no ready pod of Service "cart" has the port "8080", which is the target of its port 80, so requests`},
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
		problems := problemsOf(t, s, c.ingress)
		at := slices.IndexFunc(problems, func(p compile.Problem) bool { return p.Reason == c.reason })
		if at < 0 || !strings.HasPrefix(problems[at].Text(), c.want) {
			t.Errorf("%s: %s, want %s: %s", c.name, texts(problems), c.reason, c.want)
		}
	}
}

// problemsOf returns the problems of an Ingress with the backends of a snapshot.
func problemsOf(t *testing.T, s *kube.Snapshot, ing *kube.Ingress) []compile.Problem {
	t.Helper()
	s.Ingresses = []*kube.Ingress{ing}
	return mustCompiler(t, compile.Options{}).Compile(s).ProblemsOf(ing.Ref())
}

func texts(problems []compile.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString("\n" + string(p.Reason) + ": " + p.Text())
	}
	return b.String()
}

// TestIDsStayAsLongAsTheProblem: numbers in the text do not affect the id, and no two problems share one.
func TestIDsStayAsLongAsTheProblem(t *testing.T) {
	ids := map[string]bool{}
	for _, notReady := range []int{0, 1, 5} {
		s := &kube.Snapshot{Backends: kube.Backends{
			Services:  []*kube.Service{{Namespace: "shop", Name: "cart", Ports: ports("http")}},
			Endpoints: []*kube.Endpoints{{Namespace: "shop", Name: "cart", Subsets: []kube.Subset{{NotReady: notReady}}}},
		}}
		for _, p := range problemsOf(t, s, ingressTo("cart", "http", nil)) {
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

// TestBadObjectNamesTheField: for an object that cannot be decoded, the team is told the field, its value, and what is expected.
func TestBadObjectNamesTheField(t *testing.T) {
	var object struct {
		Spec struct {
			Name   string   `json:"name"`
			Number int32    `json:"number"`
			On     bool     `json:"on"`
			Hosts  []string `json:"hosts"`
			Inner  struct {
				Depth int64 `json:"depth"`
			} `json:"inner"`
		} `json:"spec"`
	}
	const prefix, suffix = "the field ", ", so nothing of the object is served."
	for text, want := range map[string]string{
		`{"spec":{"name":5}}`:              prefix + "spec.name is a number and has to be a string" + suffix,
		`{"spec":{"name":true}}`:           prefix + "spec.name is true or false and has to be a string" + suffix,
		`{"spec":{"number":"80"}}`:         prefix + "spec.number is a string and has to be a whole number" + suffix,
		`{"spec":{"number":80.5}}`:         prefix + "spec.number is the number 80.5 and has to be a whole number" + suffix,
		`{"spec":{"on":"yes"}}`:            prefix + "spec.on is a string and has to be true or false" + suffix,
		`{"spec":{"hosts":{"a":"b"}}}`:     prefix + "spec.hosts is an object and has to be a list" + suffix,
		`{"spec":{"inner":[]}}`:            prefix + "spec.inner is an array and has to be an object with fields" + suffix,
		`{"spec":{"inner":{"depth":"1"}}}`: prefix + "spec.inner.depth is a string and has to be a whole number" + suffix,
		`{"spec":`:                         ": unexpected end of JSON input.",
		`[]`:                               "cannot unmarshal array into Go value of type", // no field
	} {
		err := json.Unmarshal([]byte(text), &object)
		if err == nil {
			t.Fatalf("%s is decoded", text)
		}
		p := compile.BadObject(kube.BadObject{Ref: kube.Ref{Kind: kube.KindIngress, Namespace: "ns", Name: "i"}, Err: fmt.Errorf("decode: %w", err)})
		if got := p.Text(); !strings.Contains(got, want) || strings.HasPrefix(got, prefix) != strings.HasPrefix(want, prefix) {
			t.Errorf("%s: %q, want one with %q", text, got, want)
		}
		if p.Reason != compile.Undecodable || p.Severity != compile.Error || p.Owner.Name != "i" || !strings.Contains(p.Message, err.Error()) {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
