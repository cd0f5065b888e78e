package compute_test

import (
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkExplain measures the cost of an answer at 1x, including parsing the routes of its hosts; "narrow" is the part of
// /match that depends on the size of the table.
func BenchmarkExplain(b *testing.B) {
	c := mustCompiler(b)
	snapshot := scale.New(1).Snapshot()
	routes := c.Compile(snapshot).Routes
	ing, rg := snapshot.Ingresses[7], snapshot.RouteGroups[7]
	for name, q := range map[string]explain.Query{
		"ingress": {Kind: "Ingress", Namespace: ing.Namespace, Name: ing.Name}, "routegroup": {Kind: "RouteGroup", Namespace: rg.Namespace, Name: rg.Name},
		"host": {Host: ing.Spec.Rules[0].Host}, "missing": {Kind: "Ingress", Namespace: "no", Name: "body"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				explain.Explain(explain.Input{Result: c.Latest(), Proxy: match.Options{ValidateQuery: true}}, q)
			}
		})
	}
	b.Run("narrow", func(b *testing.B) {
		for b.Loop() {
			var few []*eskip.Route
			for r := range match.RoutesFor(routes, ing.Spec.Rules[0].Host) {
				few = append(few, eskip.MustParse(r.Text)...)
			}
			match.New(few, match.Options{})
		}
	})
}
