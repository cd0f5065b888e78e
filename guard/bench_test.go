package guard_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// BenchmarkJudge is a read that lacks one route of a table with many namespaces.
func BenchmarkJudge(b *testing.B) {
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
	g, err := guard.New(guard.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g.Judge(tables[0], tables[1], guard.Held{}, startTime)
	now := 0
	for b.Loop() {
		g.Judge(tables[now%2], tables[(now+1)%2], guard.Held{}, startTime.Add(time.Duration(now)*time.Second))
		now++
	}
}
