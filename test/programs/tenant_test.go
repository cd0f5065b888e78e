package programs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/programs"
)

// tenantsRoute matches the route of a tenant in a table, whose backend is an address that the tenant chose.
var tenantsRoute = regexp.MustCompile(`tenant: \* -> "([^"]+)";`)

// standIn is a proxy beside the program: it forwards requests to the backend of the tenant's route, with the path, the method and the
// headers that the client sent, under the backend's host.
func standIn(t *testing.T, routes string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := programs.Fetch(r.Context(), routes, "")
		m := tenantsRoute.FindStringSubmatch(a.Body)
		if err != nil || m == nil {
			http.Error(w, "no route", http.StatusTeapot)
			return
		}
		backend, err := url.Parse(m[1])
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(backend); p.Out.Host = "localhost" }}).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// tenants returns a table with a tenant's route to an address, and n more routes.
func tenants(t *testing.T, address string, n int, revision uint64) *table.Table {
	t.Helper()
	list := []table.Route{{ID: "tenant", Text: `tenant: * -> "` + address + `";`}}
	for i := range n {
		id := "zz" + string(rune('a'+i))
		list = append(list, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> <shunt>;`})
	}
	tab, err := table.New(list, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestTenantReachesNothingThroughTheProxy: a route to the support listener beside the proxy reads no page and accepts no table, while
// an operator in the pod does both.
func TestTenantReachesNothingThroughTheProxy(t *testing.T) {
	var served atomic.Pointer[table.Table]
	served.Store(tenants(t, "http://127.0.0.1:1", 20, 1))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, served.Load()) }))
	defer server.Close()
	p := startProcess(t, "--upstream="+server.URL, "--update-mode=poll", "-source-poll-timeout=20")
	served.Store(tenants(t, p.support, 20, 2))
	main := "http://" + eventually(t, p.log, regexp.MustCompile(`msg="main listener open" component=sidecar address=(\S+)`))
	p.until("route of the tenant", func() bool {
		a, err := programs.Fetch(t.Context(), main+"/routes", "")
		return err == nil && strings.Contains(a.Body, p.support)
	})
	proxy := standIn(t, main+"/routes")

	next := tenants(t, p.support, 1, 3)
	served.Store(next)
	digest := next.Digest().String()
	p.until("held table", func() bool {
		a, err := programs.Control(t.Context(), http.MethodGet, p.state, "/guard/held")
		return err == nil && a.Status == http.StatusOK && strings.Contains(a.Body, digest)
	})
	for _, path := range []string{"/status", "/problems", "/shadow", "/guard/held"} {
		for _, headers := range []map[string]string{nil, {"X-Forwarded-For": "10.2.0.7", "Forwarded": "for=10.2.0.7", "X-Real-IP": "10.2.0.7"}} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			if a, err := programs.Do(r, ""); err != nil || a.Status != http.StatusForbidden || strings.Contains(a.Body, digest) {
				t.Errorf("%s through the proxy with %v: %d %s (%v)", path, headers, a.Status, a.Body, err)
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
		r, err := http.NewRequestWithContext(t.Context(), method, proxy.URL+"/guard/accept?by=kubernetes-admin&why=x&digest="+digest, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := programs.Do(r, ""); err != nil || a.Status != http.StatusNotFound {
			t.Errorf("%s /guard/accept through the proxy: %d %s (%v)", method, a.Status, a.Body, err)
		}
	}
	for path, want := range map[string]int{"/livez": http.StatusNoContent, "/health": http.StatusNoContent, "/fresh": http.StatusOK, "/metrics": http.StatusOK} {
		if a, err := programs.Fetch(t.Context(), p.support+path, ""); err != nil || a.Status != want {
			t.Errorf("%s for probes and Prometheus: %d (%v)", path, a.Status, err)
		}
	}
	if a, err := programs.Fetch(t.Context(), main+"/routes", ""); err != nil || strings.Contains(a.Body, "zzb") != true {
		t.Fatalf("the tenant has changed the table: %v\n%s", err, a.Body)
	}

	// Without --state-dir the command finds the process that runs here; other tests may run more of them.
	accept := exec.CommandContext(t.Context(), binary(t, "dataplane-client"), "accept", digest, "--why=planned", "--yes", "--state-dir="+p.state)
	accept.Env = os.Environ()
	if out, err := accept.CombinedOutput(); err != nil || !strings.Contains(string(out), "serves "+digest[:12]+", 2 routes") {
		t.Fatalf("accept: %v\n%s", err, out)
	}
	p.until("accepted table", func() bool {
		a, err := programs.Fetch(t.Context(), main+"/routes", "")
		return err == nil && !strings.Contains(a.Body, "zzb")
	})
	p.until("line of the log", func() bool { return strings.Contains(p.log.String(), `msg="held table accepted by an operator"`) })
}

// TestProbesOfTheDataPlaneAreAnsweredUnderSiege: whatever more clients than fit do with their connections.
func TestProbesOfTheDataPlaneAreAnsweredUnderSiege(t *testing.T) {
	tab := tableOf(t, 10, 5)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, tab) }))
	defer server.Close()
	for name, text := range sieges {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, "--upstream="+server.URL, "--update-mode=poll", "-source-poll-timeout=100")
			p.until("table", func() bool {
				a, err := programs.Fetch(t.Context(), p.support+"/health", "")
				return err == nil && a.Status == http.StatusNoContent
			})
			besiege(t, strings.TrimPrefix(p.support, "http://"), 100, text)
			probes(t, p.support+"/livez", http.StatusNoContent)
			probes(t, p.support+"/health", http.StatusNoContent)
		})
	}
}
