package sidecar

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// TestRefusedRoutesAreOfTheLastTable: a proxy never decreases its count, and a new process counts from 0.
func TestRefusedRoutesAreOfTheLastTable(t *testing.T) {
	first, second := table.Digest{1}, table.Digest{2}
	p := newProof("", newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	start := time.Now()
	sent := func(d table.Digest) { p.saw(etagcache.Seen{Sent: api.Tag{Digest: d}}) }
	want := func(what string, started time.Time, refused, want uint64) {
		t.Helper()
		p.read(time.Now(), &figures{started: started, applied: time.Now(), table: true, refused: refused})
		if got := p.refusedRoutes(); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	sent(first)
	want("a route of the first table", start, 1, 1)
	p.saw(etagcache.Seen{}) // a body that broke off
	want("a body that broke off", start, 1, 1)
	sent(second)
	want("another table", start, 1, 0)
	p.saw(etagcache.Seen{Digest: second})
	want("two routes of it", start, 3, 2)
	want("another process", start.Add(time.Minute), 3, 3)
}
