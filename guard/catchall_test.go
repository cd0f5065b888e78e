package guard_test

import (
	"fmt"
	"testing"

	"github.com/routesrv/routesrv/guard"
)

// TestLostCatchAlls: hosts that lose their catch-all lose requests, unless a route takes these, the host is gone, or catch-alls are switched off.
func TestLostCatchAlls(t *testing.T) {
	table := func(hosts, catchAlls int, path string) (c definitions) {
		for i := range hosts {
			host := fmt.Sprintf("app-%d[.]example[.]org", i)
			c.Add(fmt.Sprintf("kube_shop__app_%d__app_%d_example_org___api__s", i, i), host, path, alive)
			if i < catchAlls {
				c.Add(fmt.Sprintf("kube___catchall__app_%d_example_org____", i), host, `Weight(0)`, `<shunt>`)
			}
		}
		return c
	}
	const expr = `PathRegexp(/^(\/api)/)`
	for _, c := range []struct {
		name  string
		after definitions
		want  guard.Code
	}{
		{"most catch-alls are gone", table(50, 20, expr), guard.RoutesLost},
		{"some are gone", table(50, 35, expr), ""},
		{"all are gone: a setting", table(50, 0, expr), ""},
		{"routes take the requests", table(50, 20, `PathSubtree("/api")`), ""},
	} {
		g := newGuard(t, guard.Config{MaxLoss: 0.5})
		before := table(50, 50, expr).Table(t)
		if loss := g.Judge(before, before, guard.Held{}, startTime); loss.Reason != "" {
			t.Fatalf("%s: the first table: %s", c.name, loss.Detail)
		}
		loss := g.Judge(before, c.after.Table(t), guard.Held{}, startTime)
		if loss.Reason != c.want {
			t.Errorf("%s: reason %q, %s, want %q", c.name, loss.Reason, loss.Detail, c.want)
		}
	}
}
