package compile_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// crashing is an argument whose printing panics: a defect that only objects with a certain annotation meet.
type crashing struct{}

func (crashing) MarshalText() ([]byte, error) { panic("planted defect") }

func crashingOptions() rules.Options {
	return rules.Options{AnnotationPredicates: []rules.AnnotationPredicates{
		{Key: "crash", Value: "yes", Predicates: []*eskip.Predicate{{Name: "Weight", Args: []any{crashing{}}}}},
	}}
}

// isolationSnapshot has an Ingress and a RouteGroup that are affected, and two that are not, all behind one Service.
func isolationSnapshot() *kube.Snapshot {
	annotated := kube.PairsOf(map[string]string{"crash": "yes"})
	ingress := func(name string, annotations kube.Pairs) *kube.Ingress {
		return &kube.Ingress{Meta: kube.Meta{Namespace: "shop", Name: name, Annotations: annotations}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{
			{Host: name + ".example.org", HTTP: true, Paths: []kube.IngressPath{
				{Path: "/", PathType: "Prefix", Backend: &kube.IngressBackend{Service: "app-1", PortNumber: 80}},
			}},
		}}}
	}
	group := func(name string, annotations kube.Pairs) *kube.RouteGroup {
		return &kube.RouteGroup{Meta: kube.Meta{Namespace: "shop", Name: name, Annotations: annotations}, Spec: &kube.RouteGroupSpec{
			Hosts:           []string{name + ".example.org"},
			Backends:        []*kube.RouteGroupBackend{{Name: "app", Type: "service", ServiceName: "app-1", ServicePort: 80}},
			DefaultBackends: []*kube.BackendReference{{BackendName: "app"}},
		}}
	}
	return &kube.Snapshot{
		Intent: kube.Intent{
			Ingresses:   []*kube.Ingress{ingress("bad-i", annotated), ingress("good-i", kube.Pairs{})},
			RouteGroups: []*kube.RouteGroup{group("bad-g", annotated), group("good-g", kube.Pairs{})},
		},
		Backends: kube.Backends{
			Services:  []*kube.Service{{Namespace: "shop", Name: "app-1", Type: "ClusterIP", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}}}},
			Endpoints: []*kube.Endpoints{endpointsOf("10.2.0.1", "10.2.0.2")},
		},
	}
}

func endpointsOf(addresses ...string) *kube.Endpoints {
	return &kube.Endpoints{Namespace: "shop", Name: "app-1", Subsets: []kube.Subset{{Addresses: addresses, Ports: []kube.EndpointPort{{Port: 8080}}}}}
}

// TestPanicOfOneObjectCostsOnlyItself: in the table, in a lane, after a change, and on trial.
func TestPanicOfOneObjectCostsOnlyItself(t *testing.T) {
	s := isolationSnapshot()
	c := mustCompiler(t, crashingOptions())
	onlyGood := func(what string, list table.List) {
		t.Helper()
		text := string(table.Of(list, 1, time.Time{}).Text())
		for _, name := range []string{"good_i", "good_g"} {
			if !strings.Contains(text, "__"+name+"__") {
				t.Errorf("%s: no route of %s in\n%s", what, name, text)
			}
		}
		if strings.Contains(text, "bad_i__") || strings.Contains(text, "bad_g__") {
			t.Errorf("%s: a route of an object that panics in\n%s", what, text)
		}
	}
	lost := func(what string, problems []rules.Problem, kind kube.Kind) {
		t.Helper()
		if len(problems) != 1 || problems[0].Reason != rules.InternalError || problems[0].Severity != rules.Error ||
			problems[0].Owner.Kind != kind || !strings.Contains(problems[0].Message, "planted defect (") {
			t.Errorf("%s: the problems are %v, want one internal_error of the %s", what, problems, kind)
		}
	}
	result := c.Compile(s)
	onlyGood("first", result.Routes)
	for _, o := range []kube.Object{s.Ingresses[0], s.RouteGroups[0]} {
		lost("first", result.ProblemsOf(o.Ref()), o.Ref().Kind)
		trial, err := result.Try(o)
		if err != nil || len(trial.Routes) != 0 {
			t.Errorf("the trial of %s has %d routes, %v", o.Ref(), len(trial.Routes), err)
		}
		lost("trial", trial.Problems, o.Ref().Kind)
	}
	onlyGood("beside", c.CompileBeside(s))

	next := *s
	next.Endpoints = []*kube.Endpoints{endpointsOf("10.2.0.3")}
	result = c.Compile(&next)
	onlyGood("after a change", result.Routes)
	lost("after a change", result.ProblemsOf(s.Ingresses[0].Ref()), kube.KindIngress)
	if text := routesText(result); !strings.Contains(text, "10.2.0.3") || strings.Contains(text, "10.2.0.1") {
		t.Errorf("the change of the endpoints did not reach the other objects:\n%s", text)
	}

	healed := next
	ing := *s.Ingresses[0]
	ing.Annotations = kube.Pairs{}
	healed.Ingresses = []*kube.Ingress{&ing, s.Ingresses[1]}
	result = c.Compile(&healed)
	if got := result.ProblemsOf(ing.Ref()); len(got) != 0 || !strings.Contains(routesText(result), "bad_i__") {
		t.Errorf("the corrected object is not back: %v", got)
	}
}

