package shadowdiff_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
)

func BenchmarkDiff20k(b *testing.B)  { benchmarkDiff(b, 20_000) }
func BenchmarkDiff124k(b *testing.B) { benchmarkDiff(b, 124_000) }

// benchmarkDiff compares tables that were parsed separately, as those of two servers are, and differ in 1 %.
func benchmarkDiff(b *testing.B, n int) {
	x, y := parse(b, document(n, 0)), parse(b, document(n, 1))
	unsorted := append([]*eskip.Route(nil), y...)
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { unsorted[i], unsorted[j] = unsorted[j], unsorted[i] })
	compiled := make([]*eskip.Route, n) // the same routes in the other spelling
	for i, r := range y {
		compiled[i] = eskip.Canonical(r)
	}
	renamed := make([]*eskip.Route, n)
	for i, r := range y {
		renamed[i] = r.Copy()
		renamed[i].Id = "z" + r.Id
	}
	for _, c := range []struct {
		name string
		y    []*eskip.Route
	}{{"sorted", y}, {"unsorted", unsorted}, {"canonical", compiled}, {"all_ids", renamed}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var r shadowdiff.Report
			for b.Loop() {
				r = shadowdiff.Diff(x, c.y)
			}
			if r.Empty() {
				b.Error("no difference was found")
			}
			b.ReportMetric(float64(r.Counts().Differences()), "differences")
		})
	}
}

func BenchmarkObserve20k(b *testing.B) {
	r := shadowdiff.Diff(parse(b, document(20_000, 0)), parse(b, document(20_000, 1)))
	t := shadowdiff.NewLimitedTracker(0)
	now := time.Unix(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(3 * time.Second)
		t.Observe(r, shadowdiff.Meta{Now: now})
	}
}
