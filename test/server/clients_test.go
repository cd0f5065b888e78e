package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/test/kubetest"
)

// view returns the answer of /clients.
func (f *fixture) view(query string) *fleet.Clients {
	f.t.Helper()
	got := f.request(http.MethodGet, f.support, "/clients"+query)
	v := &fleet.Clients{}
	if err := json.Unmarshal([]byte(got.body), v); err != nil || got.status != http.StatusOK {
		f.t.Fatalf("/clients: %d, %v\n%s", got.status, err, got.body)
	}
	return v
}

// seen waits for an answer of /clients that is as a test wants it: a client may have its answer before the server has noted what it
// holds.
func (f *fixture) seen(query string, as func(*fleet.Clients) bool) (v *fleet.Clients) {
	f.t.Helper()
	f.eventually("such an answer of /clients"+query, func() bool {
		v = f.view(query)
		return as(v)
	})
	return v
}

// ask sends a request to the main listener with headers in pairs.
func (f *fixture) ask(method, path, body string, headers ...string) sent {
	f.t.Helper()
	r, err := http.NewRequest(method, f.scheme+"://"+f.main+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	return sent{resp.StatusCode, resp.Header, b.String()}
}

const someone = "kind=sidecar;pod=ingress/p;node=n;zone=z;version=v1;mode=Exec;interval=30000"

func TestReplicasOfOneHostHaveDifferentNames(t *testing.T) {
	name := func(address string) string {
		f := &fixture{}
		cfg := f.config(t, service+ingresses("a"))
		cfg.SupportAddress = address
		s, err := server.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		httpserve.Mux(httpserve.SupportListener, s.Endpoints()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/clients?limit=1", nil))
		v := &fleet.Clients{}
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			t.Fatalf("%v\n%s", err, w.Body)
		}
		return v.Replicas[0].Name
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{":9911": host, ":9912": host + ":9912", "127.0.0.2:9911": host + "/127.0.0.2:9911"} {
		if got := name(address); got != want {
			t.Errorf("support listener %s: the replica is named %q, want %q", address, got, want)
		}
	}
}

func TestClientsAreSeenByWhatTheyDo(t *testing.T) {
	f := start(t, service+ingresses("a"), func(cfg *server.Config) { cfg.MaxStreams, cfg.Name = 10, "replica-0" })
	f.ready()
	etag := f.get("/routes").header.Get("Etag")
	f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone, "If-None-Match", etag)
	for range 2 { // once would not make them clients
		f.ask(http.MethodGet, "/routes/z", "", "User-Agent", "Skipper/1", "If-None-Match", etag)
		f.ask(http.MethodGet, "/routes", "", "User-Agent", "another")
		f.ask(http.MethodGet, "/routes", "", "User-Agent", "routesrv-tool")
	}
	f.ask(http.MethodGet, "/routes", "", "User-Agent", "curl")
	f.ask(http.MethodHead, "/routes", "", "User-Agent", "probe")
	f.ask(http.MethodGet, "/routes", "", "User-Agent", "routesrv-peer")

	v := f.seen("", func(v *fleet.Clients) bool { return len(v.Clients) >= 3 })
	states := make(map[string]fleet.Client)
	for _, c := range v.Clients {
		states[c.ID] = c
	}
	if c := states["ingress/p"]; c.State != fleet.Current || c.Holds == nil || c.Holds.Digest != v.Table.Digest || c.Address != "127.0.0.1" || c.Replica != "replica-0" {
		t.Errorf("the sidecar: %+v", c)
	}
	if c := states["127.0.0.1 Skipper/1"]; c.State != fleet.Current || !c.Inferred || c.Zone != "z" {
		t.Errorf("the proxy: %+v", c)
	}
	for _, nobody := range []string{"127.0.0.1 curl", "127.0.0.1 routesrv-tool"} {
		if _, seen := states[nobody]; seen {
			t.Errorf("%s is a client", nobody)
		}
	}
	if c := states["127.0.0.1 another"]; c.State != fleet.Current || c.Holds == nil {
		t.Errorf("one that was sent the table and named none: %+v", c)
	}
	if _, seen := states["127.0.0.1 probe"]; seen {
		t.Error("HEAD is no client")
	}
	if _, seen := states["127.0.0.1 routesrv-peer"]; seen {
		t.Error("a replica that compares its first table is no client")
	}

	f.apply(ingress("b"))
	f.eventually("another table", func() bool { return f.get("/routes").header.Get("Etag") != etag })
	f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone, "If-None-Match", etag)
	f.seen("?id=ingress/p", func(v *fleet.Clients) bool {
		return v.Clients[0].State == fleet.Behind && v.Clients[0].BehindVersions == 1
	})
	f.eventually("the metric", func() bool { return !strings.Contains(f.metrics(), `routesrv_clients{state="behind"} 0`) })
	for query, want := range map[string]int{"?state=x": 400, "?limit=x": 400, "?state=behind&local": 200} {
		if got := f.request(http.MethodGet, f.support, "/clients"+query); got.status != want {
			t.Errorf("%s: %d, want %d", query, got.status, want)
		}
	}
}

