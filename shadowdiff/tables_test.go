package shadowdiff_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// TestTablesIsDiffOfTheirRoutes: skipping equal routes does not change the report.
func TestTablesIsDiffOfTheirRoutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	expressions := []string{
		`Host("^(a)$") -> <shunt>`, `Host(/^(a)$/) -> <shunt>`, `Path("/x") && Method("GET") -> status(201) -> <shunt>`,
		`Method("GET") && Path("/x") -> status(201) -> <shunt>`, `* -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">`,
		`* -> <roundRobin, "http://10.0.0.2", "http://10.0.0.1">`, `* -> <loopback>`,
	}
	random := func() *table.Table {
		text := ""
		for i := range rng.IntN(30) {
			if rng.IntN(4) > 0 {
				text += fmt.Sprintf("r%02d: %s;\n", i, expressions[rng.IntN(len(expressions))])
			}
		}
		if len(text) > 0 {
			text = text[:len(text)-1] // in canonical form, which keeps the spelling
		}
		routes, err := table.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.New(routes, 1, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	differences := 0
	for range 3000 {
		a, b := random(), random()
		if rng.IntN(20) == 0 {
			b = a
		}
		want := shadowdiff.Diff(eskip.MustParse(string(a.Text())), eskip.MustParse(string(b.Text())))
		got, err := shadowdiff.Tables(t.Context(), a, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("report of\n%s\nand\n%s\n(-of the routes +of the tables):\n%s", a.Text(), b.Text(), diff)
		}
		differences += got.Counts().Changed
	}
	if differences == 0 {
		t.Error("no route was changed: the test says little")
	}
}
