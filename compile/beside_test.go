package compile_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// compareBeside checks the law "full equals incremental" over a sequence of random changes, for three snapshots in turn: the latest
// one, and those of a fleet and a canary, which have some objects at earlier versions, sometimes with earlier backends.
func compareBeside(t *testing.T, p *pool, seed uint64, steps int) (compared int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	options := p.cases[r.IntN(len(p.cases))].options
	options.EndpointSlices = r.IntN(2) == 0
	options.EastWest = r.IntN(3) == 0
	compiler := mustCompiler(t, options)
	s := p.cases[r.IntN(len(p.cases))].snapshot
	var both [2]*kube.Snapshot
	for step := range steps {
		s = p.mutate(r, s)
		got, want := compiler.Compile(s), mustCompiler(t, options).Compile(s)
		if a, b := routesText(got), routesText(want); a != b {
			t.Fatalf("seed %d, step %d: incremental differs from full\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		if a, b := problemsText(got), problemsText(want); a != b {
			t.Fatalf("seed %d, step %d: problems are not those of the latest snapshot\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		switch r.IntN(6) {
		case 0:
			both[r.IntN(2)] = s
		case 1:
			if both[r.IntN(2)] = nil; r.IntN(2) == 0 {
				compiler.Forget()
			}
		}
		for range r.IntN(4) { // also reads without it, and the same again
			kept := both[r.IntN(2)]
			if kept == nil {
				continue
			}
			served := *s
			if served.Ingresses = kept.Ingresses; r.IntN(2) == 0 {
				served.RouteGroups = kept.RouteGroups
			}
			if r.IntN(3) == 0 {
				served.Backends = kept.Backends
			}
			if r.IntN(4) == 0 {
				served.DefaultFilters = kept.DefaultFilters
			}
			list := compiler.CompileBeside(&served)
			want := mustCompiler(t, options).Compile(&served)
			if a, b := routesText(&compile.Result{Routes: list}), routesText(want); a != b {
				t.Fatalf("seed %d, step %d: beside differs from full\nbeside:\n%s\nfull:\n%s", seed, step, a, b)
			}
			checkTable(t, &compile.Result{Routes: list})
			compared++
		}
	}
	return compared
}

func TestBesideEqualsFull(t *testing.T) {
	p := newPool(t)
	compared := 0
	for seed := range uint64(60) {
		compared += compareBeside(t, p, seed, 60)
	}
	if compared < 1000 {
		t.Errorf("the walk compared %d lists: it says little", compared)
	}
}

func FuzzBesideEqualsFull(f *testing.F) {
	p := newPool(f)
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compareBeside(t, p, seed, 30) })
}

// The first list beside the latest one shares all blocks with it where no route differs.
func TestBesideSharesWhatIsTheSame(t *testing.T) {
	c := goldenCases(t)[0]
	for _, g := range goldenCases(t) {
		if len(g.snapshot.Ingresses) > len(c.snapshot.Ingresses) {
			c = g
		}
	}
	compiler := mustCompiler(t, c.options)
	latest := compiler.Compile(c.snapshot).Routes
	same := *c.snapshot
	same.Ingresses = append(same.Ingresses[:len(same.Ingresses):len(same.Ingresses)], &kube.Ingress{Meta: kube.Meta{Namespace: "new", Name: "new"}})
	beside := compiler.CompileBeside(&same)
	if len(beside.Blocks()) != len(latest.Blocks()) {
		t.Fatalf("%d blocks, want the %d of the latest list", len(beside.Blocks()), len(latest.Blocks()))
	}
	for i, b := range beside.Blocks() {
		if b != latest.Blocks()[i] {
			t.Errorf("block %d is in memory twice", i)
		}
	}
}

// The result for an Ingress that refers to a service with ambiguous ports depends on the objects before it, and those differ.
func TestNothingVolatileIsReused(t *testing.T) {
	to := func(name string, port int) *kube.Ingress {
		return &kube.Ingress{Meta: kube.Meta{Namespace: "ns", Name: name}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
			Host: name + ".example.org", HTTP: true,
			Paths: []kube.IngressPath{{Path: "/", Backend: &kube.IngressBackend{Service: "s", PortNumber: port}}},
		}}}}
	}
	backends := kube.Backends{
		Services: []*kube.Service{{Namespace: "ns", Name: "s", Ports: []kube.ServicePort{
			{Name: "x", Port: 80, TargetPort: kube.NamePort("web")}, {Name: "y", Port: 81, TargetPort: kube.NamePort("web")},
		}}},
		Endpoints: []*kube.Endpoints{{Namespace: "ns", Name: "s", Subsets: []kube.Subset{{
			Addresses: []string{"10.0.0.1"}, Ports: []kube.EndpointPort{{Name: "x", Port: 8080}, {Name: "y", Port: 8081}},
		}}}},
	}
	first, second := to("a", 80), to("b", 81)
	old := &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{first, second}}, Backends: backends}
	latest := &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{second}}, Backends: backends}
	compiler := mustCompiler(t, rules.Options{})
	alone := routesText(compiler.Compile(latest))
	want := routesText(mustCompiler(t, rules.Options{}).Compile(old))
	if strings.Contains(want, ":8081") || !strings.Contains(alone, ":8081") {
		t.Fatalf("the order of objects does not matter here:\n%s\n%s", want, alone)
	}
	if got := routesText(&compile.Result{Routes: compiler.CompileBeside(old)}); got != want {
		t.Errorf("beside:\n%s\nwant:\n%s", got, want)
	}
}

// TestASnapshotIsCompiledBesideNone: a compiler whose first build failed has no latest result.
func TestASnapshotIsCompiledBesideNone(t *testing.T) {
	s := isolationSnapshot()
	c := mustCompiler(t, rules.Options{})
	beside := c.CompileBeside(s)
	if got := c.Compile(s).Routes; got.Len() == 0 || got.Len() != beside.Len() {
		t.Errorf("%d routes, and %d beside", got.Len(), beside.Len())
	}
}
