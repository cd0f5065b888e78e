package source_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

func TestMetricsOfAWatchPassTheLinter(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := newServer(t)
	w := newWatching(t, cluster.Config{URL: server.Start(t), Metrics: cluster.NewMetrics(registry)})
	w.until("a snapshot", func(*kube.Snapshot) bool { return true })
	apply(t, server, "kind: Service\nmetadata: {name: new, namespace: n1}")
	w.until("an event", func(s *kube.Snapshot) bool { return len(s.Services) == 2 })
	server.DropWatches(pathServices)
	server.SetFault(kubetest.Discovery, kubetest.Fault{Status: 503})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(registry, "routesrv_watch_confirmed_timestamp_seconds"); err != nil || n != 4 {
		t.Errorf("%d series, %v", n, err)
	}
}
