package compile_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// pool has every object of the golden cases, from which random clusters are made.
type pool struct {
	cases []goldenCase
	all   kube.Snapshot
}

func newPool(t testing.TB) *pool {
	p := &pool{cases: goldenCases(t)}
	for _, c := range p.cases {
		s := c.snapshot
		p.all.Ingresses = append(p.all.Ingresses, s.Ingresses...)
		p.all.RouteGroups = append(p.all.RouteGroups, s.RouteGroups...)
		p.all.Services = append(p.all.Services, s.Services...)
		p.all.Endpoints = append(p.all.Endpoints, s.Endpoints...)
		p.all.EndpointSlices = append(p.all.EndpointSlices, s.EndpointSlices...)
	}
	return p
}

// mutate returns a snapshot with one object added, removed, replaced by an equal one, or replaced by a different one.
func (p *pool) mutate(r *rand.Rand, s *kube.Snapshot) *kube.Snapshot {
	next := *s
	switch r.IntN(8) {
	case 0, 1:
		next.Ingresses = change(r, s.Ingresses, p.all.Ingresses, func(i *kube.Ingress) {
			i.Annotations = pick(r, p.all.Ingresses).Annotations
			switch r.IntN(4) {
			case 0:
				i.Name = "n" + string(rune('a'+r.IntN(4)))
			case 1:
				collide(r, &i.Meta)
			case 2:
				i.Spec = pick(r, p.all.Ingresses).Spec // two objects with the same hosts and paths
			}
			i.Created = r.Int64N(4)
		})
	case 2, 3:
		next.RouteGroups = change(r, s.RouteGroups, p.all.RouteGroups, func(g *kube.RouteGroup) {
			g.Annotations = pick(r, p.all.RouteGroups).Annotations
			switch r.IntN(3) {
			case 0:
				collide(r, &g.Meta)
			case 1:
				g.Spec = pick(r, p.all.RouteGroups).Spec
			}
			g.Created = r.Int64N(4)
		})
	case 4:
		next.Services = change(r, s.Services, p.all.Services, func(svc *kube.Service) {
			switch other := pick(r, p.all.Services); r.IntN(3) {
			case 0:
				svc.Ports = other.Ports
			case 1:
				svc.Type, svc.ExternalName = other.Type, other.ExternalName
			case 2:
				svc.Incomplete = !svc.Incomplete
			}
		})
	case 5:
		next.Endpoints = change(r, s.Endpoints, p.all.Endpoints, func(e *kube.Endpoints) {
			if e.Subsets = pick(r, p.all.Endpoints).Subsets; r.IntN(2) == 0 && len(e.Subsets) > 0 {
				e.Subsets = slices.Clone(e.Subsets)
				e.Subsets[0].Addresses = []string{address(r), address(r)} // the ports stay
			}
		})
	case 6:
		next.EndpointSlices = change(r, s.EndpointSlices, p.all.EndpointSlices, func(e *kube.EndpointSlice) {
			switch other := pick(r, p.all.EndpointSlices); r.IntN(4) {
			case 0:
				e.Endpoints = other.Endpoints
			case 1:
				e.Service = other.Service
			case 2:
				e.Ports = other.Ports
			case 3:
				e.Endpoints = []kube.SliceEndpoint{{Address: address(r), Ready: true}, {Address: address(r), Ready: true}}
			}
		})
	case 7:
		next.DefaultFilters = p.cases[r.IntN(len(p.cases))].snapshot.DefaultFilters
	}
	return &next
}

// address returns one of a few pods.
func address(r *rand.Rand) string { return "10.99.0." + string(rune('1'+r.IntN(9))) }

// collide gives an object a name whose ids equal those of another object.
func collide(r *rand.Rand, m *kube.Meta) {
	names := [][2]string{{"a", "b--c"}, {"a--b", "c"}, {"a", "b..c"}, {"a--b--c", "d"}, {"a", "b--c--d"}, {"rg", "a"},
		{"ns", "a-b"}, {"ns", "a.b"}}
	name := names[r.IntN(len(names))]
	m.Namespace, m.Name = name[0], name[1]
}

