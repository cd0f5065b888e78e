package table_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// benchRoutes makes n routes with endpoints in three zones.
func benchRoutes(n int) []table.Route {
	routes := make([]table.Route, n)
	for i := range routes {
		id := fmt.Sprintf("kube_team__service_%06d__www_example_org___api__backend", i)
		text := id + `: Host(/^(www[.]example[.]org[.]?(:[0-9]+)?)$/) && PathSubtree("/api") -> setRequestHeader("X-Service", "service") -> `
		text += "<roundRobin"
		for e := range 6 {
			text += fmt.Sprintf(`, "http://10.%d.%d.%d:8080?zone=z%d"`, e, i>>8&255, i&255, e%2)
		}
		routes[i] = table.Route{ID: id, Text: text + ">;"}
	}
	return routes
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 50_000} {
		routes := benchRoutes(n)
		tab, err := table.New(routes, 1, at)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("New/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(tab.Bytes()))
			for b.Loop() {
				if _, err := table.New(routes, 1, at); err != nil {
					b.Fatal(err)
				}
			}
		})
		text := string(tab.Text())
		b.Run(fmt.Sprintf("Parse/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := table.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("ParseByEskip/%d", n), func(b *testing.B) { // the baseline for Parse
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := eskip.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("Zone/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(tab.Bytes()))
			for b.Loop() {
				if tab.Zone("z0") == tab {
					b.Fatal("nothing differs")
				}
			}
		})
	}
}

// BenchmarkDecode is BenchmarkParse for a document that arrives in pieces, first without a previous table, then with one that is
// mostly the same.
func BenchmarkDecode(b *testing.B) {
	text := manyRoutes(20_000, "path")
	base, err := parsed(manyRoutes(20_000, "path"))
	if err != nil {
		b.Fatal(err)
	}
	for name, before := range map[string]*table.Table{"first": nil, "again": base} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(before, text, 32<<10, math.MaxInt64); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parsed(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
