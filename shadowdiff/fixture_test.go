package shadowdiff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

// document is a sorted table of n routes as the compiler makes them of Ingresses and RouteGroups. From one version to the next
// every hundredth route changes: endpoints, a filter, a predicate, or its id.
func document(n, version int) string {
	var b strings.Builder
	for i := range n {
		v := 0
		if i%100 == 50 {
			v = version
		}
		team, app, renamed := i/3%211, i/3%1999, 0
		if i%400 == 350 {
			renamed = v
		}
		fmt.Fprintf(&b, `kube_%07d_%d__team_%d__app_%d: Host(/^(app-%d[.]team-%d[.]example[.]org[.]?(:[0-9]+)?)$/)`, i, renamed, team, app, app, team)
		if v > 0 && i%400 == 250 {
			fmt.Fprintf(&b, ` && Method("POST")`)
		}
		fmt.Fprintf(&b, ` && PathSubtree("/api/v%d/items")`, i%7)
		fmt.Fprintf(&b, ` -> setRequestHeader("X-Request-Team", "team-%d")`, team)
		if i%2 == 0 {
			fmt.Fprintf(&b, ` -> clusterRatelimit("checkout", 100, "1m") -> enableAccessLog(4, 5)`)
		}
		if v > 0 && i%400 == 150 {
			fmt.Fprintf(&b, ` -> setPath("/v%d")`, v)
		}
		b.WriteString(` -> <powerOfRandomNChoices`)
		for e := range 3 + i%3 {
			if v > 0 && e == 0 && i%200 == 50 {
				e = 100 + v
			}
			fmt.Fprintf(&b, `, "http://10.%d.%d.%d:8080?zone=eu-central-1%c"`, e, i>>8&255, i&255, 'a'+e%3)
		}
		b.WriteString(">;\n")
	}
	return b.String()
}

func parse(tb testing.TB, code string) []*eskip.Route {
	tb.Helper()
	routes, err := eskip.Parse(code)
	if err != nil {
		tb.Fatalf("%v in %s", err, code)
	}
	return routes
}
