package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/dataplane"
)

// startRelay runs a server that gets its table from other servers, at addresses.
func startRelay(t *testing.T, change func(*server.Config), upstream ...string) *fixture {
	t.Helper()
	f := &fixture{}
	cfg := f.config(t, "")
	cfg.Source = nil
	for _, u := range upstream {
		cfg.Upstream.URLs = append(cfg.Upstream.URLs, "http://"+u)
	}
	if change != nil {
		change(&cfg)
	}
	f.run(cfg)
	return f
}

func TestRelayServesTheTableOfItsUpstream(t *testing.T) {
	root := start(t, service+ingresses("a", "b", "c"), func(cfg *server.Config) { cfg.MaxStreams = 10 })
	root.ready()
	f := startRelay(t, func(cfg *server.Config) {
		cfg.RequestFilters = chain(t, `setResponseHeader("X-Relay", "yes")`)
		cfg.Redis = server.Shard{Namespace: "shop", Name: "s", Port: 6379}
		cfg.MaxStreams = 10
	}, root.main)
	f.ready()
	f.eventually("a stream", func() bool { return strings.Contains(f.metrics(), `dataplane_transport{transport="stream"} 1`) })
	want, got := root.get("/routes"), f.get("/routes")
	if got.body != want.body || got.header.Get("Etag") != want.header.Get("Etag") || got.header.Get("X-Relay") != "yes" {
		t.Errorf("serves %v\n%s\nwant %v\n%s", got.header, got.body, want.header, want.body)
	}
	if got := f.get("/swarm/redis/shards"); got.status != http.StatusNotFound {
		t.Errorf("shards: %d, and a relay does not know any address", got.status)
	}
	if got := compact(f.request(http.MethodGet, f.support, "/problems").body); got != `{"count":0,"problems":[]}` {
		t.Errorf("problems: %s", got)
	}
	if got := f.request(http.MethodGet, f.support, "/match?url=https://b.example.org/x"); got.status != http.StatusOK || !strings.Contains(got.body, "Ingress shop/b") {
		t.Errorf("match: %d %s", got.status, got.body)
	}
	if got := f.request(http.MethodGet, f.support, "/explain?host=b.example.org"); got.status != http.StatusNotFound {
		t.Errorf("explain: %d, and a relay knows no objects", got.status)
	}
	root.apply(ingress("d"))
	f.eventually("the change", func() bool { return strings.Contains(f.get("/routes").body, "d[.]example") })
	var status struct {
		Source   struct{ Revision uint64 }
		Table    struct{ Digest, Stale any }
		Upstream *dataplane.Status
	}
	if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, "/status").body), &status); err != nil {
		t.Fatal(err)
	}
	if u := status.Upstream; u == nil || u.Transport != "stream" || u.Applied.Origin != "http://"+root.main+"/routes" ||
		status.Source.Revision != u.Applied.Revision {
		t.Errorf("status %+v", status)
	}
	problems, err := testutil.GatherAndLint(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "routesrv_custom_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestRelayKeepsItsTableInTheStateFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	root := start(t, service+ingress("a"), nil)
	root.ready()
	f := startRelay(t, stateDir(dir), root.main)
	f.ready()
	want := f.get("/routes")
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if tab, meta := readLastKnownGood(t, dir); string(tab.Text()) != want.body || !strings.Contains(meta.Origin, root.main) {
		t.Errorf("the file is of %s, and has\n%s", meta.Origin, tab.Text())
	}
	if err := root.stop(); err != nil {
		t.Fatal(err)
	}
	again := startRelay(t, stateDir(dir), root.main)
	got := again.get("/routes") // at once
	if got.body != want.body || got.header.Get("Etag") != want.header.Get("Etag") || got.header.Get("X-Table-State") != "stale" {
		t.Errorf("serves %d %v", got.status, got.header)
	}
	status := compact(again.request(http.MethodGet, again.support, "/status").body)
	for _, part := range []string{`"stale":true`, `"last_known_good":{"path":"` + filepath.Join(dir, "table.eskip"), `"ready":true`} {
		if !strings.Contains(status, part) {
			t.Errorf("status %s, want %s in it", status, part)
		}
	}
}

func TestHeldTableOfARelayIsAccepted(t *testing.T) {
	root := start(t, service+ingresses("a", "b", "c"), func(cfg *server.Config) { cfg.Guard.MaxLoss = 1 })
	root.ready()
	f := startRelay(t, func(cfg *server.Config) { cfg.Guard.MaxLoss = 0.5 }, root.main)
	f.ready()
	root.delete("a", "b")
	f.eventually("a hold", func() bool { return f.get("/routes").header.Get("X-Table-State") == "held" })
	if got := f.accept("?digest=" + f.held().Digest.String()); got.status != http.StatusOK {
		t.Fatalf("accept: %d %s", got.status, got.body)
	}
	if got, want := f.get("/routes").body, root.get("/routes").body; got != want {
		t.Errorf("serves\n%s\nwant\n%s", got, want)
	}
}

func TestServerHasOneSourceOfTables(t *testing.T) {
	for name, change := range map[string]func(*server.Config){
		"both":    func(cfg *server.Config) { cfg.Upstream.URLs = []string{"http://a"} },
		"none":    func(cfg *server.Config) { cfg.Source = nil },
		"bad URL": func(cfg *server.Config) { cfg.Source, cfg.Upstream.URLs = nil, []string{"a"} },
	} {
		f := &fixture{}
		cfg := f.config(t, "")
		change(&cfg)
		if _, err := server.New(cfg); err == nil || name == "bad URL" && !strings.Contains(err.Error(), "--upstream") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := &fixture{}
	cfg := f.config(t, "")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Source, cfg.Upstream.URLs, cfg.StateDir = nil, []string{"http://a"}, filepath.Join(file, "state")
	if _, err := server.New(cfg); err != nil {
		t.Errorf("state folder in a file: %v, want a relay without a last-known-good file", err)
	}
}

// compact removes the spaces between the tokens of JSON.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return err.Error()
	}
	return b.String()
}
