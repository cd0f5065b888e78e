package compile_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// compareLanes checks the laws "full equals incremental" and "a lane is compile(its intent, its backends)" over a sequence of
// random changes of both halves. Now and then a lane starts to hold the current intent, with the newest backends or with the
// current ones, or ends. It returns the number of steps in which a lane existed beside the latest snapshot.
func compareLanes(t *testing.T, p *pool, seed uint64, steps int) (held int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	options := p.cases[r.IntN(len(p.cases))].options
	options.EndpointSlices = r.IntN(2) == 0
	options.EastWest = r.IntN(3) == 0
	compiler := mustCompiler(t, options)
	s := p.cases[r.IntN(len(p.cases))].snapshot
	type holding struct {
		lane     *compile.Lane
		intent   kube.Intent
		backends kube.Backends
		live     bool // with the newest backends
	}
	var lanes []holding
	var base table.List
	for step := range steps {
		s = p.mutate(r, s)
		full := mustCompiler(t, options).Compile(s)
		got := compiler.Compile(s)
		if a, b := routesText(got), routesText(full); a != b {
			t.Fatalf("seed %d, step %d: incremental differs from full\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		if a, b := problemsText(got), problemsText(full); a != b {
			t.Fatalf("seed %d, step %d: problems are not those of the latest snapshot\nincremental:\n%s\nfull:\n%s", seed, step, a, b)
		}
		for i := range lanes {
			h := &lanes[i]
			if r.IntN(4) == 0 {
				continue // a read that does not use the lane
			}
			if h.live {
				h.backends = s.Backends
			}
			list := h.lane.Compile(&h.intent, &h.backends)
			want := mustCompiler(t, options).Compile(&kube.Snapshot{Intent: h.intent, Backends: h.backends}).Routes
			if a, b := routesText(&compile.Result{Routes: list}), routesText(&compile.Result{Routes: want}); a != b {
				t.Fatalf("seed %d, step %d: lane %d differs from full\nlane:\n%s\nfull:\n%s", seed, step, i, a, b)
			}
			checkTable(t, &compile.Result{Routes: list})
			if h.lane.Compile(&h.intent, &h.backends).Len() != list.Len() {
				t.Fatalf("seed %d, step %d: the same again has another number of routes", seed, step)
			}
			held++
		}
		switch r.IntN(8) {
		case 0:
			if len(lanes) < 3 {
				lanes = append(lanes, holding{compiler.NewLane(base), s.Intent, s.Backends, r.IntN(3) > 0})
			}
		case 1:
			if len(lanes) > 0 {
				compiler.Drop(lanes[0].lane)
				lanes = lanes[1:]
			}
		case 2:
			if len(lanes) > 0 {
				lanes[0].intent = s.Intent // the lane continues with another intent
			}
		case 3:
			base = got.Routes // an older result, when a lane starts
		}
	}
	return held
}

func TestLaneEqualsFull(t *testing.T) {
	p := newPool(t)
	held := 0
	for seed := range uint64(60) {
		held += compareLanes(t, p, seed, 60)
	}
	if held < 1000 {
		t.Errorf("the walk had a lane in %d steps: it says little about lanes", held)
	}
}

func FuzzLaneEqualsFull(f *testing.F) {
	p := newPool(f)
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compareLanes(t, p, seed, 30) })
}

// What a lane shares with the latest snapshot, or with the table that it started from, is in memory only once.
func TestLaneSharesWhatIsTheSame(t *testing.T) {
	c := goldenCases(t)[0]
	for _, g := range goldenCases(t) {
		if len(g.snapshot.Ingresses) > len(c.snapshot.Ingresses) {
			c = g
		}
	}
	compiler := mustCompiler(t, c.options)
	first := compiler.Compile(c.snapshot).Routes
	less := *c.snapshot
	less.Ingresses = less.Ingresses[1:]
	compiler.Compile(&less)
	lane := compiler.NewLane(first)
	again := lane.Compile(&c.snapshot.Intent, &less.Backends)
	if len(again.Blocks()) != len(first.Blocks()) {
		t.Fatalf("%d blocks, want the %d that are served", len(again.Blocks()), len(first.Blocks()))
	}
	for i, b := range again.Blocks() {
		if b != first.Blocks()[i] {
			t.Errorf("block %d is there twice", i)
		}
	}
}

// The result for an Ingress that refers to a service with ambiguous ports depends on the objects before it, and those differ by
// lane.
func TestLaneTakesOverNothingVolatile(t *testing.T) {
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
	old := kube.Intent{Ingresses: []*kube.Ingress{first, second}}
	latest := kube.Intent{Ingresses: []*kube.Ingress{second}}
	compiler := mustCompiler(t, compile.Options{})
	text := func(l table.List) string { return routesText(&compile.Result{Routes: l}) }
	alone := text(compiler.Compile(&kube.Snapshot{Intent: latest, Backends: backends}).Routes)
	want := text(mustCompiler(t, compile.Options{}).Compile(&kube.Snapshot{Intent: old, Backends: backends}).Routes)
	if strings.Contains(want, ":8081") || !strings.Contains(alone, ":8081") {
		t.Fatalf("the order of objects does not matter here:\n%s\n%s", want, alone)
	}
	if got := text(compiler.NewLane(table.List{}).Compile(&old, &backends)); got != want {
		t.Errorf("lane:\n%s\nwant:\n%s", got, want)
	}
}
