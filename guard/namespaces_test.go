package guard_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// of returns the ids of the routes from to to-1 of Ingresses in a namespace.
func of(namespace string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("kube_%s__i%d__%s_org____s", namespace, i, namespace))
	}
	return ids
}

// catchAlls returns the ids of routes that belong to no namespace.
func catchAlls(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("kube___catchall__h%d____", i))
	}
	return ids
}

// clones returns a copy of each route.
func clones(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = "clone_" + id
	}
	return out
}

func TestNamespaceLost(t *testing.T) {
	shop, kids, rest := of("shop", 0, 20), of("kids", 0, 25), of("rest", 0, 200)
	var groups []string // ids of a namespace that has only a RouteGroup with redirects
	for i := range 10 {
		id := fmt.Sprintf("kube_rg__groups__g__all__%d_0", i)
		groups = append(groups, id, id+"_https_redirect")
	}
	join := slices.Concat[[]string]
	for _, test := range []struct {
		name              string
		served, candidate []string
		off               bool
		cfg               guard.Config
		detail            string // of the hold, empty if there is none
	}{
		{name: "a namespace of 20 routes", served: join(shop, rest), candidate: rest, detail: "all 20 routes of namespace shop are missing"},
		{name: "unless the rule is off", served: join(shop, rest), candidate: rest, off: true},
		{name: "one of 19 may go", served: join(shop[1:], rest), candidate: rest},
		{name: "one may become small", served: join(shop, rest), candidate: join(shop[19:], rest)},
		{name: "one may be replaced by others of its own", served: join(shop, rest), candidate: join(of("shop", 20, 21), rest)},
		{name: "two at once", served: join(shop, kids, rest), candidate: rest, detail: "all 45 routes of 2 namespaces are missing: kids, shop"},
		{
			name: "many at once", served: join(shop, kids, of("a", 0, 20), of("b", 0, 20), of("c", 0, 20), rest), candidate: rest,
			detail: "all 105 routes of 5 namespaces are missing: a, b, c and 2 more",
		},
		{name: "RouteGroups with redirects", served: join(groups, rest), candidate: rest, detail: "all 20 routes of namespace groups are missing"},
		{
			name: "clones count", served: join(shop[:10], clones(shop[:10]), rest), candidate: rest,
			detail: "all 20 routes of namespace shop are missing",
		},
		{name: "a clone that is left is a route that is left", served: join(shop, clones(shop[:1]), rest), candidate: join(clones(shop[:1]), rest)},
		{
			name: "a twentieth of the rest may go as well", served: join(shop, rest), candidate: rest[10:],
			detail: "all 20 routes of namespace shop are missing",
		},
		{name: "more is a reorganisation", served: join(shop, rest), candidate: rest[11:]},
		{
			name: "catch-alls belong to nobody", served: join(shop, rest, catchAlls(60)), candidate: rest,
			detail: "all 20 routes of namespace shop are missing",
		},
		{name: "small namespaces are part of the rest", served: join(shop, rest, of("small", 0, 19)), candidate: rest},
		{
			name: "new routes elsewhere make no difference", served: join(shop, rest), candidate: join(rest, of("new", 0, 100)),
			detail: "all 20 routes of namespace shop are missing",
		},
		{
			name: "the only namespace", cfg: guard.Config{MaxLoss: 1}, served: join(shop, catchAlls(2)), candidate: catchAlls(2),
			detail: "all 20 routes of namespace shop are missing",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.Namespaces = !test.off
			r := newRun(t, test.cfg, test.served)
			v := r.read(time.Second, test.candidate...)
			want := guard.NamespaceLost
			if test.detail == "" {
				want = ""
			}
			r.wants(v, want)
			if v.Detail != test.detail {
				t.Errorf("got %q, want %q", v.Detail, test.detail)
			}
		})
	}
}

