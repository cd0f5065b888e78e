package dataplane_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// replicas replaces the servers of the world by real ones.
func replicas(t *testing.T, w *world) []*etagcache.Cache {
	t.Helper()
	net := network{}
	var caches []*etagcache.Cache
	for i := range w.servers {
		cache, err := etagcache.New(etagcache.Config{})
		if err != nil {
			t.Fatal(err)
		}
		caches = append(caches, cache)
		net[string(rune('a'+i))] = cache.Handler()
	}
	w.cfg.Transport = net
	return caches
}

// reads tells a replica of a complete and consistent read that returned the table.
func reads(c *etagcache.Cache, tab *table.Table) {
	c.Begin()(tab, table.Read{Oldest: tab.Revision(), Newest: tab.Revision(), Consistent: true, At: time.Now()})
}

// TestReplicasOfARouteServer covers a failover to a replica that lags, and a restore of the cluster.
func TestReplicasOfARouteServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		caches := replicas(t, w)
		c := w.client()
		old, cur := newTable(t, 10, "a", "b"), newTable(t, 11, "a", "b", "c")
		reads(caches[0], cur)
		reads(caches[1], old)
		mustPoll(t, c)
		holds(t, c, cur)
		mustPoll(t, c)
		if got := w.metric("dataplane_fetches_total", "result", "unchanged"); got != 1 {
			t.Errorf("%v fetches gave the same table, want 1", got)
		}

		transport := w.cfg.Transport.(network)
		delete(transport, "a")
		for range 5 { // the other replica cannot be sure, and does not send the older table
			mustPoll(t, c)
			holds(t, c, cur)
		}
		if got := w.metric("dataplane_fetches_total", "result", "older"); got != 0 {
			t.Errorf("%v fetches gave an older table", got)
		}
		reads(caches[1], cur.WithRevision(12))
		mustPoll(t, c)
		holds(t, c, cur)
		if len(w.published) != 1 {
			t.Errorf("%d tables published, want 1", len(w.published))
		}

		restored := newTable(t, 5, "a", "b")
		for range 4 {
			reads(caches[1], restored)
			mustPoll(t, c)
		}
		holds(t, c, restored)
		if got := w.metric("dataplane_older_tables_accepted_total"); got != 1 {
			t.Errorf("%v older tables accepted, want 1", got)
		}
	})
}

// TestZoneTablesOfARouteServer: tables of zones are accepted byte for byte, and named.
func TestZoneTablesOfARouteServer(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Zone = "x"
	cache := replicas(t, w)[0]
	doc := `a: * -> <roundRobin`
	for i := range 8 {
		doc += fmt.Sprintf(`, "http://10.0.0.%d:8080?zone=%c"`, i, 'x'+i%2)
	}
	tab := parseTable(t, doc+">;", 10)
	reads(cache, tab)
	c := w.client()
	mustPoll(t, c)
	if tab.Zone("x").Digest() == tab.Digest() {
		t.Fatal("the zone table is the full table")
	}
	holds(t, c, tab.Zone("x"))
	mustPoll(t, c)
	if len(w.confirmed) != 1 {
		t.Errorf("%d times confirmed, want once", len(w.confirmed))
	}
}

func TestStatusAndMetricsOfATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		cache := replicas(t, w)[0]
		tab := newTable(t, 10, "a", "b")
		reads(cache, tab)
		c := w.client()
		published := time.Now()
		time.Sleep(time.Minute) // the server has not read since
		mustPoll(t, c)
		s := c.Status()
		a := s.Applied
		if a == nil || a.Digest != tab.Digest() || a.Revision != 10 || a.Routes != 2 || a.Bytes != tab.Bytes() || a.Stale ||
			a.Origin != "http://a/routes" || a.ETag != etagOf(tab, "+zstd") || !a.SourceRead.Equal(published.Truncate(time.Millisecond)) {
			t.Errorf("status has %+v", a)
		}
		if s.AgeSeconds < 60 || s.AgeSeconds > 61 {
			t.Errorf("the age is %v", s.AgeSeconds)
		}
		if got := c.Current().Time(); !got.Equal(published.Truncate(time.Second)) {
			t.Errorf("the table is of %v, want %v", got, published)
		}
		for name, want := range map[string]float64{
			"dataplane_table_routes": 2, "dataplane_table_revision": 10,
			"dataplane_table_stale": 0, "dataplane_guard_held": 0,
			"dataplane_source_last_read_timestamp_seconds": float64(published.UnixMilli()) / 1000,
		} {
			if got := w.metric(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

func TestMetricsAreNamedAsPrometheusAsksFor(t *testing.T) {
	registry := prometheus.NewRegistry()
	dataplane.NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v (%v)", problems, err)
	}
}
