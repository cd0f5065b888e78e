package etagcache_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// heap is what is in use, in bytes.
func heap() float64 {
	for range 3 { // pools are emptied by the second one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestHistoryIsNearlyFree publishes 64 versions that each change one route of a hundred, anywhere: what is kept of them beside the
// last one is a tenth of a table at most, while deltas from the first one work.
func TestHistoryIsNearlyFree(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	before := heap()
	first := benchTableOf(6_000)
	poll(c, first, 1, start)
	digest := first.Digest()
	one := heap() - before

	rng := rand.New(rand.NewPCG(1, 1))
	list := first.Routes()
	first = nil
	for i := range uint64(64) {
		var upserts []*table.Route
		for _, b := range list.Blocks() {
			for _, r := range b.Routes() {
				if rng.IntN(100) == 0 {
					own := *r
					own.Text = own.ID + strings.Replace(own.Text[len(own.ID):], " -> ", " -> changed() -> ", 1) // its own memory
					if strings.Contains(r.Text, "changed()") {
						own.Text = own.ID + strings.Replace(r.Text[len(own.ID):], "changed() -> ", "", 1)
					}
					own.ID, own.Backend = own.Text[:len(own.ID)], 0
					upserts = append(upserts, &own)
				}
			}
		}
		var err error
		if list, err = list.With(upserts, nil); err != nil {
			t.Fatal(err)
		}
		poll(c, table.Of(list, i+2, start), i+2, start)
	}
	list = table.List{}
	after := heap() - before
	share := after/one - 1
	t.Logf("one table: %.1f MiB; with 64 versions: %.1f MiB, %+.1f %%", one/(1<<20), after/(1<<20), 100*share)
	if share > 0.1 {
		t.Errorf("history of 64 versions costs %.1f %% on top of one table, want at most 10 %%", 100*share)
	}
	if w := askDelta(c.Handler(), "/routes", "gzip", `"`+digest.String()+`.1"`); w.Code != 226 {
		t.Errorf("status %d for a client that has the first version, want a delta", w.Code)
	}
	runtime.KeepAlive(c)
}
