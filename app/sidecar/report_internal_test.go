package sidecar

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// TestRefusedRoutesAreOfTheLastTable: a proxy never decreases its count, and a new process counts from 0.
func TestRefusedRoutesAreOfTheLastTable(t *testing.T) {
	first, second := table.Digest{1}, table.Digest{2}
	p := newProof("", newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	start := time.Now()
	sent := func(d table.Digest, whole bool) {
		p.saw(etagcache.Seen{Sent: etagcache.Sent{Status: http.StatusOK, Digest: d, Whole: whole}})
	}
	want := func(what string, started time.Time, refused, want uint64) {
		t.Helper()
		p.read(time.Now(), &figures{started: started, applied: time.Now(), table: true, refused: refused})
		if got := p.refusedRoutes(); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	sent(first, true)
	want("a route of the first table", start, 1, 1)
	sent(second, false)
	want("a body that broke off", start, 1, 1)
	sent(second, true)
	want("another table", start, 1, 0)
	p.saw(etagcache.Seen{Digest: second, Sent: etagcache.Sent{Status: http.StatusNotModified, Digest: second, Whole: true}})
	want("two routes of it", start, 3, 2)
	want("another process", start.Add(time.Minute), 3, 3)
}
