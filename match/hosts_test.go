package match_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/table"
)

func TestForHostsKeepsWhatMayMatch(t *testing.T) {
	for _, c := range []struct {
		hosts string
		want  bool
	}{
		{"", true},
		{"^(shop[.]example[.]org[.]?(:[0-9]+)?)$", true},
		{"^(a[.]example[.]org[.]?(:[0-9]+)?|shop[.]example[.]org[.]?(:[0-9]+)?)$", true},
		{"^(a[.]example[.]org[.]?(:[0-9]+)?)$", false},
		{"^(a[.]example[.]org[.]?(:[0-9]+)?)$\n^(shop[.]example[.]org[.]?(:[0-9]+)?)$", false},
		{"^a[.]example[.]org$", false},
		{"example", true},
		{"^(.*[.]example[.]org)$", true},
		{"^(*[.]example[.]org[.]?(:[0-9]+)?)$", true}, // no proxy compiles it, and a warning may be due
	} {
		if got := match.ForHosts("Shop.example.org:8080")(c.hosts); got != c.want {
			t.Errorf("%q: %t, want %t", c.hosts, got, c.want)
		}
	}
}

// FuzzForHostsChangesNothing: the routes of the host give the same answer as the whole table, apart from near misses of other
// hosts.
func FuzzForHostsChangesNothing(f *testing.F) {
	for seed := range uint64(80) {
		f.Add(seed, uint16(5+seed%150))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint16) {
		rnd := rand.New(rand.NewPCG(seed, uint64(size)))
		routes := eskip.MustParse(randomTable(rnd, int(size%300)))
		o := match.Options{NormalizeHost: seed%3 == 0}
		whole, _ := match.New(routes, o)
		for range 20 {
			in := randomRequest(rnd)
			may := match.ForHosts(in.Host)
			few := slices.DeleteFunc(slices.Clone(routes), func(r *eskip.Route) bool { return !may(table.NewRoute(r).Hosts) })
			part, _ := match.New(few, o)
			want, got := whole.Find(in), part.Find(in)
			if outcomesOf(got) != outcomesOf(want) {
				t.Fatalf("%+v: outcomes %s of %d routes, want %s of %d", in, outcomesOf(got), len(few), outcomesOf(want), len(routes))
			}
		}
	})
}

func outcomesOf(r match.Result) string {
	text := ""
	for _, o := range r.Outcomes {
		if o.Route != nil {
			text += o.Route.Id
		}
		text += ";"
	}
	return text
}
