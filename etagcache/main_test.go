package etagcache_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time of the first table.
var start = time.Date(2026, 11, 21, 4, 15, 45, 678_000_000, time.UTC)

func newCache(t testing.TB, cfg etagcache.Config) *etagcache.Cache {
	t.Helper()
	c, err := etagcache.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// parseTable makes a table from an eskip document.
func parseTable(t testing.TB, text string, revision uint64, at time.Time) *table.Table {
	t.Helper()
	routes, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, revision, at)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// at is a consistent read of a source at the revision.
func at(revision uint64, when time.Time) table.Read {
	return table.Read{Oldest: revision, Newest: revision, Consistent: true, At: when}
}

// poll tells the cache of a consistent read that found t at a revision.
func poll(c *etagcache.Cache, t *table.Table, revision uint64, when time.Time) {
	show(c, t, at(revision, when))
}

// show tells the cache of a read that found t.
func show(c *etagcache.Cache, t *table.Table, r table.Read) {
	end := c.Begin()
	if cur := c.Current(); cur != nil && cur.Digest() == t.Digest() {
		t = cur
	} else {
		t = t.WithRevision(r.Newest)
	}
	end(t, r)
}

// again tells the cache of a read that found the current table, or one that says that another table is held back.
func again(c *etagcache.Cache, r table.Read) {
	end := c.Begin()
	if r.Held && !r.Live {
		end(nil, r)
	} else {
		end(c.Current(), r)
	}
}
