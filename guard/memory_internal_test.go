package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// The memory of a guard is limited by what changes within the window, and by the table if everything changes all the time.
func TestMemoryOfTheWindowIsBounded(t *testing.T) {
	const size = 1000
	now := time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)
	names := make([]string, size)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i)
	}
	tableOf := func() *table.Table {
		var routes []table.Route
		for _, name := range names {
			routes = append(routes, table.Route{ID: name, Text: name + `: * -> "http://10.0.0.1";`})
		}
		tab, err := table.New(routes, 1, now)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	for _, test := range []struct{ each, most int }{{1, 230}, {size / 4, 2 * size}} {
		g, err := New(Config{Hold: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		served, held := tableOf(), Held{}
		for round := range 500 { // 25 minutes
			for i := range test.each {
				names[(round*test.each+i)%size] = fmt.Sprintf("x%d_%d", round, i)
			}
			candidate := tableOf()
			now = now.Add(3 * time.Second)
			switch l := g.Judge(served, candidate, held, now); {
			case l.Reason == "" && l.Missing([]Code{RoutesLost}) == 0:
				served, held = candidate, Held{}
			case held.Since.IsZero():
				held.Since = now
			}
			for what, n := range map[string][2]int{
				"requests": {len(g.window(requests).lost), len(g.window(requests).gained)},
				"backends": {len(g.window(backends).lost), len(g.window(backends).gained)},
			} {
				if max(n[0], n[1]) > test.most {
					t.Fatalf("%d changes in each read: round %d: %d lost and %d gained %s, want %d at most",
						test.each, round, n[0], n[1], what, test.most)
				}
			}
		}
	}
}
