package server_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/eskip"
)

const notFoundBody = "404 page not found\n"

// shards configures the shard endpoints.
func shards(cfg *server.Config) {
	cfg.Redis = server.Shard{Namespace: "shop", Name: "s", Port: 6379}
	cfg.Valkey = server.Shard{Namespace: "shop", Name: "missing", Port: 6380}
}

// exchange is a request and the expected response. Only the named headers are checked; "-" expects none.
type exchange struct {
	method, path string
	status       int
	body         string
	header       map[string]string
}

func (f *fixture) check(address string, tests []exchange) {
	f.t.Helper()
	for _, tt := range tests {
		got := f.request(tt.method, address, tt.path)
		if got.status != tt.status || got.body != tt.body {
			f.t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.path, got.status, got.body, tt.status, tt.body)
		}
		for name, want := range tt.header {
			if want == "-" {
				want = ""
			}
			if v := got.header.Get(name); v != want {
				f.t.Errorf("%s %s: header %s is %q, want %q", tt.method, tt.path, name, v, want)
			}
		}
	}
}

var plainText = map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}

func TestMainListenerBeforeTheFirstTable(t *testing.T) {
	f := &fixture{}
	cfg := f.config(t, "")
	shards(&cfg)
	f.breakSource(true)
	f.run(cfg)
	notRead := map[string]string{"Retry-After": "3"}
	f.check(f.main, []exchange{
		{"GET", "/routes", 404, "", map[string]string{"Etag": "-", "Content-Type": "-"}},
		{"HEAD", "/routes", 404, "", nil},
		{"GET", "/routes/eu-central-1a", 404, "", map[string]string{"Etag": "-", "Content-Type": "-"}},
		{"POST", "/routes", 405, "", nil},
		{"DELETE", "/routes/eu-central-1a", 405, "", nil},
		{"GET", "/health", 503, "routes were not initialized yet\n", plainText},
		{"POST", "/health", 503, "routes were not initialized yet\n", plainText},
		{"GET", "/swarm/redis/shards", 503, "the cluster has not been read yet\n", notRead},
		{"GET", "/swarm/valkey/shards", 503, "the cluster has not been read yet\n", notRead},
		{"GET", "/", 404, notFoundBody, plainText},
	})
}

func TestMainListener(t *testing.T) {
	f := start(t, service+ingress("a"), shards)
	f.ready()
	none := map[string]string{"Content-Type": "-"}
	json := map[string]string{"Content-Type": "application/json", "Etag": "-"}
	f.check(f.main, []exchange{
		{"HEAD", "/routes", 200, "", map[string]string{"X-Count": "1", "Content-Type": "text/plain; charset=utf-8"}},
		{"POST", "/routes", 405, "", none},
		{"PUT", "/routes/z", 405, "", none},
		{"GET", "/routes/", 404, notFoundBody, plainText},
		{"GET", "/routes/z/deeper", 404, notFoundBody, plainText},
		{"GET", "/", 404, notFoundBody, plainText},
		{"GET", "/metrics", 404, notFoundBody, plainText},
		{"GET", "/status", 404, notFoundBody, plainText},
		{"GET", "/health", 204, "", none},
		{"HEAD", "/health", 204, "", none},
		{"POST", "/health", 204, "", none},
		{"GET", "/health/", 404, notFoundBody, plainText},
		{
			"GET", "/swarm/redis/shards", 200,
			`{"endpoints":[{"address":"10.2.0.10:6379"},{"address":"10.2.0.9:6379"},{"address":"[fd00::1]:6379"}]}`, json,
		},
		{"GET", "/swarm/valkey/shards", 200, `{"endpoints":[]}`, json},
		{"HEAD", "/swarm/redis/shards", 405, "", none},
		{"POST", "/swarm/redis/shards", 405, "", map[string]string{"Allow": "GET"}},
		{"GET", "/swarm/redis", 404, notFoundBody, plainText},
	})
	for _, want := range []string{
		"Use endpoints shop/s to fetch updated redis shards", "Use endpoints shop/missing to fetch updated valkey shards",
	} {
		f.logged(want)
	}
}

