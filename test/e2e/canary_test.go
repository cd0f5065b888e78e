package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/proxy"
)

const (
	canarySoak = 40 * time.Second
	haltWithin = 30 * time.Second
	fatal      = `setPath("/fatal")` // a stand-in does not survive it
)

// group is a RouteGroup of the namespace shop, whose requests go to an address.
func group(name, host, path, filter, address string) string {
	if filter != "" {
		filter = ", filters: ['" + filter + "']"
	}
	return fmt.Sprintf(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%s.example.org]
  backends: [{name: b, type: network, address: %q}]
  defaultBackends: [{backendName: b}]
  routes: [{pathSubtree: %s%s}]
---
`, name, host, address, path, filter)
}

// documentedQuery returns the two queries of docs/operate/before-a-change.md.
func documentedQuery(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate/before-a-change.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllSubmatch(text, -1) {
		all = append(all, "("+string(block[1])+")")
	}
	if len(all) != 2 {
		t.Fatalf("%d queries", len(all))
	}
	return strings.Join(all, "\nor\n")
}

// fleetOf runs five proxies, the first of which is on the canary, under steady traffic.
type fleetOf struct {
	proxies []*proxy.Proxy
	failed  []atomic.Int64 // requests that were not answered with 200, by proxy
	stop    func()
}

func startFive(t *testing.T, server string) *fleetOf {
	t.Helper()
	f := &fleetOf{failed: make([]atomic.Int64, 5)}
	for i := range f.failed {
		path := "/routes"
		if i == 0 {
			path = api.PathCanary + path
		}
		f.proxies = append(f.proxies, proxy.Start(t, proxy.Config{RoutesURL: server + path, Faults: proxy.Faults{Die: []string{fatal}}}))
	}
	for _, p := range f.proxies {
		programs.Eventually(t, "a proxy", p.Ready)
	}
	done := make(chan struct{})
	var sending sync.WaitGroup
	for i, p := range f.proxies {
		sending.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(50 * time.Millisecond):
				}
				r, err := http.NewRequest(http.MethodGet, p.Traffic+[]string{"/", "/pay"}[n%2], nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Host = "team.example.org"
				resp, err := http.DefaultClient.Do(r)
				if err == nil {
					resp.Body.Close()
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					f.failed[i].Add(1)
				}
			}
		})
	}
	f.stop = sync.OnceFunc(func() { close(done); sending.Wait() })
	t.Cleanup(f.stop)
	return f
}

// unharmed expects that no request through the fleet has failed.
func (f *fleetOf) unharmed(t *testing.T, when string) {
	t.Helper()
	for i := range f.failed {
		if n := f.failed[i].Load(); i > 0 && n > 0 {
			t.Errorf("%s: %d requests through proxy %d of the fleet failed", when, n, i)
		}
	}
}

// startPrometheus scrapes the proxies, and returns its URL.
func startPrometheus(t *testing.T, address string, f *fleetOf) {
	t.Helper()
	program, dir := programs.Tool(t, "prometheus", "prometheus"), t.TempDir()
	config := "global: {scrape_interval: 2s, evaluation_interval: 10s}\nscrape_configs:\n- job_name: proxies\n  static_configs:\n"
	for i, p := range f.proxies {
		name := fmt.Sprint("skipper-", i)
		if i == 0 {
			name = "skipper-canary-0"
		}
		config += fmt.Sprintf("  - {targets: [%q], labels: {pod: %s}}\n", strings.TrimPrefix(p.Support, "http://"), name)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func (p *process) canary(t *testing.T) *api.Canary {
	t.Helper()
	var s api.Status
	p.supportJSON(t, api.PathStatus, &s)
	if s.Canary == nil {
		t.Fatal("the server has no canary")
	}
	return s.Canary
}

// halted reports whether the newest version of a RouteGroup is halted.
func (p *process) halted(t *testing.T, name string) bool {
	for _, o := range p.canary(t).Objects {
		if o.Name == name && o.Halted != "" {
			return true
		}
	}
	return false
}

// TestCanary: five proxies, one of them on the canary, with the documented queries and a real Prometheus. A good change is promoted although the
// server restarts meanwhile, and one that is rolled back is never served to the fleet. Each bad change is halted within 30 s, and harms only requests through
// the canary, while everything else flows.
func TestCanary(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(good.Close)
	t.Cleanup(bad.Close)
	team := group("team", "team", "/", "", good.URL)
	withObjects(t, c, team+group("other", "other", "/", "", good.URL))
	reads := newFaultProxy(t, c)
	prometheus, state := programs.FreeAddress(t), t.TempDir()
	flags := []string{"--canary=" + canarySoak.String(), "--canary-query=" + documentedQuery(t), "--prometheus=http://" + prometheus, "--state-dir=" + state}
	p := startRoutesrv(t, reads, flags...)
	p.Ready(t)
	f := startFive(t, p.Main)
	startPrometheus(t, prometheus, f)
	serves := func(path, text string) bool { return strings.Contains(p.get(t, path, "").Body, text) }
	programs.Eventually(t, "a verdict", func() bool {
		v := p.canary(t).Verdict
		return v != nil && !v.Failed && !v.Firing
	})

	// good, and rolled back
	withObjects(t, c, group("fresh", "fresh", "/", "", good.URL))
	began := time.Now()
	if err := c.apply(t.Context(), group("other", "other", "/rolled", "", bad.URL)); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "both on the canary", func() bool { return serves("/canary/routes", "fresh") && serves("/canary/routes", "/rolled") })
	main, support := strings.TrimPrefix(p.Main, "http://"), strings.TrimPrefix(p.Support, "http://")
	p.Stop(t)
	token, err := c.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p = startProcess(t, binary, main, support, append(append([]string{"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s"},
		sourceArgs(t, reads, token)...), flags...))
	p.Ready(t)
	programs.Eventually(t, "both on the canary after a restart", func() bool { return serves("/canary/routes", "fresh") && serves("/canary/routes", "/rolled") })
	if err := c.apply(t.Context(), group("other", "other", "/", "", good.URL)); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "the promotion", func() bool {
		if serves("/routes", "/rolled") {
			t.Fatal("the fleet is served what was rolled back")
		}
		return serves("/routes", "fresh")
	})
	if took := time.Since(began); took < canarySoak {
		t.Errorf("promoted after %v", took)
	}
	f.unharmed(t, "a good change")

	for _, change := range []struct{ name, text string }{
		{"a backend that answers 500", group("team", "team", "/", "", bad.URL)},
		{"a path that takes requests of another team", group("taker", "team", "/pay", "", bad.URL)},
		{"a filter that ends proxies", group("team", "team", "/", fatal, good.URL)},
	} {
		programs.Eventually(t, "a quiet query", func() bool { v := p.canary(t).Verdict; return v != nil && !v.Failed && !v.Firing })
		name := "team"
		if strings.Contains(change.text, "name: taker,") {
			name = "taker"
			withObjects(t, c, change.text)
		} else if err := c.apply(t.Context(), change.text); err != nil {
			t.Fatal(err)
		}
		applied := time.Now()
		programs.Eventually(t, change.name+" is halted", func() bool { return p.halted(t, name) })
		took := time.Since(applied)
		if took > haltWithin {
			t.Errorf("%s: halted after %v", change.name, took)
		}
		t.Logf("%s: halted after %v, %d requests through the canary failed", change.name, took.Round(100*time.Millisecond), f.failed[0].Load())
		if f.failed[0].Swap(0) == 0 {
			t.Errorf("%s harmed no request through the canary, so it shows nothing", change.name)
		}
		f.unharmed(t, change.name)
		withObjects(t, c, counterIngress(len(change.name))) // everything else flows
		programs.Eventually(t, "another change on the canary", func() bool { return serves("/canary/routes", fmt.Sprintf(`"N", "%d"`, len(change.name))) })
		if err := c.apply(t.Context(), team); err != nil { // its team corrects it
			t.Fatal(err)
		}
	}
	f.unharmed(t, "at the end")
}

// TestCanaryWithoutAnAnswer: while Prometheus is down a soak lasts three times as long, and then the change passes.
func TestCanaryWithoutAnAnswer(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	const soak = 5 * time.Second
	p := startRoutesrv(t, newFaultProxy(t, c), "--canary="+soak.String(), "--canary-query=up", "--prometheus=http://"+programs.FreeAddress(t))
	p.Ready(t)
	withObjects(t, c, counterIngress(7))
	programs.Eventually(t, "the change on the canary", func() bool { return strings.Contains(p.get(t, "/canary/routes", "").Body, `"N", "7"`) })
	since := p.canary(t).Objects[0].Since
	programs.Eventually(t, "the promotion", func() bool { return strings.Contains(p.get(t, "/routes", "").Body, `"N", "7"`) })
	if took := time.Since(since); took < 3*soak || took > 3*soak+10*time.Second {
		t.Errorf("promoted after %v", took)
	}
	programs.Eventually(t, "a line that no query judged the change", func() bool { return strings.Contains(p.Log(), "promoted without a verdict") })
}
