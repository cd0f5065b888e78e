package compile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// compareTrials checks the law "a trial reports what is reported once the object is in the snapshot" over a sequence of random
// changes.
func compareTrials(t *testing.T, p *pool, seed uint64, steps int, seen map[rules.Reason]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	options := p.cases[r.IntN(len(p.cases))].options
	options.EndpointSlices = r.IntN(2) == 0
	options.HTTPSRedirect = r.IntN(2) == 0
	options.DisableCatchAllRoutes = r.IntN(4) == 0
	compiler := mustCompiler(t, options)
	s := distinctNames(p.cases[r.IntN(len(p.cases))].snapshot)
	compiler.Compile(s)
	for step := range steps {
		var next *kube.Snapshot
		var changed kube.Object
		for changed == nil {
			next = p.mutate(r, s)
			changed = onlyChange(s, next)
			if changed == nil && r.IntN(2) == 0 { // another object, which later trials have to take into account
				s = distinctNames(next)
				compiler.Compile(s)
			}
		}
		got, err := compiler.Latest().Try(changed)
		if err != nil {
			t.Fatal(err)
		}
		var want []rules.Problem
		real := mustCompiler(t, options).Compile(next)
		in, _ := real.Inspect(changed.Ref())
		if served, tried := wanted(in.Routes), wanted(got.Routes); !slices.Equal(served, tried) {
			t.Fatalf("seed %d, step %d, %s: the routes of the trial are\n%v\nwant\n%v", seed, step, changed.Ref(), tried, served)
		}
		for _, problem := range real.Problems {
			if problem.Owner == changed.Ref() && problem.Severity > rules.Info {
				want = append(want, problem)
				seen[problem.Reason]++
			}
		}
		if diff := cmp.Diff(want, got.Problems, cmpopts.EquateComparable(rules.Problem{})); diff != "" {
			t.Fatalf("seed %d, step %d, %s: problems (-reported +tried):\n%s", seed, step, changed.Ref(), diff)
		}
		again := compiler.Compile(s)
		if r.IntN(4) == 0 { // a trial leaves no trace
			if a, b := routesText(again), routesText(mustCompiler(t, options).Compile(s)); a != b {
				t.Fatalf("seed %d, step %d: the table after a trial:\n%s\nwant:\n%s", seed, step, a, b)
			}
		}
		if r.IntN(2) == 0 {
			s = next
			compiler.Compile(s)
		}
	}
}

// wanted describes the routes that an object requests.
func wanted(routes []compile.InspectedRoute) []string {
	var all []string
	for _, r := range routes {
		text := fmt.Sprintf("%s %t %t %s", r.ID, r.Main, r.Wins, r.Keeper)
		if r.Route != nil {
			text += " " + r.Route.Text
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// onlyChange returns the one Ingress or RouteGroup that is new or different in next, if an API server would accept the change:
// names are not used twice.
func onlyChange(s, next *kube.Snapshot) kube.Object {
	if len(distinctNames(next).Ingresses) != len(next.Ingresses) || len(distinctNames(next).RouteGroups) != len(next.RouteGroups) {
		return nil
	}
	for _, i := range next.Ingresses {
		if !slices.Contains(s.Ingresses, i) {
			return onlyIf(s.Ingresses, next.Ingresses, i)
		}
	}
	for _, g := range next.RouteGroups {
		if !slices.Contains(s.RouteGroups, g) {
			return onlyIf(s.RouteGroups, next.RouteGroups, g)
		}
	}
	return nil
}

// onlyIf returns o, unless an object of another name was removed in the same change: that would be two requests.
func onlyIf[T interface {
	comparable
	kube.Object
}](before, now []T, o T) kube.Object {
	for _, old := range before {
		if !slices.Contains(now, old) && old.Ref() != o.Ref() {
			return nil
		}
	}
	return o
}

// distinctNames keeps only the first object of each name, as an API server does.
func distinctNames(s *kube.Snapshot) *kube.Snapshot {
	next := *s
	next.Ingresses, next.RouteGroups = firstOfName(s.Ingresses), firstOfName(s.RouteGroups)
	return &next
}

func firstOfName[T kube.Object](all []T) []T {
	seen := make(map[kube.Ref]bool)
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool {
		known := seen[o.Ref()]
		seen[o.Ref()] = true
		return known
	})
}

func TestTrialSaysWhatIsReported(t *testing.T) {
	p := newPool(t)
	seen := make(map[rules.Reason]int)
	for seed := range uint64(120) {
		compareTrials(t, p, seed, 60, seen)
	}
	for _, reason := range []rules.Reason{
		rules.DuplicateID, rules.Shadows, rules.WouldCrashProxy, rules.NotParsable, rules.InvalidExpression, rules.NullEntry,
		rules.InvalidObject, rules.ServiceNotFound,
	} {
		if seen[reason] < 5 {
			t.Errorf("the trials met %d problems %s: they say little about them", seen[reason], reason)
		}
	}
}

func FuzzTrialSaysWhatIsReported(f *testing.F) {
	p := newPool(f)
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compareTrials(t, p, seed, 20, map[rules.Reason]int{}) })
}

