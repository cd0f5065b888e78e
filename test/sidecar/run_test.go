package sidecar_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/kubetest"
)

// routeServer is a route server with a table of one route, over real sockets.
func routeServer(t *testing.T) *httptest.Server {
	t.Helper()
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New([]table.Route{{ID: "a", Text: `a: Path("/a") -> <shunt>;`}}, 7, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cache.Publish(tab)
	srv := httptest.NewServer(cache.Handler())
	t.Cleanup(srv.Close)
	return srv
}

// eventually waits until a condition holds. It gives up after a time that is long enough for any machine.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		is, now := ok()
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %s", what, now)
		}
	}
}

func TestListenersServeAndEndInOrder(t *testing.T) {
	srv := routeServer(t)
	opened := make(chan string, 2)
	set, err := rollout.ParseSetting("Exec")
	if err != nil {
		t.Fatal(err)
	}
	cfg := sidecar.Config{Setting: set, Address: "127.0.0.1:0", SupportAddress: "localhost:0", Pod: "p"}
	cfg.Fetch.URLs = []string{srv.URL}
	cfg.Fetch.Interval, cfg.StateDir = 10*time.Millisecond, t.TempDir()
	cfg.Listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err == nil {
			opened <- address[:3] + l.Addr().String()
		}
		return l, err
	}
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	addresses := make(map[string]string)
	for range 2 {
		a := <-opened
		addresses[a[:3]] = "http://" + a[3:]
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	control := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return httpserve.DialControl(ctx, cfg.StateDir)
	}}
	defer control.CloseIdleConnections()
	client.Transport.(*http.Transport).RegisterProtocol("control", overHTTP{control})
	get := func(url string) (int, string) {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, want := range []struct{ url, part string }{
		{addresses["127"] + "/routes", `a: Path("/a") -> <shunt>;`},
		{addresses["127"] + "/routes/zone", `a: Path("/a") -> <shunt>;`},
		{addresses["127"] + "/fresh", `"fresh"`},
		{"control://pod/status", `"origin": "routeserver"`},
		{"control://pod/problems", `"count": 0`},
		{addresses["loc"] + "/metrics", `dataplane_mode{mode="Exec"} 1`},
		{"control://pod/shadow", "the mode is Exec"},
	} {
		// The proxy may be served a moment before the controller shows the change.
		eventually(t, want.url+" with "+want.part, func() (bool, string) {
			status, body := get(want.url)
			return status == http.StatusOK && strings.Contains(body, want.part), fmt.Sprintf("status %d:\n%s", status, body)
		})
	}
	if status, _ := get(addresses["loc"] + "/routes"); status != http.StatusNotFound {
		t.Errorf("/routes on the support listener: status %d, want 404: it is reachable from outside", status)
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// overHTTP sends requests whose URLs have another scheme.
type overHTTP struct{ next http.RoundTripper }

func (o overHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return o.next.RoundTrip(r)
}

func TestAddressThatIsTakenEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	set, err := rollout.ParseSetting("Exec")
	if err != nil {
		t.Fatal(err)
	}
	cfg := sidecar.Config{Setting: set, Address: l.Addr().String()}
	cfg.Fetch.URLs = []string{"http://127.0.0.1:1"}
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "(-address)") {
		t.Errorf("Run: %v, want the flag to look at", err)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	cluster, err := kubetest.New(nil, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := sidecar.Config{Source: cluster, Registry: prometheus.NewRegistry()}
	cfg.Fetch.URLs = []string{"http://routesrv"}
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	body := ask(s.SupportHandler(), http.MethodGet, "/metrics").Body.String()
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, name := range []string{
		"dataplane_cutover_ready", "dataplane_shadow_routes", "dataplane_shadow_comparisons_total", "dataplane_shadow_clean_seconds", "dataplane_mode",
	} {
		if !strings.Contains(body, "# TYPE "+name+" ") {
			t.Errorf("no metric %s", name)
		}
	}
}
