package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// ingress returns the JSON of an Ingress; the annotations are JSON, too.
func ingress(name, host, path, service, annotations string) []byte {
	return fmt.Appendf(nil, `{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": {"namespace": "shop", "name": %q, "annotations": %s},
		"spec": {"rules": [{"host": %q, "http": {"paths": [
			{"path": %q, "pathType": "ImplementationSpecific", "backend": {"service": {"name": %q, "port": {"number": 80}}}}
		]}}]}
	}`, name, annotations, host, path, service)
}

// routeGroup returns the JSON of a RouteGroup with a backend and a filter.
func routeGroup(name, host, backend, filter string) []byte {
	return fmt.Appendf(nil, `{
		"apiVersion": "zalando.org/v1", "kind": "RouteGroup", "metadata": {"namespace": "shop", "name": %q},
		"spec": {"hosts": [%q], "backends": [%s], "routes": [{"pathSubtree": "/", "backends": [{"backendName": "b"}], "filters": [%q]}]}
	}`, name, host, backend, filter)
}

const (
	shunt   = `{"name": "b", "type": "shunt"}`
	missing = `{"name": "b", "type": "service"}` // the name of the service is missing
)

func decode[T kube.Object](t testing.TB, kind kube.Kind, text []byte) T {
	t.Helper()
	o, err := kube.DecodeJSON(kind, text)
	if err != nil {
		t.Fatal(err)
	}
	return o.(T)
}

// shop is a cluster with one service and one Ingress.
func shop(t testing.TB, more ...*kube.Ingress) *kube.Snapshot {
	s := &kube.Snapshot{
		Intent: kube.Intent{Ingresses: append([]*kube.Ingress{
			decode[*kube.Ingress](t, kube.KindIngress, ingress("taken", "taken.example.org", "/", "web", "{}")),
		}, more...)},
		Backends: kube.Backends{
			Services: []*kube.Service{{Namespace: "shop", Name: "web", Ports: []kube.ServicePort{{Name: "http", Port: 80, TargetPort: kube.NumberPort(8080)}}}},
			Endpoints: []*kube.Endpoints{{Namespace: "shop", Name: "web", Subsets: []kube.Subset{{
				Addresses: []string{"10.1.0.1"}, Ports: []kube.EndpointPort{{Name: "http", Port: 8080}},
			}}}},
		},
	}
	return s
}

func newJudge(t testing.TB, s *kube.Snapshot, o rules.Options, scope kube.Selection) *webhook.Judge {
	t.Helper()
	j, err := webhook.NewJudge(o, scope, false)
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		j.Take(s)
	}
	return j
}

// reasons returns the reasons of problems.
func reasons(problems []rules.Problem) []rules.Reason {
	var all []rules.Reason
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return all
}

func TestVerdicts(t *testing.T) {
	crash := `{"zalando.org/skipper-filter": "admissionControl(\"m\", \"active\", \"0s\", 10, 10, 0.5, 0.1, 1)"}`
	good := ingress("a", "a.example.org", "/", "web", "{}")
	for _, c := range []struct {
		name              string
		kind              kube.Kind
		object, old       []byte
		alone             bool // before the first snapshot
		scope             kube.Selection
		options           rules.Options
		refused, warnings []rules.Reason
		skipped           bool
	}{
		{name: "nothing wrong", kind: kube.KindIngress, object: good},
		{name: "a path that no proxy can match", kind: kube.KindIngress, object: ingress("a", "a.example.org", "/(", "web", "{}"),
			warnings: []rules.Reason{rules.InvalidExpression}},
		{name: "it was so before", kind: kube.KindIngress, object: ingress("a", "b.example.org", "/", "web", crash),
			old: ingress("a", "a.example.org", "/", "web", crash), warnings: []rules.Reason{rules.WouldCrashProxy}},
		{name: "it was right before", kind: kube.KindIngress, object: ingress("a", "a.example.org", "/", "web", crash), old: good,
			refused: []rules.Reason{rules.WouldCrashProxy}},
		{name: "a filter that ends proxies", kind: kube.KindIngress, object: ingress("a", "a.example.org", "/", "web", crash),
			refused: []rules.Reason{rules.WouldCrashProxy}},
		{name: "the service comes later", kind: kube.KindIngress, object: ingress("a", "a.example.org", "/", "later", "{}"),
			warnings: []rules.Reason{rules.ServiceNotFound}},
		{name: "not known whether the service is there", kind: kube.KindIngress, object: ingress("a", "a.example.org", "/", "later", "{}"),
			alone: true},
		{name: "wrong in itself, also without a snapshot", kind: kube.KindRouteGroup, alone: true,
			object: routeGroup("g", "g.example.org", missing, "status(200)"), refused: []rules.Reason{rules.InvalidObject}},
		{name: "host and path of another", kind: kube.KindIngress, object: ingress("z", "taken.example.org", "/", "web", "{}"),
			warnings: []rules.Reason{rules.Shadows}},
		{name: "not the shape of its kind", kind: kube.KindIngress, object: []byte(`{"metadata": {"namespace": "shop", "name": "a"}, "spec": 5}`),
			refused: []rules.Reason{rules.Undecodable}},
		{name: "a group that says nothing of its service", kind: kube.KindRouteGroup, object: routeGroup("g", "g.example.org", missing, "status(200)"),
			refused: []rules.Reason{rules.InvalidObject}},
		{name: "a group with a filter that does not parse", kind: kube.KindRouteGroup, object: routeGroup("g", "g.example.org", shunt, "status("),
			refused: []rules.Reason{rules.InvalidObject}},
		{name: "a good group", kind: kube.KindRouteGroup, object: routeGroup("g", "g.example.org", shunt, "status(200)")},
		{name: "another class", kind: kube.KindIngress, skipped: true,
			object: ingress("a", "a.example.org", "/(", "web", `{"kubernetes.io/ingress.class": "nginx"}`)},
		{name: "another namespace", kind: kube.KindIngress, skipped: true, scope: kube.Selection{Namespace: "other"},
			object: ingress("a", "a.example.org", "/(", "web", "{}")},
		{name: "no label that is asked for", kind: kube.KindIngress, skipped: true, object: ingress("a", "a.example.org", "/(", "web", "{}"),
			scope: kube.Selection{Selectors: map[kube.Kind]map[string]string{kube.KindIngress: {"public": ""}}}},
		{name: "a label that is asked of the other kind", kind: kube.KindRouteGroup, object: routeGroup("g", "g.example.org", shunt, "status(200)"),
			scope: kube.Selection{Namespace: "shop", Selectors: map[kube.Kind]map[string]string{kube.KindIngress: {"public": ""}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shop(t)
			if c.alone {
				s = nil
			}
			v, err := newJudge(t, s, c.options, c.scope).Review(c.kind, c.object, c.old)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.refused, reasons(v.Refused)); diff != "" {
				t.Errorf("refused for (-want +got):\n%s\n%+v", diff, v)
			}
			if diff := cmp.Diff(c.warnings, reasons(v.Warnings)); diff != "" {
				t.Errorf("warned of (-want +got):\n%s\n%+v", diff, v)
			}
			if v.Skipped != c.skipped {
				t.Errorf("skipped %v", v.Skipped)
			}
		})
	}
}