func TestReportsOfClients(t *testing.T) {
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	for _, test := range []struct {
		identity, body string
		want           int
	}{
		{someone, `{"rejected":"guard: most routes are gone","refused_routes":2}`, http.StatusNoContent},
		{"", `{}`, http.StatusBadRequest},
		{"kind=sidecar;id=<script>;interval=1", `{}`, http.StatusBadRequest},
		{someone, `{`, http.StatusBadRequest},
		{someone, `{"rejected":"` + strings.Repeat("x", fleet.MaxReport) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		if got := f.ask(http.MethodPost, "/clients", test.body, "Routesrv-Client", test.identity); got.status != test.want {
			t.Errorf("%s %.50s: %d %s, want %d", test.identity, test.body, got.status, got.body, test.want)
		}
	}
	if got := f.ask(http.MethodGet, "/clients", ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET on the main listener: %d, and the fleet is not for proxies to see", got.status)
	}
	c := f.view("").Clients[0]
	if c.State != fleet.Rejected || c.Reason != "guard: most routes are gone" || c.Refused != 2 {
		t.Errorf("%+v", c)
	}
}

// TestHostileClientsGrowNothing: whatever one address claims to be, it gets no more than its share, and is served all the same.
func TestHostileClientsGrowNothing(t *testing.T) {
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	for i := range fleet.MaxPerAddress + 50 {
		id := fmt.Sprintf("kind=sidecar;id=evil-%d;interval=300000", i)
		if got := f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", id); got.status != http.StatusOK {
			t.Fatalf("request %d: %d", i, got.status)
		}
	}
	if got := f.ask(http.MethodPost, "/clients", `{}`, "Routesrv-Client", someone); got.status != http.StatusServiceUnavailable {
		t.Errorf("a report for which there is no room: %d", got.status)
	}
	if v := f.view("?limit=0"); v.Total > fleet.MaxPerAddress+fleet.MaxInferredPerAddress {
		t.Errorf("%d clients", v.Total)
	}
	if !strings.Contains(f.metrics(), "routesrv_clients_refused_total 51\n") {
		t.Error("the refused ones are not counted")
	}
}

// TestNoAddressOfAClientIsAsked: what clients say about themselves is shown, and nothing is ever sent there.
func TestNoAddressOfAClientIsAsked(t *testing.T) {
	var asked atomic.Int32
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer victim.Close()
	address := strings.TrimPrefix(victim.URL, "http://")
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	for _, kind := range []string{"relay", "sidecar"} {
		f.ask(http.MethodPost, "/clients", `{"clients":{"current":1}}`, "Routesrv-Client", "kind="+kind+";id="+address+";interval=1000",
			"X-Forwarded-For", address, "Forwarded", "for="+address, "Host", address)
	}
	v := f.view("")
	if len(v.Clients) != 1 || len(v.Relays) != 1 || v.Clients[0].Address != "127.0.0.1" {
		t.Errorf("%+v", v)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests to an address that a client named", n)
	}
}

