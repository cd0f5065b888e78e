package watch_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/clustertest"
	"github.com/routesrv/routesrv/internal/source/cluster/watch"
	"github.com/routesrv/routesrv/kube"
)

func TestMetricsOfAWatchPassTheLinter(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := clustertest.NewServer(t)
	w := newWatching(t, watch.Config{
		Config: cluster.Config{URL: server.Start(t), Metrics: api.NewMetrics(registry)}, WatchMetrics: watch.NewMetrics(registry),
	})
	w.until("a snapshot", func(*kube.Snapshot) bool { return true })
	clustertest.Apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
	w.until("an event", func(s *kube.Snapshot) bool { return len(s.Services) == 2 })
	server.DropWatches(clustertest.Services)
	server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 503})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader("# HELP routesrv_source_read_mode 1 for the way in which the API is read: poll or watch.\n"+
		"# TYPE routesrv_source_read_mode gauge\nroutesrv_source_read_mode{mode=\"watch\"} 1\n"), "routesrv_source_read_mode"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "routesrv_watch_events_total", "routesrv_watch_confirmed_timestamp_seconds"); err != nil || n < 5 {
		t.Errorf("%d series, %v", n, err)
	}
}
