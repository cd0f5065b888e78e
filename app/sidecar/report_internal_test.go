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

// TestATableIsFetchedWhenItHasArrived: a proxy applies a table at once and names it with its next request. Fetched after that, the table would never
// count as applied.
func TestATableIsFetchedWhenItHasArrived(t *testing.T) {
	first, second := table.Digest{1}, table.Digest{2}
	p := newProof("", newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	p.saw(etagcache.Seen{Sent: api.Tag{Digest: first}})
	if name, at := p.hasFetched(); name.Digest != first || time.Since(at) > time.Minute {
		t.Errorf("after the first body: %v at %v", name, at)
	}
	p.saw(etagcache.Seen{Digest: first, Sent: api.Tag{Digest: second}})
	fetched, at := p.hasFetched()
	if fetched.Digest != second {
		t.Errorf("after the second body: %v", fetched)
	}
	p.saw(etagcache.Seen{Digest: second})
	if name, again := p.hasFetched(); name != fetched || again != at {
		t.Errorf("the next request changes the time: %v at %v, was %v", name, again, at)
	}
}
