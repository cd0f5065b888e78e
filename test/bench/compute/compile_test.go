// Package compute_test measures pure computations on a generated cluster: compile, explain, match, reviews.
package compute_test

import (
	"fmt"
	"testing"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/test/scale"
)

// scaleOptions are the options of a typical route server.
var scaleOptions = rules.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}

func mustCompiler(b *testing.B) *compile.Compiler {
	b.Helper()
	c, err := compile.New(scaleOptions)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkCompile compiles generated clusters: completely, and after a change of one Ingress.
func BenchmarkCompile(b *testing.B) {
	for _, factor := range []float64{0.1, 1} {
		cluster := scale.New(factor)
		snapshot := cluster.Snapshot()
		b.Run(fmt.Sprintf("%gx/full", factor), func(b *testing.B) {
			b.ReportAllocs()
			routes := 0
			for b.Loop() {
				routes = mustCompiler(b).Compile(snapshot).Routes.Len()
			}
			b.ReportMetric(float64(routes), "routes")
		})
		b.Run(fmt.Sprintf("%gx/one-changed", factor), func(b *testing.B) {
			b.ReportAllocs()
			compiler := mustCompiler(b)
			compiler.Compile(snapshot)
			for n := 1; b.Loop(); n++ {
				compiler.Compile(cluster.Mutated(snapshot, 7, n))
			}
		})
		b.Run(fmt.Sprintf("%gx/unchanged", factor), func(b *testing.B) {
			b.ReportAllocs()
			compiler := mustCompiler(b)
			compiler.Compile(snapshot)
			for b.Loop() {
				next := *snapshot
				compiler.Compile(&next)
			}
		})
	}
}
