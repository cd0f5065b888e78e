package match_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/table"
)

func TestRoutesForHasWhatMayMatch(t *testing.T) {
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
		other := &table.Route{ID: "other", Text: `other: Host("^x$") -> <shunt>;`, Hosts: "^x$"}
		list, err := table.List{}.With([]*table.Route{{ID: "a", Text: "a: * -> <shunt>;", Hosts: c.hosts}, other}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Collect(match.RoutesFor(list, "Shop.example.org:8080"))
		if len(got) > 1 || (len(got) == 1) != c.want {
			t.Errorf("%q: %d routes, want it %t", c.hosts, len(got), c.want)
		}
	}
}

// FuzzRoutesForChangesNothing: the routes of the host give the same answer as the whole table, apart from near misses of other
// hosts.
func FuzzRoutesForChangesNothing(f *testing.F) {
	for seed := range uint64(80) {
		f.Add(seed, uint16(5+seed%150))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint16) {
		rnd := rand.New(rand.NewPCG(seed, uint64(size)))
		routes := eskip.MustParse(randomTable(rnd, int(size%300)))
		o := match.Options{NormalizeHost: seed%3 == 0}
		whole, _ := match.New(routes, o)
		var printed []*table.Route
		for _, r := range routes {
			one := table.NewRoute(r)
			printed = append(printed, &one)
		}
		list, err := table.List{}.With(printed, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			in := randomRequest(rnd)
			var few []*eskip.Route
			for r := range match.RoutesFor(list, in.Host) {
				few = append(few, eskip.MustParse(r.Text)...)
			}
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