func pick[T any](r *rand.Rand, from []*T) *T { return from[r.IntN(len(from))] }

// change never modifies an object in place: snapshots are immutable.
func change[T any](r *rand.Rand, now, all []*T, edit func(*T)) []*T {
	now = slices.Clone(now)
	if len(all) == 0 {
		return now
	}
	if len(now) == 0 || r.IntN(3) == 0 {
		return slices.Insert(now, r.IntN(len(now)+1), pick(r, all))
	}
	at := r.IntN(len(now))
	switch r.IntN(3) {
	case 0:
		return slices.Delete(now, at, at+1)
	case 1:
		same := *now[at] // the same content behind another pointer
		now[at] = &same
	case 2:
		other := *now[at]
		edit(&other)
		now[at] = &other
	}
	return now
}

// compareSteps checks the law "full equals incremental" over a sequence of random changes.
func compareSteps(t *testing.T, p *pool, seed uint64, steps int) (seen map[rules.Reason]int) {
	t.Helper()
	seen = make(map[rules.Reason]int)
	r := rand.New(rand.NewPCG(seed, 1))
	options := p.cases[r.IntN(len(p.cases))].options
	options.EndpointSlices = r.IntN(2) == 0
	options.HTTPSRedirect = r.IntN(2) == 0
	options.EastWest = r.IntN(3) == 0
	options.DisableCatchAllRoutes = r.IntN(4) == 0
	incremental := mustCompiler(t, options)
	s := p.cases[r.IntN(len(p.cases))].snapshot
	for step := range steps {
		for range 1 + r.IntN(3) {
			s = p.mutate(r, s)
		}
		got, want := incremental.Compile(s), mustCompiler(t, options).Compile(s)
		if a, b := routesText(got), routesText(want); a != b {
			t.Fatalf("seed %d, step %d: incremental differs from full\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		if a, b := problemsText(got), problemsText(want); a != b {
			t.Fatalf("seed %d, step %d: problems differ\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		if !slices.Equal(got.Problems, want.Problems) {
			t.Fatalf("seed %d, step %d: problems differ in their texts for teams\nincremental:\n%+v\nfull:\n%+v", seed, step, got.Problems, want.Problems)
		}
		for _, p := range got.Problems {
			seen[p.Reason]++
		}
		checkTable(t, got)
	}
	return seen
}

// checkTable checks what every result must satisfy: ids are unique and sorted, and the table parses.
func checkTable(t *testing.T, result *compile.Result) {
	t.Helper()
	last := ""
	for r := range result.Routes.All() {
		if last >= r.ID {
			t.Fatalf("ids not unique and sorted: %q, %q", last, r.ID)
		}
		last = r.ID
	}
	routes, err := eskip.Parse(routesText(result))
	if err != nil || len(routes) != result.Routes.Len() {
		t.Fatalf("the table has %d routes and parses to %d, %v", result.Routes.Len(), len(routes), err)
	}
	// A reader of the table keeps its text and therefore its digest, and derives the same facts about each route, hosts included.
	read, err := table.Parse(strings.TrimSuffix(routesText(result), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for r := range result.Routes.All() {
		if read[i] != *r {
			t.Fatalf("route %+v\nis read as %+v", *r, read[i])
		}
		i++
	}
}

func TestIncrementalEqualsFull(t *testing.T) {
	p := newPool(t)
	seen := make(map[rules.Reason]int)
	for seed := range uint64(100) {
		for reason, n := range compareSteps(t, p, seed, 100) { // 10,000 in total
			seen[reason] += n
		}
	}
	for _, reason := range []rules.Reason{
		rules.DuplicateID, rules.Shadows, rules.WouldCrashProxy, rules.NotParsable, rules.InvalidExpression, rules.NullEntry,
		rules.InvalidObject, rules.ServiceNotFound, rules.PortNotFound, rules.NoEndpoints,
		rules.NotSelected, rules.ZeroWeight, rules.WouldReject,
	} {
		if seen[reason] < 100 {
			t.Errorf("the walk met %d problems %s: it says little about them", seen[reason], reason)
		}
	}
}

func FuzzIncrementalEqualsFull(f *testing.F) {
	p := newPool(f)
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compareSteps(t, p, seed, 30) })
}

// TestOrderOfObjectsDoesNotMatter: two replicas that list in different orders serve the same bytes.
func TestOrderOfObjectsDoesNotMatter(t *testing.T) {
	for _, c := range goldenCases(t) {
		want := routesText(mustCompiler(t, c.options).Compile(c.snapshot))
		s := *c.snapshot
		s.Ingresses = slices.Clone(s.Ingresses)
		s.RouteGroups = slices.Clone(s.RouteGroups)
		slices.Reverse(s.Ingresses)
		slices.Reverse(s.RouteGroups)
		if got := routesText(mustCompiler(t, c.options).Compile(&s)); got != want {
			t.Errorf("%s: reversed lists give another table:\n%s\nwant:\n%s", c.path, got, want)
		}
	}
}

func TestUnchangedSnapshotGivesTheSameResult(t *testing.T) {
	c := goldenCases(t)[0]
	compiler := mustCompiler(t, c.options)
	first := compiler.Compile(c.snapshot)
	again := *c.snapshot
	again.Revision = 99
	if compiler.Compile(&again) != first {
		t.Error("the same objects were compiled again")
	}
}

// FuzzAnnotations checks isolation: whatever the texts of one object contain, the table parses, and the routes of the other
// object are those that it has alone.
func FuzzAnnotations(f *testing.F) {
	for _, text := range []string{"", `f("x")`, `Method("GET") && Method("PUT")`, `a: Path("/x") -> "http://x\"y"`, "r: * -> <shunt>",
		"a\nb", "\b[\t]", `Traffic(0.00001)`, "/a\\[b", "http://a\"b", `PathRegexp(/\[/)`, "\xff", "*"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		good := &kube.Ingress{Meta: kube.Meta{Namespace: "z", Name: "good"}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{
			{Host: "good.example.org", HTTP: true, Paths: []kube.IngressPath{{Path: "/", Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}}}},
		}}}
		svc := &kube.Service{Namespace: "z", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}
		bad := &kube.Ingress{
			Meta: kube.Meta{Namespace: "z", Name: "bad", Annotations: kube.PairsOf(map[string]string{
				"zalando.org/skipper-filter": a, "zalando.org/skipper-predicate": b, "zalando.org/skipper-routes": a,
				"zalando.org/skipper-backend-protocol": b,
			})},
			Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: "bad" + b, HTTP: true, Paths: []kube.IngressPath{
				{Path: a, PathType: "Exact", Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}},
				{Path: b, Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}},
			}}}},
		}
		group := &kube.RouteGroup{Meta: kube.Meta{Namespace: "z", Name: "bad"}, Spec: &kube.RouteGroupSpec{
			Hosts: []string{"rg" + a},
			Backends: []*kube.RouteGroupBackend{
				{Name: "n", Type: "network", Address: a}, {Name: "l", Type: "lb", Endpoints: []string{a, b}},
			},
			DefaultBackends: []*kube.BackendReference{{BackendName: "n"}, {BackendName: "l"}},
			Routes:          []*kube.RouteSpec{{Path: a, Filters: []string{b}}, {PathRegexp: b, Predicates: []string{a}}},
		}}
		ends := &kube.Endpoints{Namespace: "z", Name: "s", Subsets: []kube.Subset{{Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Port: 80}}}}}
		base := kube.Snapshot{
			Intent:   kube.Intent{Ingresses: []*kube.Ingress{good}},
			Backends: kube.Backends{Services: []*kube.Service{svc}, Endpoints: []*kube.Endpoints{ends}},
		}
		with := base
		with.Ingresses = []*kube.Ingress{bad, good}
		with.RouteGroups = []*kube.RouteGroup{group}
		want := mustCompiler(t, rules.Options{}).Compile(&base)
		got := mustCompiler(t, rules.Options{}).Compile(&with)
		checkTable(t, got)
		text := routesText(got)
		for r := range want.Routes.All() {
			if !strings.Contains(b, "good") && !strings.Contains(text, r.Text) {
				t.Errorf("route %s was lost or changed", r.ID)
			}
		}
	})
}
