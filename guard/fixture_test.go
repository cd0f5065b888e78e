package guard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// startTime is the time of the tables.
var startTime = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// alive is a backend with an endpoint, noEndpoints what the compiler makes of a service without one.
const (
	alive       = `"http://10.0.0.1:80"`
	noEndpoints = `status(502) -> inlineContent("no endpoints") -> <shunt>`
)

// newTable makes a table of routes, each given as "id" or "id@host,host".
func newTable(t testing.TB, routes ...string) *table.Table {
	t.Helper()
	var c definitions
	for _, r := range routes {
		id, hosts, _ := strings.Cut(r, "@")
		predicate := "*"
		if hosts != "" {
			hosts = "^(" + strings.ReplaceAll(hosts, ",", "|") + ")$"
			predicate = "Host(/" + hosts + "/)"
		}
		c = append(c, table.Route{ID: id, Text: id + ": " + predicate + " -> <shunt>;", Hosts: hosts})
	}
	return c.Table(t)
}

// numbered returns the ids r<from> to r<to-1>.
func numbered(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("r%d", i))
	}
	return ids
}

// backed makes a table of n routes, the first of which have no endpoints.
func backed(t testing.TB, n, without int, empty string) *table.Table {
	t.Helper()
	var c definitions
	for i := range n {
		id, backend := fmt.Sprintf("r%d", i), alive
		if i%2 == 0 {
			backend = `<roundRobin, "http://10.0.0.1:80", "http://10.0.0.2:80?zone=a">`
		}
		if i < without {
			backend = empty
		}
		c = append(c, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> ` + backend + ";"})
	}
	return c.Table(t)
}

// definitions is a table as the compiler makes it: its definitions.
type definitions []table.Route

// Add adds a route of an id for a host and a predicate on the path.
func (c *definitions) Add(id, host, path, backend string) {
	*c = append(*c, table.Route{ID: id, Hosts: "^(" + host + ")$",
		Text: fmt.Sprintf("%s: Host(/^(%s)$/) && %s -> %s;", id, host, path, backend)})
}

// Table returns the table of the definitions.
func (c definitions) Table(t testing.TB) *table.Table {
	t.Helper()
	tab, err := table.New(c, 1, startTime)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// ingressRoutes are the Ingresses from to to-1 of a team, each with two paths, the redirect of one and a catch-all.
func ingressRoutes(prefix string, from, to int, backend string) (c definitions) {
	for i := from; i < to; i++ {
		host := fmt.Sprintf("app-%d[.]example[.]org", i)
		id := fmt.Sprintf("kube_shop__%s_%d__app_%d_example_org__", prefix, i, i)
		c.Add(id+"__s", host, `PathSubtree("/")`, backend)
		c.Add(id+"_api__s", host, `PathSubtree("/api")`, backend)
		c.Add(id+"_api__s_https_redirect", host, `PathSubtree("/api") && Header("X-Forwarded-Proto", "http")`, `redirectTo(308, "https:") -> <shunt>`)
		c.Add(fmt.Sprintf("kube___catchall__app_%d____", i), host, `Path("/")`, `<shunt>`)
	}
	return c
}
