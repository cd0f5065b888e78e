package etagcache_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// TestPublishedIsToldOfEachTableOnce: reads that find the same table again are not reported.
func TestPublishedIsToldOfEachTableOnce(t *testing.T) {
	var told []string
	c := newCache(t, etagcache.Config{Published: func(_ uint64, p *table.Table, stale bool) { told = append(told, fmt.Sprint(p.Revision(), stale)) }})
	now := time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)
	a, b := parseTable(t, `a: * -> <shunt>;`, 1, now), parseTable(t, `b: * -> <shunt>;`, 2, now)
	c.Restore(a, now)
	poll(c, a, 1, now)
	poll(c, b, 2, now)
	poll(c, b, 3, now)
	c.Publish(a)
	c.Publish(a)
	if want := []string{"1 true", "2 false", "1 false"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
