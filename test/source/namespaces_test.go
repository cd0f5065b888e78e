package source_test

import (
	"context"
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

// TestOrdersAreReadOnDemand: the ConfigMaps of one namespace with the labels of the selector, by polls and watches, whatever other objects are read.
func TestOrdersAreReadOnDemand(t *testing.T) {
	server, err := kubetest.New([]byte(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: routesrv, name: steering, labels: {routesrv.dev/steering: "true"}}
data: {sale: "order: freeze"}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: routesrv, name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: steering, labels: {routesrv.dev/steering: "true"}}
`), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	url := server.Start(t)
	selection := kube.Selection{
		Namespace: "shop", Orders: "routesrv", Selectors: map[kube.Kind]map[string]string{kube.KindConfigMap: {"routesrv.dev/steering": "true"}},
	}
	cfg := cluster.Config{URL: url, Selection: selection}
	source := newSource(t, cfg)
	for name, s := range map[string]interface {
		Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error)
	}{"polls": source, "watches": newWatching(t, cfg)} {
		snapshot, err := s.Read(t.Context(), kube.ReadOptions{})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := snapshot.Orders; len(got) != 1 || got[0].Namespace != "routesrv" || got[0].Name != "steering" || got[0].Data["sale"] != "order: freeze" {
			t.Errorf("%s: orders %+v", name, got)
		}
	}
	if got := read(t, newSource(t, cluster.Config{URL: url})).Orders; len(got) != 0 {
		t.Errorf("orders that nobody wants: %+v", got)
	}

	// A read that fails has no orders to lose: it is no read.
	server.SetFault("/api/v1/namespaces/routesrv/configmaps", kubetest.Fault{Status: 503})
	if snapshot, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Errorf("a read without ConfigMaps succeeds: %+v", snapshot)
	}
}
