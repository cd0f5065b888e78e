package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/internal/server"
	"github.com/routesrv/routesrv/table"
)

// A replica that starts without a last-known-good file, for a cluster that has lost most of its objects, holds the first table,
// because another replica serves more.
func TestFirstTableIsComparedWithThatOfAPeer(t *testing.T) {
	served := start(t, service+ingresses("a", "b", "c"), nil)
	served.ready()
	full, err := table.Parse(served.get("/routes").body)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := table.New(full, 100, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(cfg *server.Config) {
		cfg.Peers = func(context.Context) (dataplane.PeerTable, error) {
			return dataplane.PeerTable{Table: peer, From: "10.2.0.9:9090"}, nil
		}
	}
	f := start(t, service+ingress("a"), ask)
	f.eventually("a hold", func() bool { return strings.Contains(f.status(), `"held":true`) })
	if got := f.get("/routes").status; got != http.StatusNotFound {
		t.Errorf("/routes is %d, want 404: nothing is served", got)
	}
	if got := f.get("/health").status; got == http.StatusNoContent {
		t.Error("the replica is ready, and has no table")
	}
	held := f.request(http.MethodGet, f.support, "/guard/held")
	if held.status != http.StatusOK || !strings.Contains(held.body, "shop/b") || !strings.Contains(held.body, "routes_lost") {
		t.Errorf("what is held: %d\n%s", held.status, held.body)
	}
	if lines := f.logged("the first table is compared with the table of another replica"); len(lines) != 1 || !strings.Contains(lines[0], "10.2.0.9:9090") {
		t.Errorf("log %q", lines)
	}
	f.apply(ingresses("b", "c"))
	f.ready()
	if got := f.get("/routes").body; got != served.get("/routes").body {
		t.Errorf("after the repair:\n%s", got)
	}
}

// Without peers, or without an answer from one, the first table is served, and the log says what it was compared with.
func TestFirstTableWithoutAPeerIsServed(t *testing.T) {
	for name, change := range map[string]func(*server.Config){
		"no --peers": func(*server.Config) {},
		dataplane.ErrNoPeer.Error(): func(cfg *server.Config) {
			cfg.Peers = func(context.Context) (dataplane.PeerTable, error) {
				return dataplane.PeerTable{}, errors.Join(dataplane.ErrNoPeer)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, service+ingress("a"), change)
			f.ready()
			if lines := f.logged("the first table is compared with nothing"); len(lines) != 1 || !strings.Contains(lines[0], name) {
				t.Errorf("log %q", lines)
			}
		})
	}
}