func TestRelayReportsASummary(t *testing.T) {
	root := start(t, service+ingresses("a"), func(cfg *server.Config) { cfg.MaxStreams = 10 })
	root.ready()
	f := startRelay(t, func(cfg *server.Config) { cfg.Name = "relay-0" }, root.main)
	f.ready()
	f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone)
	root.eventually("the summary", func() bool {
		v := root.view("")
		return len(v.Relays) == 1 && v.Relays[0].Counts == (fleet.Counts{Current: 1}) && v.Relays[0].ID == "relay-0" && !v.Relays[0].Details &&
			v.Clients[0].Kind == fleet.RelayKind && v.Clients[0].State == fleet.Current
	})
	if v := f.view(""); v.Total != 1 || v.Clients[0].ID != "ingress/p" || !v.Replicas[0].Relay {
		t.Errorf("the relay itself: %+v", v)
	}
}

func TestPeersAreMerged(t *testing.T) {
	second := start(t, service+ingresses("a"), func(cfg *server.Config) { cfg.Name = "second" })
	second.ready()
	second.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone)
	// Asked here, so that the server that merges answers at once.
	known := second.seen("?local", func(v *fleet.Clients) bool { return len(v.Clients) == 1 })
	f := start(t, service+ingresses("a"), func(cfg *server.Config) {
		cfg.Name = "first"
		cfg.PeerClients = func(context.Context) []fleet.Answer {
			return []fleet.Answer{{Address: "a", Clients: known}, {Address: "b", Err: context.DeadlineExceeded}}
		}
	})
	f.ready()
	v := f.view("?id=ingress/p")
	if len(v.Clients) != 1 || v.Clients[0].Replica != "second" || len(v.Replicas) != 3 || v.Replicas[2].Error == "" {
		t.Errorf("%+v", v)
	}
	if v := f.view("?id=ingress/p&local"); len(v.Clients) != 0 || len(v.Replicas) != 1 {
		t.Errorf("asked for its own: %+v", v)
	}
}

// BenchmarkReports measures the cost for a route server of the reports that 300 data planes send in ten seconds.
func BenchmarkReports(b *testing.B) {
	cluster, err := kubetest.New([]byte(service+ingresses("a")), kubetest.API{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := server.New(server.Config{Source: cluster})
	if err != nil {
		b.Fatal(err)
	}
	h := httpserve.Mux(httpserve.MainListener, s.Endpoints())
	const body = `{"holds":{"digest":"0000000000000000000000000000000000000000000000000000000000000001","revision":4711},"holds_ago_seconds":12.5,` +
		`"proven":{"digest":"0000000000000000000000000000000000000000000000000000000000000001","revision":4711},"refused_routes":2}`
	b.ReportAllocs()
	for b.Loop() {
		for i := range 300 {
			r := httptest.NewRequest(http.MethodPost, "/clients", strings.NewReader(body))
			r.Header.Set("Routesrv-Client", fmt.Sprintf("kind=sidecar;pod=ingress/skipper-%d;node=node-%d;zone=a;version=v1;mode=Exec;interval=3000", i, i))
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusNoContent {
				b.Fatal(w.Code, w.Body)
			}
		}
	}
}

func TestExplainSaysHowManyClientsHaveTheRoutes(t *testing.T) {
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	etag := f.get("/routes").header.Get("Etag")
	f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone, "If-None-Match", etag)
	shares := func(name string) string {
		text := f.request(http.MethodGet, f.support, "/explain?kind=ingress&namespace=shop&name="+name).body
		_, line, _ := strings.Cut(text, "\n  fleet      ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	f.apply(ingress("b"))
	f.eventually("the route of b at one of two clients", func() bool {
		f.get("/routes") // a second client, which holds what it was sent
		return shares("b") == "1 of 2 clients hold a table with these routes" && shares("a") == "2 of 2 clients hold a table with these routes"
	})
	f.ask(http.MethodGet, "/routes", "", "Routesrv-Client", someone, "If-None-Match", f.get("/routes").header.Get("Etag"))
	f.eventually("the route of b at both", func() bool { return shares("b") == "2 of 2 clients hold a table with these routes" })
}