// TestNamespaceIsLostInSteps: the objects of a deleted namespace are removed one kind after another.
func TestNamespaceIsLostInSteps(t *testing.T) {
	rest := of("rest", 0, 200)
	r := newRun(t, guard.Config{Namespaces: true, Manual: true}, slices.Concat(of("shop", 0, 30), rest))
	r.wants(r.read(time.Second, slices.Concat(of("shop", 0, 12), rest)...), "")
	r.wants(r.read(time.Second, slices.Concat(of("shop", 0, 5), rest)...), "")
	v := r.read(time.Second, rest...)
	r.wants(v, guard.NamespaceLost)
	if want := "all 30 routes of namespace shop are missing"; v.Detail != want {
		t.Errorf("got %q, want %q", v.Detail, want)
	}
	r.wants(r.read(time.Hour, rest...), guard.NamespaceLost) // the window does not move on

	r = newRun(t, guard.Config{Namespaces: true}, slices.Concat(of("shop", 0, 30), rest))
	r.wants(r.read(0, slices.Concat(of("shop", 0, 12), rest)...), "")
	r.wants(r.read(0, slices.Concat(of("shop", 0, 12), rest)...), "")
	r.wants(r.read(guard.DefaultWindow, rest...), "") // a small one by now
}

// TestYoungNamespaceMayGo: a namespace that appeared within the window may disappear again.
func TestYoungNamespaceMayGo(t *testing.T) {
	rest := of("rest", 0, 200)
	grown := slices.Concat(of("shop", 0, 30), rest)
	r := newRun(t, guard.Config{Namespaces: true}, rest)
	r.wants(r.read(time.Second, grown...), "")
	r.wants(r.read(time.Second, grown...), "")
	r.wants(r.read(guard.DefaultWindow/2, rest...), "")
	r.wants(r.read(time.Second, grown...), "")
	r.wants(r.read(time.Second, grown...), "")
	r.wants(r.read(guard.DefaultWindow+guard.DefaultWindow/16, rest...), guard.NamespaceLost)
}

// TestNamespacesAreCountedAcrossTables: the counts match the served table, whatever was added and removed.
func TestNamespacesAreCountedAcrossTables(t *testing.T) {
	rest := of("rest", 0, 200)
	r := newRun(t, guard.Config{Namespaces: true, Window: time.Second}, slices.Concat(of("shop", 0, 30), rest))
	for i := range 20 { // one is removed and one is added
		r.wants(r.read(time.Minute, slices.Concat(of("shop", i, i+25), of("kids", 0, i+2), rest)...), "")
	}
	r.wants(r.read(time.Minute, slices.Concat(of("kids", 0, 21), rest)...), guard.NamespaceLost)
	v := r.read(time.Minute, slices.Concat(of("shop", 19, 44), rest)...)
	r.wants(v, guard.NamespaceLost)
	if !strings.Contains(v.Detail, "namespace kids") {
		t.Errorf("got %q", v.Detail)
	}
}

// BenchmarkJudge is a read that lacks one route of a table with many namespaces.
func BenchmarkJudge(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("namespaces=%v", on), func(b *testing.B) {
			var routes []*table.Route
			for i := range 120_000 {
				id := fmt.Sprintf("kube_n%d__i%d__h__p__s", i%400, i)
				routes = append(routes, &table.Route{ID: id, Text: id + `: Host(/^(app` + strconv.Itoa(i/4) + `[.]org)$/) && PathSubtree("/` + strconv.Itoa(i%4) +
					`") -> "http://10.0.0.1:80";`, Hosts: "^(app" + strconv.Itoa(i/4) + "[.]org)$"})
			}
			full, err := table.List{}.With(routes, nil)
			if err != nil {
				b.Fatal(err)
			}
			less, err := full.With(nil, []string{routes[777].ID})
			if err != nil {
				b.Fatal(err)
			}
			a := table.Of(full, 1, startTime)
			tables := []*table.Table{a, a.Next(less, 2, startTime)}
			g, err := guard.New(guard.Config{Namespaces: on})
			if err != nil {
				b.Fatal(err)
			}
			g.Judge(tables[0], tables[1], guard.Held{}, startTime)
			now := 0
			for b.Loop() {
				g.Judge(tables[now%2], tables[(now+1)%2], guard.Held{}, startTime.Add(time.Duration(now)*time.Second))
				now++
			}
		})
	}
}
