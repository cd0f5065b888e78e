package compile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/internal/scale"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// TestPortionsAreTheWhole: a first compilation in several portions has the result of one in a single step, which is how a lane
// compiles, and leaves the same state behind. Objects come in any order, and some want the ids of others from another portion.
func TestPortionsAreTheWhole(t *testing.T) {
	options := compile.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}
	s := scale.New(0.35).Snapshot() // 7,000 objects: three portions
	r := rand.New(rand.NewPCG(5, 1))
	for range 40 {
		from := s.Ingresses[r.IntN(len(s.Ingresses))]
		twin := *from
		twin.Name, twin.Created = twin.Name[:len(twin.Name)-1]+"."+twin.Name[len(twin.Name)-1:], from.Created-int64(r.IntN(3))
		rival := *from
		rival.Namespace = "zz-" + rival.Namespace
		s.Ingresses = append(s.Ingresses, &twin, &rival)
	}
	r.Shuffle(len(s.Ingresses), func(i, j int) { s.Ingresses[i], s.Ingresses[j] = s.Ingresses[j], s.Ingresses[i] })

	portions, once := newCompiler(t, options), newCompiler(t, options)
	got := portions.Compile(s)
	want := once.NewLane(table.List{}).Compile(&s.Intent, &s.Backends)
	sameRoutes(t, "all objects", want, got.Routes)

	fresh := newCompiler(t, options) // grows to the same snapshot in small steps, without portions
	few := *s
	for n := 2000; n < len(s.Ingresses); n += 2000 {
		few.Ingresses, few.RouteGroups = s.Ingresses[:n], s.RouteGroups[:min(n/4, len(s.RouteGroups))]
		fresh.Compile(&few)
	}
	if diff := cmp.Diff(fresh.Compile(s).Problems, got.Problems, cmp.AllowUnexported(compile.Problem{})); diff != "" {
		t.Error(diff)
	}

	for range 2 { // what follows is the same as well
		next := *s
		i := r.IntN(len(next.Ingresses))
		next.Ingresses = append(append([]*kube.Ingress(nil), next.Ingresses[:i]...), next.Ingresses[i+1:]...)
		s = &next
		sameRoutes(t, "one less", newCompiler(t, options).NewLane(table.List{}).Compile(&s.Intent, &s.Backends), portions.Compile(s).Routes)
	}
}

func sameRoutes(t *testing.T, what string, want, got table.List) {
	t.Helper()
	for was, is := range table.Changes(want, got) {
		t.Fatalf("%s: %+v became %+v", what, was, is)
	}
}

func newCompiler(t *testing.T, o compile.Options) *compile.Compiler {
	t.Helper()
	c, err := compile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
