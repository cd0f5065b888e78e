package publish

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

var start = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// tableOf makes a table of routes, each given as "id" or "id@host,host".
func tableOf(t *testing.T, routes ...string) *table.Table {
	t.Helper()
	var list []table.Route
	for _, r := range routes {
		id, hosts, _ := strings.Cut(r, "@")
		predicate := "*"
		if hosts != "" {
			hosts = "^(" + strings.ReplaceAll(hosts, ",", "|") + ")$"
			predicate = "Host(/" + hosts + "/)"
		}
		list = append(list, table.Route{ID: id, Text: id + ": " + predicate + " -> <shunt>;", Hosts: hosts})
	}
	tab, err := table.New(list, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// numbered returns the ids r<from> to r<to-1>.
func numbered(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("r%d", i))
	}
	return ids
}

// holder is a keeper where only tables are known.
type holder struct{ keeper }

func newHolder(t *testing.T, cfg guard.Config) *holder {
	t.Helper()
	k, err := newKeeper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{k}
}

// verdict says whether a table is served, and what is held. A release has both.
type verdict struct {
	Reason           guard.Code
	Detail           string
	Since, ReleaseAt time.Time
	publish          bool
}

func (h *holder) offer(served, candidate *table.Table, now time.Time) verdict {
	o, _, due := h.judge(served, candidate, now)
	if o == nil {
		return verdict{publish: true}
	}
	return verdict{o.Reason, o.Detail, o.Since, o.Until, due}
}

func (h *holder) accept(a Acceptance, now time.Time) (*table.Table, error) {
	if err := h.accepts(a); err != nil {
		return nil, err
	}
	t := h.waits
	h.released(h.list, t, &a)
	h.list, h.waits, h.reads = nil, nil, 0
	return t, nil
}

func (h *holder) state() State { return h.show(nil).state() }

// run is a holder with the table that is served.
type run struct {
	t      *testing.T
	guard  *holder
	served *table.Table
	now    time.Time
}

func newRun(t *testing.T, cfg guard.Config, served []string) *run {
	t.Helper()
	return &run{t: t, guard: newHolder(t, cfg), served: tableOf(t, served...), now: start}
}

// read judges a table some time after the previous one, and serves it if the guard allows that.
func (r *run) read(after time.Duration, routes ...string) verdict {
	r.t.Helper()
	return r.judge(after, tableOf(r.t, routes...))
}

func (r *run) judge(after time.Duration, candidate *table.Table) verdict {
	r.now = r.now.Add(after)
	v := r.guard.offer(r.served, candidate, r.now)
	if v.publish {
		r.served = candidate
	}
	return v
}

func (r *run) wants(v verdict, want guard.Code) {
	r.t.Helper()
	if v.Reason != want || v.publish != (want == "") {
		r.t.Fatalf("got publish %v, reason %q, detail %q; want reason %q", v.publish, v.Reason, v.Detail, want)
	}
}

// backed makes a table of n routes, the first of which have no endpoints.
func backed(t *testing.T, n, without int, empty string) *table.Table {
	t.Helper()
	var routes []table.Route
	for i := range n {
		id, backend := fmt.Sprintf("r%d", i), `"http://10.0.0.1:80"`
		if i%2 == 0 {
			backend = `<roundRobin, "http://10.0.0.1:80", "http://10.0.0.2:80?zone=a">`
		}
		if i < without {
			backend = empty
		}
		routes = append(routes, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> ` + backend + ";"})
	}
	tab, err := table.New(routes, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

const noEndpoints = `status(502) -> inlineContent("no endpoints") -> <shunt>`

// cluster is a table as the compiler makes it: definitions by id.
type cluster []table.Route

// add adds a route of an id for a host and a predicate on the path.
func (c *cluster) add(id, host, path, backend string) {
	*c = append(*c, table.Route{ID: id, Hosts: "^(" + host + ")$",
		Text: fmt.Sprintf("%s: Host(/^(%s)$/) && %s -> %s;", id, host, path, backend)})
}

func (c cluster) table(t testing.TB) *table.Table {
	t.Helper()
	tab, err := table.New(c, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

const alive = `"http://10.0.0.1:80"`

// ingresses are the Ingresses from to to-1 of a team, each with two paths, the redirect of one and a catch-all.
func ingresses(prefix string, from, to int, backend string) (c cluster) {
	for i := from; i < to; i++ {
		host := fmt.Sprintf("app-%d[.]example[.]org", i)
		id := fmt.Sprintf("kube_shop__%s_%d__app_%d_example_org__", prefix, i, i)
		c.add(id+"__s", host, `PathSubtree("/")`, backend)
		c.add(id+"_api__s", host, `PathSubtree("/api")`, backend)
		c.add(id+"_api__s_https_redirect", host, `PathSubtree("/api") && Header("X-Forwarded-Proto", "http")`, `redirectTo(308, "https:") -> <shunt>`)
		c.add(fmt.Sprintf("kube___catchall__app_%d____", i), host, `Path("/")`, `<shunt>`)
	}
	return c
}

func join(parts ...cluster) cluster { return slices.Concat(parts...) }

// of returns the ids of the routes from to to-1 of Ingresses in a namespace.
func of(namespace string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("kube_%s__i%d__%s_org____s", namespace, i, namespace))
	}
	return ids
}
