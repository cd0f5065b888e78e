package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/rollout"
)

// TestACountMovesThatManyProxies: "Exec:1" moves one of four proxies and "Exec:3" three, as the fleet's view shows. The percentage
// that is a quarter of four nodes can move none of them, or all.
func TestACountMovesThatManyProxies(t *testing.T) {
	t.Parallel() // it takes half a minute until a server knows its fleet
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	mode := filepath.Join(t.TempDir(), "mode")
	write := func(setting string) {
		t.Helper()
		if err := os.WriteFile(mode, []byte(setting), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("Exec:1")
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	run := func(node int) {
		s, err := sidecar.New(sidecar.Config{
			ModeFile: mode, Pod: fmt.Sprintf("skipper-%d", node), PodNamespace: "ingress", Node: fmt.Sprintf("ip-10-0-0-%d", node),
			Source: f.cluster, Interval: interval,
			Fetch:    dataplane.Config{URLs: []string{"http://" + f.main}, Transport: transport},
			Fallback: rollout.FallbackConfig{Policy: rollout.FallbackNever},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.RunTables(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	inExec := func(view *fleet.Clients) (nodes []string) {
		for _, c := range view.Clients {
			if c.Mode == "Exec" {
				nodes = append(nodes, c.Node)
			}
		}
		return nodes
	}
	for node := range 4 {
		run(node)
	}
	exec := func(n int) string {
		var nodes []string
		f.seen("", func(v *fleet.Clients) bool {
			if len(v.Clients) < 4 {
				return false
			}
			nodes = inExec(v)
			if len(nodes) > n {
				t.Fatalf("%d proxies use Exec: %s", len(nodes), nodes)
			}
			return len(nodes) == n
		})
		return strings.Join(nodes, " ")
	}
	first := exec(1)
	write("Exec:3")
	if three := exec(3); !strings.Contains(three, first) {
		t.Errorf("%s used Exec, and then %s", first, three)
	}
}