// TestOneObjectHasALimit: an object that compiles to more than the limit loses all of its routes, whatever makes it large, and no
// other object loses any.
func TestOneObjectHasALimit(t *testing.T) {
	long := `f("` + strings.Repeat("x", 40_000) + `")`
	annotate := func(i *kube.Ingress, key, value string) { i.Annotations = kube.PairsOf(map[string]string{key: value}) }
	manyRules := func(i *kube.Ingress, n int) {
		first := i.Spec.Rules[0]
		i.Spec.Rules = nil
		for k := range n {
			r := first
			r.Host = fmt.Sprintf("h%d.example.org", k)
			i.Spec.Rules = append(i.Spec.Rules, r)
		}
	}
	for name, c := range map[string]struct {
		options rules.Options
		change  func(*kube.Snapshot, *kube.Ingress, *kube.RouteGroup)
		group   bool // the RouteGroup is too large, not the Ingress
	}{
		"rules":     {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) { manyRules(i, 5001) }},
		"redirects": {options: rules.Options{HTTPSRedirect: true}, change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) { manyRules(i, 2600) }},
		"east-west": {options: rules.Options{EastWest: true}, change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) { manyRules(i, 2600) }},
		"clones": {options: rules.Options{CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile(`^PathSubtree`), "Path")}},
			change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) { manyRules(i, 2600) }},
		"filters times rules": {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			annotate(i, "zalando.org/skipper-filter", long)
			manyRules(i, 300)
		}},
		"predicates times rules": {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			annotate(i, "zalando.org/skipper-predicate", long)
			manyRules(i, 300)
		}},
		"custom routes times paths": {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			annotate(i, "zalando.org/skipper-routes", strings.Repeat("a: * -> <shunt>;", 100))
			manyRules(i, 60)
		}},
		"custom routes that are refused": {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			annotate(i, "zalando.org/skipper-routes", strings.Repeat(`a: Path("/x") -> f("`+strings.Repeat("x", 5000)+`") -> <shunt>;`, 60))
			manyRules(i, 60)
		}},
		"default filters": {
			options: rules.Options{DefaultFilters: &eskip.DefaultFilters{Prepend: eskip.MustParseFilters(long)}},
			change:  func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) { manyRules(i, 300) },
		},
		"default filters of the service": {change: func(s *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			s.DefaultFilters = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "app-1"}: long}}
			manyRules(i, 300)
		}},
		"endpoints times rules": {change: func(s *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			var addresses []string
			for k := range 2000 {
				addresses = append(addresses, fmt.Sprintf("10.2.%d.%d", k/250, k%250))
			}
			s.Endpoints = []*kube.Endpoints{endpointsOf(addresses...)}
			manyRules(i, 300)
		}},
		"one long route": {change: func(_ *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			annotate(i, "zalando.org/skipper-filter", strings.Repeat(long+" -> ", 26)+long)
		}},
		"backends of one path": {change: func(s *kube.Snapshot, i *kube.Ingress, _ *kube.RouteGroup) {
			s.Services = slices.Clone(s.Services)
			for k := range 2000 {
				service := *s.Services[0]
				service.Name = fmt.Sprintf("app-%d", k+2)
				s.Services = append(s.Services, &service)
				p := i.Spec.Rules[0].Paths[0]
				p.Backend = &kube.IngressBackend{Service: fmt.Sprintf("app-%d", k+2), PortNumber: 80}
				i.Spec.Rules[0].Paths = append(i.Spec.Rules[0].Paths, p)
			}
		}},
		"hosts, routes, methods and filters of a group": {group: true, change: func(_ *kube.Snapshot, _ *kube.Ingress, g *kube.RouteGroup) {
			for k := range 200 {
				g.Spec.Hosts = append(g.Spec.Hosts, fmt.Sprintf("g%d.example.org", k))
				g.Spec.Routes = append(g.Spec.Routes, &kube.RouteSpec{
					Path: fmt.Sprintf("/%d", k), Methods: []string{"GET", "PUT"}, Filters: []string{`f("` + strings.Repeat("x", 20_000) + `")`},
				})
			}
		}},
		"methods times forward backends of a group": {group: true, options: rules.Options{ForwardBackendURL: "http://up.example.org"}, change: func(_ *kube.Snapshot, _ *kube.Ingress, g *kube.RouteGroup) {
			r := &kube.RouteSpec{Path: "/x", Filters: []string{`f("` + strings.Repeat("x", 400_000) + `")`}}
			for k := range 100 {
				name := fmt.Sprintf("n%d", k)
				g.Spec.Backends = append(g.Spec.Backends, &kube.RouteGroupBackend{Name: name, Type: "forward"})
				r.Backends = append(r.Backends, &kube.BackendReference{BackendName: name})
				r.Methods = append(r.Methods, "M"+name)
			}
			g.Spec.Routes = []*kube.RouteSpec{r}
		}},
		"methods times backends of a group": {group: true, change: func(_ *kube.Snapshot, _ *kube.Ingress, g *kube.RouteGroup) {
			r := &kube.RouteSpec{Path: "/x", Filters: []string{long}}
			for k := range 1000 {
				name := fmt.Sprintf("n%d", k)
				g.Spec.Backends = append(g.Spec.Backends, &kube.RouteGroupBackend{Name: name, Type: "shunt"})
				r.Backends = append(r.Backends, &kube.BackendReference{BackendName: name})
				r.Methods = append(r.Methods, "M"+name)
			}
			g.Spec.Routes = []*kube.RouteSpec{r}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := isolationSnapshot()
			want := mustCompiler(t, c.options).Compile(s)
			next := *s
			next.Ingresses, next.RouteGroups = slices.Clone(s.Ingresses), slices.Clone(s.RouteGroups)
			ing, group := *s.Ingresses[0], *s.RouteGroups[0]
			ingressSpec, groupSpec := *ing.Spec, *group.Spec
			ingressSpec.Rules = slices.Clone(ingressSpec.Rules)
			ingressSpec.Rules[0].Paths = slices.Clone(ingressSpec.Rules[0].Paths)
			ing.Spec, group.Spec = &ingressSpec, &groupSpec
			c.change(&next, &ing, &group)
			var large kube.Object = &ing
			if next.Ingresses[0] = &ing; c.group {
				large, next.Ingresses[0], next.RouteGroups[0] = &group, s.Ingresses[0], &group
			}
			compiler := mustCompiler(t, c.options)
			got := compiler.Compile(&next)
			problems := got.ProblemsOf(large.Ref())
			if len(problems) != 1 || problems[0].Reason != rules.TooLarge || problems[0].Severity != rules.Error {
				t.Fatalf("the problems are %.300v, want one error too_large", problems)
			}
			trial, err := got.Try(large)
			if err != nil || len(trial.Routes) != 0 || !slices.Equal(trial.Problems, problems) {
				t.Errorf("the trial says %d routes, %.300v, %v", len(trial.Routes), trial.Problems, err)
			}
			var ids []string
			for r := range want.Routes.All() {
				if !strings.Contains(r.ID, "bad_i") || c.group {
					if !strings.Contains(r.ID, "bad_g") || !c.group {
						ids = append(ids, r.ID)
					}
				}
			}
			for r := range got.Routes.All() {
				if len(ids) == 0 || ids[0] != r.ID {
					t.Fatalf("route %s is in the table, the next one wanted is %.1q", r.ID, ids)
				}
				ids = ids[1:]
			}
			if len(ids) > 0 {
				t.Errorf("routes %q of other objects are not in the table", ids)
			}
		})
	}
}

// TestHalfOfTheLimitIsAWarning: endpoints count, so an object can grow over the limit without a change.
func TestHalfOfTheLimitIsAWarning(t *testing.T) {
	s := isolationSnapshot()
	ing := s.Ingresses[1]
	size := len(routesText(mustCompiler(t, rules.Options{}).Compile(&kube.Snapshot{
		Intent: kube.Intent{Ingresses: []*kube.Ingress{ing}}, Backends: s.Backends,
	})))
	for limit, want := range map[int]string{2 * size: "[]", 2*size - 2: "warning", size: "warning", size - 1: "error"} {
		c := mustCompiler(t, rules.Options{MaxObjectBytes: limit, DisableCatchAllRoutes: true})
		got := fmt.Sprint(c.Compile(s).ProblemsOf(ing.Ref()))
		if !strings.HasPrefix(strings.TrimPrefix(got, "["), strings.TrimPrefix(want, "[")) {
			t.Errorf("limit %d of an object with %d bytes: %s, want %s", limit, size, got, want)
		}
	}
}
