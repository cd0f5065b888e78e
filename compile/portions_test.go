package compile_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/table"
)

// TestPortionsAreTheWhole: a first compilation in several portions has the result of one in a single step, and leaves the same state
// behind. The objects come in any order, and some want the ids of others in another portion.
func TestPortionsAreTheWhole(t *testing.T) {
	p := newPool(t)
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		options := compile.Options{EndpointSlices: seed%2 == 0, Healthcheck: true, HTTPSRedirect: true, EastWest: seed%3 == 0, EastWestDomain: "cluster.local"}
		s := &p.all
		for range 30 {
			s = p.mutate(r, s)
		}
		shuffled := *s
		shuffled.Ingresses, shuffled.RouteGroups = slices.Clone(s.Ingresses), slices.Clone(s.RouteGroups)
		r.Shuffle(len(s.Ingresses), reflect.Swapper(shuffled.Ingresses))
		r.Shuffle(len(s.RouteGroups), reflect.Swapper(shuffled.RouteGroups))
		s = &shuffled
		portions, once := newCompiler(t, options), newCompiler(t, options)
		portions.SetMinPortion(1)
		for step := range 4 { // what follows is the same as well
			got, want := portions.Compile(s), once.Compile(s)
			where := fmt.Sprintf("seed %d, step %d", seed, step)
			for was, is := range table.Changes(want.Routes, got.Routes) {
				t.Fatalf("%s: %+v became %+v", where, was, is)
			}
			if diff := cmp.Diff(want.Problems, got.Problems, cmp.AllowUnexported(compile.Problem{})); diff != "" {
				t.Fatalf("%s: %s", where, diff)
			}
			s = p.mutate(r, s)
		}
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
