//go:build !race

package match_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// FuzzFindEqualsScan: on random tables and requests, Find returns the outcomes of the slow evaluator.
func FuzzFindEqualsScan(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, uint16(5+seed%150))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint16) {
		rnd := rand.New(rand.NewPCG(seed, uint64(size)))
		text := randomTable(rnd, int(size%300))
		routes := eskip.MustParse(text)
		o := match.Options{IgnoreTrailingSlash: seed%2 == 0, NormalizeHost: seed%3 == 0}
		table, refusals := match.New(routes, o)
		if len(refusals) > 0 {
			t.Fatalf("refused: %v %s", refusals[0].Route, refusals[0].Text)
		}
		for range 20 {
			in := randomRequest(rnd)
			want := slowFind(routes, o, in)
			res := table.Find(in)
			got := []string{}
			for _, out := range res.Outcomes {
				id := ""
				if out.Route != nil {
					id = out.Route.Id
				}
				got = append(got, id)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v, %+v: outcomes %q, want %q\n%s", o, in, got, want, text)
			}
		}
	})
}
