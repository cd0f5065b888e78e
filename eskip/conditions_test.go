package eskip

import (
	"math/rand/v2"
	"testing"
)

// TestEqConditionsIsNotMoreGenerous: conditions that it considers equal have the same canonical form, and most pairs of equal
// routes are found.
func TestEqConditionsIsNotMoreGenerous(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() string { return []string{"a", "b", ""}[rng.IntN(3)] }
	random := func() *Route {
		r := &Route{}
		for range rng.IntN(3) {
			p := &Predicate{Name: []string{"Host", "PathRegexp", "Path", "Method", "Any", "Weight"}[rng.IntN(6)]}
			switch rng.IntN(8) {
			case 0:
			case 1:
				p.Args = []interface{}{pick(), pick()}
			case 2:
				p.Args = []interface{}{1.0}
			default:
				p.Args = []interface{}{pick()}
			}
			r.Predicates = append(r.Predicates, p)
		}
		if rng.IntN(3) == 0 {
			r.Path = pick()
		}
		if rng.IntN(3) == 0 {
			r.Method = pick()
		}
		for range rng.IntN(2) {
			r.HostRegexps = append(r.HostRegexps, pick())
		}
		if rng.IntN(4) == 0 {
			r.PathRegexps = append(r.PathRegexps, pick())
		}
		if rng.IntN(6) == 0 {
			r.Headers = map[string]string{"h": pick()}
		}
		return r
	}
	same, found := 0, 0
	for range 300_000 {
		a, b := random(), random()
		is := equivalentPredicates(meaningful(a), meaningful(b))
		if is {
			same++
		}
		if eqConditions(a, b) {
			if found++; !is {
				t.Fatalf("%s and %s", String(a), String(b))
			}
		}
	}
	if same < 1000 || found < same/2 {
		t.Errorf("%d pairs are the same, %d of them were found: the test says little", same, found)
	}
}
