package compute_test

import (
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkTakeovers compares a table of the production scale with one in which one route is added that takes requests of another.
func BenchmarkTakeovers(b *testing.B) {
	compiler := mustCompiler(b)
	list := compiler.Compile(scale.Snapshot(1)).Routes
	for name, text := range map[string]string{
		"one host": `zz_evil_1: PathSubtree("/zz") && Host("^(app-17[.]example[.]org[.]?(:[0-9]+)?)$") -> <shunt>;`,
		"no host":  `zz_evil_1: PathSubtree("/zz") -> <shunt>;`,
	} {
		var routes []*table.Route
		for _, r := range eskip.MustParse(text) {
			line := table.NewRoute(r)
			routes = append(routes, &line)
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
