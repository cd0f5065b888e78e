package hostile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/hostile"
	"github.com/routesrv/routesrv/table"
)

// FuzzHostileTexts puts any text into every field of every kind of object, which are then read and compiled, and whose table is read. Package
// internal/server does the same with a running server.
func FuzzHostileTexts(f *testing.F) {
	for i, text := range hostile.Texts {
		if i%4 == 0 { // the test of the server has all of them
			f.Add(text, i%8 == 0)
		}
	}
	want := map[bool][]string{true: hostile.GoodRoutes(f, hostile.Options(true)), false: hostile.GoodRoutes(f, hostile.Options(false))}
	f.Fuzz(func(t *testing.T, text string, slices bool) {
		if strings.Contains(text, "good") || strings.Contains(text, "NS") || len(text) > 10_000 {
			return
		}
		result := hostile.Compiled(t, hostile.Options(slices), hostile.Cluster(t, hostile.Always(text)))
		hostile.CheckServed(t, string(table.Of(result.Routes, 1, time.Unix(1, 0)).Text()), want[slices])
	})
}