// TestWebhookAndCompileNeverDisagree checks the law over random objects: what a review reports is what compile reports for the
// same object in the same cluster.
func TestWebhookAndCompileNeverDisagree(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	seen := map[rules.Reason]int{}
	for range 10_000 {
		kind, text := kube.KindIngress, ingress(one("a", "taken", "z", "z", ""), one("a.example.org", "taken.example.org", "taken.example.org", "*.x.org", "a(", ""),
			one("/", "/", "/", "/a", "/(", "", "relative", "/a\"b"), one("web", "later", ""), annotations(one))
		if r.IntN(2) == 0 {
			kind, text = kube.KindRouteGroup, routeGroup(one("a", "g", "taken"), one("g.example.org", "taken.example.org", "["),
				one(shunt, missing, `{"name": "b", "type": "service", "serviceName": "web", "servicePort": 80}`, `{"name": "c", "type": "shunt"}`,
					`{"name": "b", "type": "network", "address": "nowhere"}`), one("status(200)", "status(", "unknownFilter()", ""))
		}
		base := shop(t)
		v, err := newJudge(t, base, rules.Options{}, kube.Selection{}).Review(kind, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{}
		for _, p := range compiled(t, base, kind, text) {
			seen[p.Reason]++
			want = append(want, p.String())
		}
		got := []string{}
		for _, p := range append(v.Refused, v.Warnings...) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
			t.Fatalf("%s\n(-compile +webhook):\n%s", text, diff)
		}
	}
	for _, reason := range []rules.Reason{rules.InvalidObject, rules.InvalidExpression, rules.ServiceNotFound, rules.Shadows,
		rules.InvalidAnnotation} {
		if seen[reason] < 20 {
			t.Errorf("only %d problems %s: the law says little about them", seen[reason], reason)
		}
	}
}

func annotations(one func(...string) string) string {
	return one("{}", "{}", "{}", `{"zalando.org/skipper-filter": "status("}`, `{"zalando.org/skipper-predicate": "Method(\"GET\")"}`,
		`{"zalando.org/skipper-loadbalancer": "dice"}`, `{"zalando.org/skipper-routes": "*"}`,
		`{"zalando.org/skipper-ingress-redirect": "maybe"}`, `{"zalando.org/backend-weights": "{"}`)
}

// compiled returns the problems that compile reports for the object in the cluster.
func compiled(t *testing.T, base *kube.Snapshot, kind kube.Kind, text []byte) []rules.Problem {
	t.Helper()
	s := *base
	o, err := kube.DecodeJSON(kind, text)
	if err != nil {
		t.Fatal(err)
	}
	switch of := o.(type) {
	case *kube.Ingress:
		if of.Name == "taken" {
			s.Ingresses = nil
		}
		s.Ingresses = append(append([]*kube.Ingress{}, s.Ingresses...), of)
	case *kube.RouteGroup:
		s.RouteGroups = []*kube.RouteGroup{of}
	}
	c, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []rules.Problem
	for _, p := range c.Compile(&s).Problems {
		if p.Owner == o.Ref() && p.Severity > rules.Info {
			all = append(all, p)
		}
	}
	return all
}

// TestNewSnapshotsCount: a new service is known.
func TestNewSnapshotsCount(t *testing.T) {
	j := newJudge(t, shop(t), rules.Options{}, kube.Selection{})
	object := ingress("a", "a.example.org", "/", "later", "{}")
	if v, _ := j.Review(kube.KindIngress, object, nil); len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0].Message, "later") {
		t.Errorf("%+v", v)
	}
	next := shop(t)
	next.Services = append(next.Services, &kube.Service{Namespace: "shop", Name: "later", Ports: next.Services[0].Ports})
	next.Endpoints = append(next.Endpoints, &kube.Endpoints{Namespace: "shop", Name: "later", Subsets: next.Endpoints[0].Subsets})
	j.Take(next)
	if v, _ := j.Review(kube.KindIngress, object, nil); len(v.Warnings) != 0 {
		t.Errorf("%+v", v)
	}
}

func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return all
}
