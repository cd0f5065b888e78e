package compile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

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
		reason    rules.Reason
		want      string
	}{
		{"port", ingressTo("cart", "htp", nil), []kube.Subset{ready}, rules.PortNotFound,
			`Service "cart" has no port "htp", only 80 ("http"), so requests are answered with 502. Name a port`},
		{"service", ingressTo("card", "http", nil), []kube.Subset{ready}, rules.ServiceNotFound,
			`there is no Service "card" in the namespace "shop", so the routes to it are left out. Create the Service`},
		{"selector", ingressTo("cart", "http", nil), nil, rules.NoEndpoints,
			`no pod is behind Service "cart": its selector matches none, or none runs, so requests are answered with 502. Compare`},
		{"not ready", ingressTo("cart", "http", nil), []kube.Subset{{NotReady: 3}}, rules.NoEndpoints,
			`Service "cart" has 3 pods, and none of them is ready, so requests`},
		{"one not ready", ingressTo("cart", "http", nil), []kube.Subset{{NotReady: 1}}, rules.NoEndpoints,
			`Service "cart" has one pod, which is not ready, so requests`},
		{"port of no pod", ingressTo("cart", "http", nil), []kube.Subset{{
			Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Name: "admin", Port: 8081}, {Name: "metrics", Port: 9090}},
		}}, rules.NoEndpoints, `no ready pod of Service "cart" has the port "8080", which is the target of its port 80, so requests`},
		{"class", ingressTo("cart", "http", map[string]string{"kubernetes.io/ingress.class": "skiper"}), []kube.Subset{ready}, rules.NotSelected,
			`its class is "skiper" (the annotation kubernetes.io/ingress.class), and only classes that match "skipper" are served`},
		{"filter", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-filter": `setpath("/")`}), []kube.Subset{ready}, rules.WouldReject,
			`proxies know no filter setpath (is setPath meant?), so they ignore the routes that have it. Correct`},
		{"arguments", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-predicate": `Traffic(30)`}), []kube.Subset{ready}, rules.WouldReject,
			`proxies do not accept the predicate Traffic(30): argument 1: 30: must be a number from 0 to 1, so they ignore`},
		{"annotation", ingressTo("cart", "http", map[string]string{"zalando.org/skipper-filter": `setPath("/`}), []kube.Subset{ready}, rules.InvalidObject,
			`the object is not valid, so nothing of it is served: invalid "zalando.org/skipper-filter" annotation`},
	} {
		s := &kube.Snapshot{Backends: kube.Backends{
			Services:  []*kube.Service{{Namespace: "shop", Name: "cart", Selector: true, Ports: ports("http")}},
			Endpoints: []*kube.Endpoints{{Namespace: "shop", Name: "cart", Subsets: c.endpoints}},
		}}
		problems := problemsOf(t, s, c.ingress)
		at := slices.IndexFunc(problems, func(p rules.Problem) bool { return p.Reason == c.reason })
		if at < 0 || !strings.HasPrefix(problems[at].Text(), c.want) {
			t.Errorf("%s: %s, want %s: %s", c.name, texts(problems), c.reason, c.want)
		}
	}
}

// problemsOf returns the problems of an Ingress with the backends of a snapshot.
func problemsOf(t *testing.T, s *kube.Snapshot, ing *kube.Ingress) []rules.Problem {
	t.Helper()
	s.Ingresses = []*kube.Ingress{ing}
	return mustCompiler(t, rules.Options{}).Compile(s).ProblemsOf(ing.Ref())
}

func texts(problems []rules.Problem) string {
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
		seen := map[string]rules.Problem{}
		for _, p := range mustCompiler(t, c.options).Compile(c.snapshot).Problems {
			if other, again := seen[p.ID()]; again && p.Owner != (kube.Ref{}) && p != other {
				t.Errorf("%s: one id for two problems: %+v and %+v", c.path, p, other)
			}
			seen[p.ID()] = p
		}
	}
}