func TestRoutesAreAValidTableInEachEncoding(t *testing.T) {
	f := start(t, service+ingresses("a", "b"), nil)
	f.ready()
	plain := f.get("/routes")
	routes, err := eskip.Parse(plain.body)
	if err != nil || len(routes) != 2 || plain.header.Get("Content-Length") != fmt.Sprint(len(plain.body)) {
		t.Errorf("%d routes, error %v, headers %v", len(routes), err, plain.header)
	}
	packed := f.get("/routes", "Accept-Encoding: gzip")
	r, err := gzip.NewReader(strings.NewReader(packed.body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.body {
		t.Errorf("error %v; the gzip body is another text", err)
	}
	for _, s := range []sent{plain, packed} {
		again := f.get("/routes", "Accept-Encoding: "+s.header.Get("Content-Encoding"), "If-None-Match: "+s.header.Get("Etag"))
		if again.status != http.StatusNotModified || again.body != "" {
			t.Errorf("%d with %d bytes for the ETag %s, want 304", again.status, len(again.body), s.header.Get("Etag"))
		}
	}
	if unknown := f.get("/routes/nowhere"); unknown.body != plain.body || unknown.header.Get("Etag") != plain.header.Get("Etag") {
		t.Error("an unknown zone does not give the full table")
	}
	if part := f.get("/routes", "Range: bytes=0-9"); part.status != http.StatusPartialContent || part.body != plain.body[:10] {
		t.Errorf("range: %d %q", part.status, part.body)
	}
}

func TestShardsAreNotThereWithoutConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shard server.Shard
	}{
		{"nothing", server.Shard{}},
		{"namespace only", server.Shard{Namespace: "shop", Port: 6379}},
		{"name only", server.Shard{Name: "s", Port: 6379}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, service, func(cfg *server.Config) { cfg.Redis, cfg.Valkey = tt.shard, tt.shard })
			f.check(f.main, []exchange{
				{"GET", "/swarm/redis/shards", 404, notFoundBody, plainText},
				{"GET", "/swarm/valkey/shards", 404, notFoundBody, plainText},
			})
		})
	}
}

func TestShardsAreKnownWithoutARoute(t *testing.T) {
	f := start(t, service, shards)
	f.eventually("addresses", func() bool { return f.get("/swarm/redis/shards").status == http.StatusOK })
	if got := f.get("/routes").status; got != http.StatusNotFound {
		t.Errorf("/routes: %d, want 404", got)
	}
	f.breakSource(true)
	f.polled()
	if got := f.get("/swarm/redis/shards").status; got != http.StatusOK {
		t.Errorf("shards: %d after a failed read, want the previous ones", got)
	}
}

func TestHealthNeverGoesBack(t *testing.T) {
	f := start(t, service+ingresses("a", "b", "c"), nil)
	f.ready()
	for _, trouble := range []func(){
		func() { f.breakSource(true) },
		func() { f.breakSource(false); f.delete("a", "b", "c") }, // no route at all
	} {
		trouble()
		f.polled()
		for _, address := range []string{f.main, f.support} {
			if got := f.request("GET", address, "/health"); got.status != http.StatusNoContent {
				t.Errorf("health: %d, want 204", got.status)
			}
		}
		if got := f.get("/routes"); got.status != http.StatusOK || got.header.Get("X-Count") != "3" {
			t.Errorf("routes: %d with %s routes, want the old table", got.status, got.header.Get("X-Count"))
		}
	}
}

func TestHeldTableIsSaidInTheHeader(t *testing.T) {
	f := start(t, service+ingresses("a", "b", "c"), nil)
	f.ready()
	f.polled()
	if got := f.get("/routes").header.Get("X-Table-State"); got != "" {
		t.Errorf("state %q of a fresh table", got)
	}
	f.delete("a", "b")
	f.polled()
	if got := f.get("/routes").header.Get("X-Table-State"); got != "held" {
		t.Errorf("state %q, want held", got)
	}
}

// The client has a table of a revision that this replica has not seen: it gets 304, and the replica reads soon.
func TestNewerTableIsLeftToTheClientAndRechecked(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.Interval = time.Hour })
	f.ready()
	digest := strings.Repeat("0", 64)
	read := f.get("/routes").header.Get("X-Source-Read")
	if got := f.get("/routes", `If-None-Match: "`+digest+`.9000"`); got.status != http.StatusNotModified {
		t.Fatalf("%d, want 304", got.status)
	}
	f.eventually("another read", func() bool { return f.get("/routes").header.Get("X-Source-Read") != read })
	if got := f.get("/routes", `If-None-Match: "`+digest+`.9000"`); got.status != http.StatusOK {
		t.Errorf("%d after a read that is still older, want 200", got.status)
	}
	if !strings.Contains(f.metrics(), "\nroutesrv_older_tables_served_total 1\n") {
		t.Error("the older table was not counted")
	}
}

func TestHeadersHaveALimit(t *testing.T) {
	f := start(t, service+ingress("a"), nil)
	conn, err := net.Dial("tcp", f.main)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "GET /routes HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 128<<10))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "431") {
		t.Errorf("answer %q, error %v, want 431", line, err)
	}
}

func TestProblemsOfHTTPAreCountedAndQuiet(t *testing.T) {
	f := start(t, service+ingress("a"), nil)
	f.ready()
	if diff := cmp.Diff("", strings.Join(linesWith(f.log.String(), "level=ERROR"), "\n")); diff != "" {
		t.Errorf("errors in the log:\n%s", diff)
	}
	for _, kind := range []string{"panic", "accept", "handshake", "other"} {
		if want := fmt.Sprintf("\nroutesrv_http_server_errors_total{kind=%q} 0\n", kind); !strings.Contains(f.metrics(), want) {
			t.Errorf("no series %s", want)
		}
	}
}

// linesWith returns the lines that contain the text.
func linesWith(log, text string) []string {
	var found []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
