package source_test

import (
	"testing"

	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

// TestNamespacesAreReadOnDemand: their annotations, in both forms of the API's answers, and not where one namespace is read.
func TestNamespacesAreReadOnDemand(t *testing.T) {
	server, err := kubetest.New([]byte(`
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {routesrv.dev/allow-takeover-by: team, kubectl.kubernetes.io/last-applied-configuration: "{}"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
`), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	url := server.Start(t)
	for name, c := range map[string]struct {
		cfg  cluster.Config
		want int
	}{
		"wanted":        {cluster.Config{URL: url, Namespaces: true}, 2},
		"not wanted":    {cluster.Config{URL: url}, 0},
		"one namespace": {cluster.Config{URL: url, Namespaces: true, Selection: kube.Selection{Namespace: "shop"}}, 0},
	} {
		got := read(t, newSource(t, c.cfg)).Namespaces
		if len(got) != c.want {
			t.Errorf("%s: %d namespaces, want %d", name, len(got), c.want)
		}
		if c.want > 0 {
			if list, _ := got[0].Annotations.Lookup("routesrv.dev/allow-takeover-by"); list != "team" || len(got[0].Annotations) != 1 || len(got[1].Annotations) != 0 {
				t.Errorf("%s: %+v, %+v", name, got[0], got[1])
			}
		}
	}
}
