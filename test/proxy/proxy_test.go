package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// TestProxyAsksLikeASkipper: the first request of a process names no table, the second one does, and all come from a Go client.
func TestProxyAsksLikeASkipper(t *testing.T) {
	var first, later atomic.Int32
	var table atomic.Value
	table.Store(`a: Host("^a[.]example[.]org$") -> status(201) -> <shunt>;`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "Go-http-client/") || r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("headers %v", r.Header)
		}
		etag := fmt.Sprintf("%q", fmt.Sprint(len(table.Load().(string))))
		w.Header().Set("ETag", etag)
		switch named := r.Header.Get("If-None-Match"); named {
		case "":
			first.Add(1)
		default:
			if later.Add(1); named == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		io.WriteString(w, table.Load().(string))
	}))
	defer server.Close()
	p := Start(t, Config{RoutesURL: server.URL, Faults: Faults{Die: []string{`setPath("/fatal")`}}})
	answers := func(host string, want int) func() bool {
		return func() bool {
			r, err := http.NewRequest(http.MethodGet, p.Traffic+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				return false
			}
			a.Body.Close()
			return a.StatusCode == want
		}
	}
	programs.Eventually(t, "the route", answers("a.example.org", http.StatusCreated))
	programs.Eventually(t, "no other route", answers("b.example.org", http.StatusNotFound))
	metrics, err := programs.Fetch(t.Context(), p.Support+"/metrics", "")
	if err != nil || !strings.Contains(metrics.Body, `skipper_custom_gauges{key="routes.total"} 1`) || !strings.Contains(metrics.Body, "process_start_time_seconds ") {
		t.Errorf("metrics %v\n%s", err, metrics.Body)
	}
	routes, err := programs.Fetch(t.Context(), p.Support+"/routes", "")
	if err != nil || !strings.HasPrefix(routes.Body, "a: ") || routes.Header.Get("X-Count") != "1" {
		t.Errorf("routes %v %v\n%s", err, routes.Header, routes.Body)
	}
	if first.Load() != 1 || len(p.Deaths()) != 0 {
		t.Errorf("%d requests without a table, deaths %v", first.Load(), p.Deaths())
	}
	table.Store(`a: Host("^a[.]example[.]org$") -> setPath("/fatal") -> <shunt>;`)
	programs.Eventually(t, "two deaths", func() bool { return len(p.Deaths()) >= 2 && first.Load() >= 3 })
	table.Store(`b: Host("^b[.]example[.]org$") -> status(202) -> <shunt>;`)
	programs.Eventually(t, "another route", answers("b.example.org", http.StatusAccepted))
}

// TestProxyReadsAFile: its changes are served, and a process that a test ends is started again.
func TestProxyReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status := func(p *Proxy) int {
		a, err := programs.Fetch(t.Context(), p.Traffic+"/", "")
		if err != nil {
			return 0
		}
		return a.Status
	}
	write("a: * -> status(201) -> <shunt>;")
	p := Start(t, Config{RoutesFile: path, Faults: Faults{Refuse: []string{"noSuchFilter"}}})
	programs.Eventually(t, "the file", func() bool { return status(p) == 201 })
	write("a: * -> status(202) -> <shunt>; b: Path(\"/b\") -> noSuchFilter() -> <shunt>;")
	programs.Eventually(t, "the changed file", func() bool { return status(p) == 202 })
	refused, err := programs.Fetch(t.Context(), p.Support+"/routes?invalid=true", "")
	if err != nil || !strings.HasPrefix(refused.Body, "b: ") {
		t.Errorf("refused %v\n%s", err, refused.Body)
	}
	p.Kill()
	programs.Eventually(t, "another process", func() bool { return p.Starts() == 2 && status(p) == 202 })
	if n := len(p.Deaths()); n != 1 {
		t.Errorf("%d deaths", n)
	}
}
