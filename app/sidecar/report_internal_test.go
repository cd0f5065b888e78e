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

// TestATableIsFetchedWhenItHasArrived: a proxy applies a table at once and names it with its next request. Fetched after that, the table would never
// count as applied.
func TestATableIsFetchedWhenItHasArrived(t *testing.T) {
	first, second := table.Digest{1}, table.Digest{2}
	p := newProof("", newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	p.saw(etagcache.Seen{Sent: etagcache.Sent{Status: http.StatusOK, Digest: first, Whole: true}})
	if name, at := p.hasFetched(); name.Digest != first || time.Since(at) > time.Minute {
		t.Errorf("after the first body: %v at %v", name, at)
	}
	p.saw(etagcache.Seen{Digest: first, Sent: etagcache.Sent{Status: http.StatusOK, Digest: second, Whole: true}})
	fetched, at := p.hasFetched()
	if fetched.Digest != second {
		t.Errorf("after the second body: %v", fetched)
	}
	p.saw(etagcache.Seen{Digest: second, Sent: etagcache.Sent{Status: http.StatusNotModified, Digest: second, Whole: true}})
	if name, again := p.hasFetched(); name != fetched || again != at {
		t.Errorf("the next request changes the time: %v at %v, was %v", name, again, at)
	}
	p.saw(etagcache.Seen{Digest: second, Sent: etagcache.Sent{Status: http.StatusOK, Digest: table.Digest{3}}})
	if name, _ := p.hasFetched(); name.Digest != second {
		t.Errorf("a body that broke off counts: %v", name)
	}
}
