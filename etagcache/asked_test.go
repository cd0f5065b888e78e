package etagcache_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
)

// A table is compressed for nobody in encodings that nobody asks for: not at the start, and not after the last client of an encoding left.
func TestEncodingsThatAreAskedForAreMadeInAdvance(t *testing.T) {
	metrics := etagcache.NewMetrics(nil)
	c := newCache(t, etagcache.Config{Metrics: metrics})
	revision := uint64(0)
	// publish returns how many blocks were encoded before anybody asked.
	publish := func() float64 {
		revision++
		before := testutil.ToFloat64(metrics.EncodedBlocks)
		poll(c, parseTable(t, `a: Header("V", "`+time.Duration(revision).String()+`") -> <shunt>`, revision, start), revision, start)
		return testutil.ToFloat64(metrics.EncodedBlocks) - before
	}
	size := func(encoding string) float64 { return testutil.ToFloat64(metrics.TableBytes.WithLabelValues(encoding)) }

	if n := publish(); n != 0 || size("gzip") != 0 || size("zstd") != 0 || size("identity") == 0 {
		t.Errorf("first table: %v blocks, sizes %v and %v", n, size("gzip"), size("zstd"))
	}
	askDelta(c.Handler(), "/routes", "gzip", "")
	if size("gzip") == 0 || size("zstd") != 0 {
		t.Errorf("after a request: sizes %v and %v", size("gzip"), size("zstd"))
	}
	if n := publish(); n != 1 || size("gzip") == 0 || size("zstd") != 0 {
		t.Errorf("second table: %v blocks, sizes %v and %v", n, size("gzip"), size("zstd"))
	}
	askDelta(c.Handler(), "/routes", "zstd", "")
	for i := range 99 {
		if n := publish(); n != 1 || size("gzip") == 0 || size("zstd") == 0 {
			t.Fatalf("%d versions after the request in zstd: %v blocks, sizes %v and %v", i+1, n, size("gzip"), size("zstd"))
		}
	}
	if n := publish(); n != 1 || size("gzip") != 0 || size("zstd") == 0 {
		t.Errorf("after the last client with gzip: %v blocks, sizes %v and %v", n, size("gzip"), size("zstd"))
	}
	if n := publish(); n != 0 || size("zstd") != 0 {
		t.Errorf("after the last client: %v blocks, size %v", n, size("zstd"))
	}
}
