package source_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
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

// TestNamespacesThatMayNotBeReadStopNothing: without the right, all else is read, a warning says so once, and the annotations count as soon as there is
// the right. An API server that fails is another matter.
func TestNamespacesThatMayNotBeReadStopNothing(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {routesrv.dev/allow-takeover-by: team}}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {clusterIP: 10.3.0.1, ports: [{port: 80}]}
`
	for _, watches := range []bool{false, true} {
		server, err := kubetest.New([]byte(objects), kubetest.API{})
		if err != nil {
			t.Fatal(err)
		}
		log := &programs.Buffer{}
		cfg := cluster.Config{URL: server.Start(t), Namespaces: true, Logger: slog.New(slog.NewTextHandler(log, nil))}
		server.SetFault("/api/v1/namespaces", kubetest.Fault{Status: 403})
		var source interface {
			Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error)
		} = newSource(t, cfg)
		if watches {
			source = newWatching(t, cfg)
		}
		for range 3 {
			if s, err := source.Read(t.Context(), kube.ReadOptions{}); err != nil || len(s.Services) != 1 || len(s.Namespaces) != 0 {
				t.Fatalf("watches %t: %+v, %v", watches, s, err)
			}
		}
		if n := strings.Count(log.String(), cluster.LogNoNamespaces); n != 1 {
			t.Errorf("watches %t: the log says so %d times\n%s", watches, n, log)
		}
		server.SetFault("/api/v1/namespaces", kubetest.Fault{})
		for deadline := time.Now().Add(time.Minute); ; {
			if s, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil && len(s.Namespaces) == 1 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("watches %t: %+v, %v", watches, s, err)
			}
		}
		if watches {
			continue
		}
		server.SetFault("/api/v1/namespaces", kubetest.Fault{Status: 500})
		if s, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
			t.Errorf("a failed list is taken for a missing right: %+v", s)
		}
	}
}
