package source_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// TestAProbeRepeatsWhatFailed for one object, and says whether the API server answers again.
func TestAProbeRepeatsWhatFailed(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	read(t, source)
	server.SetFault(pathServices, kubetest.Fault{Status: 503})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Fatal("a read passes without Services")
	}
	server.Requests()
	if err := source.Probe(t.Context()); err == nil {
		t.Error("a probe passes while the API server answers 503")
	}
	requests := server.Requests()
	if len(requests) != 1 || requests[0].Path != pathServices || !strings.Contains(requests[0].Query, "limit=1") {
		t.Errorf("a probe asks %v, want one object of %s", requests, pathServices)
	}
	server.SetFault(pathServices, kubetest.Fault{})
	if err := source.Probe(t.Context()); err != nil {
		t.Errorf("the API server answers again, and the probe says %v", err)
	}
}
