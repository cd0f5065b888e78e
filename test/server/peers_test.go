package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/dataplane"
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

// TestAReplicaThatReturnsAsksForOrders: one with a last-known-good file takes the freezes of another replica instead of its own, keeps its own if
// nobody answers, and fetches no table.
func TestAReplicaThatReturnsAsksForOrders(t *testing.T) {
	const freeze = `[{"Kind": "Freeze", "Namespace": "shop", "Name": "all", "reason": "freeze", "detail": "namespace shop", "by": "ann", "since": "2026-11-25T12:00:00Z", "from": "2026-11-25T12:00:00Z"}]`
	for _, c := range []struct {
		name, answer string // empty: nobody answers
		frozen       bool
	}{
		{"another one has a freeze", freeze, true},
		{"nobody answers", "", true},
		{"another one has none", "[]", false},
	} {
		dir := t.TempDir()
		var asked []string
		answer := freeze
		again := func(cfg *server.Config) {
			cfg.StateDir = dir
			cfg.Peers = func(context.Context) (dataplane.PeerTable, error) {
				return dataplane.PeerTable{}, errors.Join(dataplane.ErrNoPeer)
			}
			cfg.FromPeers = func(_ context.Context, path string, first bool, read func(io.Reader) error) error {
				if !first {
					return nil // of the other task, which adopts what replicas keep
				}
				asked = append(asked, path)
				if answer == "" || path != api.PathKept {
					return dataplane.ErrNoPeer
				}
				return read(strings.NewReader(answer))
			}
		}
		frozen := func(f *fixture) bool { return strings.Contains(f.status(), `"scope":"namespace shop"`) }
		f := start(t, service+ingress("a"), again)
		f.ready() // without a file it asks for a table, which nobody has
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		f = start(t, service+ingress("a"), again)
		f.polled()
		if !frozen(f) {
			t.Errorf("%s: the freeze of another replica is not in force", c.name)
		}
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		asked, answer = nil, c.answer
		f = start(t, service+ingress("a"), again)
		f.polled()
		if got := frozen(f); got != c.frozen || !slices.Equal(asked, []string{api.PathKept}) {
			t.Errorf("%s: frozen is %v, want %v; asked for %q", c.name, got, c.frozen, asked)
		}
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