// TestTrialsKnowTheCatchAllsOfOthers: hosts that differ in punctuation share the id of their catch-all. A trial reports what /problems reports once the
// object is in the snapshot, and names the catch-alls that change.
func TestTrialsKnowTheCatchAllsOfOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ingress := func() *kube.Ingress {
		i := &kube.Ingress{Meta: kube.Meta{
			Namespace: string(rune('a' + r.IntN(3))), Name: string(rune('a' + r.IntN(2))), Created: int64(r.IntN(3)),
		}, Spec: &kube.IngressSpec{}}
		for range 1 + r.IntN(2) {
			i.Spec.Rules = append(i.Spec.Rules, kube.IngressRule{
				Host: []string{"foo.bar.example.org", "foo-bar.example.org", "foo.bar-example.org"}[r.IntN(3)], HTTP: true,
				Paths: []kube.IngressPath{{Path: []string{"/a", "/b", ""}[r.IntN(3)], Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}}},
			})
		}
		return i
	}
	catchAlls := func(result *compile.Result) map[string]string {
		all := map[string]string{}
		for route := range result.Routes.All() {
			if strings.HasPrefix(route.ID, "kube___catchall__") {
				all[route.ID] = route.Text
			}
		}
		return all
	}
	options := rules.Options{HTTPSRedirect: true}
	reported := 0
	for step := range 2000 {
		var ingresses []*kube.Ingress
		for range 3 {
			ingresses = append(ingresses, ingress())
		}
		s := distinctNames(&kube.Snapshot{Intent: kube.Intent{Ingresses: ingresses}})
		s.Services = []*kube.Service{{Namespace: "a", Name: "s", Ports: []kube.ServicePort{{Port: 80}}}}
		changed := ingress()
		before := mustCompiler(t, options).Compile(s)
		got, err := before.Try(changed)
		if err != nil {
			t.Fatal(err)
		}
		next := *s
		next.Ingresses = append(slices.DeleteFunc(slices.Clone(s.Ingresses), func(i *kube.Ingress) bool { return i.Ref() == changed.Ref() }), changed)
		after := mustCompiler(t, options).Compile(&next)
		var want []rules.Problem
		for _, p := range after.ProblemsOf(changed.Ref()) {
			if p.Severity > rules.Info {
				want = append(want, p)
			}
			if strings.Contains(p.Route, "catchall") {
				reported++
			}
		}
		if diff := cmp.Diff(want, got.Problems, cmpopts.EquateComparable(rules.Problem{})); diff != "" {
			t.Fatalf("step %d: problems (-reported +tried):\n%s", step, diff)
		}
		tried := catchAlls(before)
		for _, gone := range got.ReplacedCatchAlls {
			delete(tried, gone.ID)
		}
		for _, come := range got.CatchAlls {
			if strings.HasPrefix(come.ID, "kube___catchall__") {
				tried[come.ID] = come.Text
			}
		}
		if diff := cmp.Diff(catchAlls(after), tried); diff != "" {
			t.Fatalf("step %d: catch-alls (-real +tried):\n%s", step, diff)
		}
	}
	if reported < 20 {
		t.Errorf("only %d problems of catch-alls were met", reported)
	}
}

// TestTrialOfAnotherKind: only objects that have routes can be tried.
func TestTrialOfAnotherKind(t *testing.T) {
	if _, err := mustCompiler(t, rules.Options{}).Compile(&kube.Snapshot{}).Try(&kube.Service{Namespace: "n", Name: "s"}); err == nil {
		t.Error("a service was tried")
	}
}

// TestTrialsDoNotMeetEachOther: two ports of a service whose targets read the same share what is resolved first, within one
// table. An object that was only tried is not part of that, while a tried object sees what the objects before it have resolved.
func TestTrialsDoNotMeetEachOther(t *testing.T) {
	service := &kube.Service{Namespace: "ns", Name: "s", Ports: []kube.ServicePort{
		{Name: "none", Port: 80, TargetPort: kube.NamePort("web")}, {Name: "some", Port: 81, TargetPort: kube.NamePort("web")},
	}}
	endpoints := &kube.Endpoints{Namespace: "ns", Name: "s", Subsets: []kube.Subset{{
		Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Name: "some", Port: 8080}, {Name: "metrics", Port: 9090}},
	}}}
	ingress := func(name string, port int) *kube.Ingress {
		return &kube.Ingress{Meta: kube.Meta{Namespace: "ns", Name: name}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
			Host: name + ".example.org", HTTP: true,
			Paths: []kube.IngressPath{{Path: "/", Backend: &kube.IngressBackend{Service: "s", PortNumber: port}}},
		}}}}
	}
	compiler := mustCompiler(t, rules.Options{})
	// Served in any case, between the objects that are tried, and without backends.
	middle := &kube.Ingress{Meta: kube.Meta{Namespace: "ns", Name: "k"}, Spec: &kube.IngressSpec{}}
	m := []*kube.Ingress{ingress("m", 80)}
	var served []*kube.Ingress
	for i, c := range []struct {
		served []*kube.Ingress
		name   string
		port   int
		want   []rules.Reason
	}{
		{nil, "a", 80, []rules.Reason{rules.NoEndpoints}},
		{nil, "a", 81, nil},
		{nil, "z", 81, nil},
		{nil, "a", 80, []rules.Reason{rules.NoEndpoints}},
		{m, "a", 81, nil}, // before the served object
		{m, "m", 81, nil}, // in place of it
		{m, "z", 81, []rules.Reason{rules.NoEndpoints}},
	} {
		if i == 0 || !slices.Equal(c.served, served) {
			served = c.served
			compiler.Compile(&kube.Snapshot{
				Intent:   kube.Intent{Ingresses: append([]*kube.Ingress{middle}, served...)},
				Backends: kube.Backends{Services: []*kube.Service{service}, Endpoints: []*kube.Endpoints{endpoints}},
			})
		}
		trial, err := compiler.Latest().Try(ingress(c.name, c.port))
		if err != nil {
			t.Fatal(err)
		}
		var got []rules.Reason
		for _, p := range trial.Problems {
			got = append(got, p.Reason)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s with port %d, served %d: problems (-want +got):\n%s\n%+v", c.name, c.port, len(c.served), diff, trial.Problems)
		}
	}
}
