package takeover_test

import (
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/test/scale"
	"github.com/routesrv/routesrv/table"
)

// BenchmarkFind compares a table of the production scale with one in which one route is added that takes requests of another.
func BenchmarkFind(b *testing.B) {
	compiler, err := compile.New(rules.Options{EndpointSlices: true, HTTPSRedirect: true, Healthcheck: true})
	if err != nil {
		b.Fatal(err)
	}
	list := compiler.Compile(scale.Snapshot(1)).Routes
	for name, text := range map[string]string{
		"one host": `zz_evil_1: PathSubtree("/zz") && Host("^(app-17[.]example[.]org[.]?(:[0-9]+)?)$") -> <shunt>;`,
		"no host":  `zz_evil_1: PathSubtree("/zz") -> <shunt>;`,
	} {
		added := side(b, text)
		var routes []*table.Route
		for r := range added.Routes.All() {
			routes = append(routes, r)
		}
		after, err := list.With(routes, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = len(takeover.Find(takeover.Side{Routes: list}, takeover.Side{Routes: after}, takeover.Options{}).Takeovers)
			}
			b.ReportMetric(float64(n), "takeovers")
		})
	}
}
