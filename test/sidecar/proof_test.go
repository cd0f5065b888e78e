package sidecar_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// proxy asks like a Skipper, and dies of each table that has a text. It is started again a second later. It is also the transport to its metrics.
type proxy struct {
	*plane
	fatal  string
	killed time.Duration // it also ends this long after each start; 0 means never
	deaths int
	etag   string
	table  string

	mu      sync.Mutex // guards the fields below
	started time.Time  // zero while it is down
	applied time.Time
}

// RoundTrip answers requests for the metrics.
func (x *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.started.IsZero() {
		return nil, &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	}
	text := fmt.Sprintf("process_start_time_seconds %f\nskipper_custom_total{key=\"incoming.HTTP/1.1\"} 1\n", float64(x.started.UnixMilli())/1000)
	if !x.applied.IsZero() {
		text += fmt.Sprintf("skipper_custom_gauges{key=\"routes.total\"} 1\nskipper_custom_gauges{key=\"routes.updated_timestamp\"} %d\n", x.applied.Unix())
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func (x *proxy) set(started, applied time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.started, x.applied = started, applied
}

// restart ends the process. The next poll starts another one.
func (x *proxy) restart() {
	x.etag, x.table = "", ""
	x.set(time.Time{}, time.Time{})
}

// poll asks once, or at its start twice: its support listener opens before the second request, after which it applies the first table.
func (x *proxy) poll() {
	x.t.Helper()
	if x.started.IsZero() {
		x.ask()
		x.set(time.Now(), time.Time{})
	}
	before := x.table
	if x.ask(); x.table != before || x.applied.IsZero() {
		x.set(x.started, time.Now())
	}
	if x.fatal != "" && strings.Contains(x.table, x.fatal) || x.killed > 0 && time.Since(x.started) >= x.killed {
		x.deaths++
		x.restart()
	}
}

func (x *proxy) ask() {
	x.t.Helper()
	header := []string{"User-Agent: Go-http-client/1.1"}
	if x.etag != "" {
		header = append(header, "If-None-Match: "+x.etag)
	}
	r := x.get("/routes", header...)
	switch r.Code {
	case http.StatusOK:
		x.etag, x.table = r.Header().Get("ETag"), r.Body.String()
	case http.StatusNotModified:
	default:
		x.t.Errorf("the proxy gets status %d", r.Code)
	}
}

// live asks every three seconds, and one second after it ended.
func (x *proxy) live(d time.Duration) {
	x.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if x.poll(); x.started.IsZero() {
			time.Sleep(time.Second)
		} else {
			time.Sleep(3 * time.Second)
		}
	}
	synctest.Wait()
}

// suspectOf is the part of /status that says why the proven table is served.
type suspectOf struct {
	Digest, Evidence string
	Retries          int
}

// proofOf returns the part of /status.
func (p *plane) proofOf() (s struct {
	Proof struct {
		Proven, Trial string
		Instead       string `json:"instead_of"`
		Suspect       *suspectOf
		Excused       time.Time `json:"excused_until"`
	}
}) {
	p.t.Helper()
	synctest.Wait()
	if err := json.Unmarshal(p.admin(http.MethodGet, "/status").Body.Bytes(), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *plane) file() string {
	p.t.Helper()
	synctest.Wait()
	text, err := os.ReadFile(filepath.Join(p.state, publish.LastKnownGoodFile))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// withProxy runs a data plane with a state folder and a proxy.
func (w *world) withProxy(mode string) (sidecar.Config, *proxy) {
	w.t.Helper()
	if w.server == nil {
		w.runServer(w.options)
	}
	x := &proxy{fatal: "fatal_example"}
	cfg := w.config(mode)
	cfg.StateDir, cfg.ProxyMetricsURL, cfg.ProxyTransport = w.t.TempDir(), "http://proxy/metrics", x
	x.plane = w.run(cfg)
	return cfg, x
}

// proving does the same, and proves a first table.
func (w *world) proving(mode string) (sidecar.Config, *proxy) {
	w.t.Helper()
	cfg, x := w.withProxy(mode)
	x.live(time.Minute)
	if s := x.proofOf(); s.Proof.Proven == "" {
		w.t.Fatalf("nothing is proven: %+v\n%s", s, x.log)
	}
	return cfg, x
}

func fatalRef() kube.Ref { return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "fatal"} }

// TestProxyThatDiesTwiceGetsTheProvenTable: with its next request, over restarts of both. A retry costs one death, also if newer tables were
// published before it, and the repaired table is served with the next one.
func TestProxyThatDiesTwiceGetsTheProvenTable(t *testing.T) {
	for _, mode := range []string{"Exec", "Pre"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ingress("a"))
				cfg, x := w.proving(mode)
				w.apply(ingress("fatal"))
				x.live(50 * time.Second)
				if x.deaths != 2 || !strings.Contains(x.table, "a_example") || strings.Contains(x.table, "fatal") {
					t.Fatalf("%d deaths, table\n%s\nlog\n%s", x.deaths, x.table, x.log)
				}
				s := x.proofOf()
				if s.Proof.Suspect == nil || s.Proof.Instead != s.Proof.Suspect.Digest || !strings.Contains(x.log.String(), sidecar.LogFallenBack) {
					t.Errorf("status %+v, log\n%s", s, x.log)
				}
				if x.metric("dataplane_suspect") != 1 || x.metric("dataplane_proxy_deaths_total") != 2 {
					t.Errorf("dataplane_suspect %v, deaths %v", x.metric("dataplane_suspect"), x.metric("dataplane_proxy_deaths_total"))
				}
				w.apply(ingress("b")) // newer, and as fatal
				x.live(5 * time.Second)
				if x.deaths != 2 {
					t.Errorf("%d deaths before the retry", x.deaths)
				}
				x.live(20 * time.Second)
				if x.deaths != 3 || !strings.Contains(x.log.String(), sidecar.LogRetry) {
					t.Errorf("%d deaths after the first retry, log\n%s", x.deaths, x.log)
				}

				x.stop()
				x.plane = w.run(cfg)
				x.restart()
				x.live(time.Minute)
				if mode == "Exec" && x.deaths != 3 {
					t.Errorf("%d deaths after a restart of both, log\n%s", x.deaths, x.log)
				}

				w.cluster.Delete(fatalRef())
				w.note(w.compiled())
				deaths := x.deaths
				x.live(5 * time.Minute)
				if x.deaths != deaths || !strings.Contains(x.table, "b_example") || x.metric("dataplane_suspect") != 0 || x.proofOf().Proof.Suspect != nil {
					t.Errorf("%d deaths of the repaired table, %+v, which is\n%s", x.deaths-deaths, x.proofOf(), x.table)
				}
			})
		})
	}
}

// TestRetriesOfAKillerTable: after 1, 2, 4, 8 and then every 10 minutes, each with one death.
func TestRetriesOfAKillerTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		_, x := w.proving("Exec")
		w.apply(ingress("fatal"))
		x.live(10 * time.Second)
		if x.deaths != 2 {
			t.Fatalf("%d deaths", x.deaths)
		}
		for i, minutes := range []time.Duration{1, 2, 4, 8, 10, 10} {
			x.live(minutes*time.Minute - 20*time.Second)
			if x.deaths != 2+i {
				t.Fatalf("%d deaths before retry %d", x.deaths, i+1)
			}
			x.live(20 * time.Second)
			if s := x.proofOf(); x.deaths != 3+i || s.Proof.Instead == "" || s.Proof.Suspect.Retries != i+1 {
				t.Fatalf("%d deaths after retry %d, %+v", x.deaths, i+1, s)
			}
		}
	})
}

// TestOneRestartWithTheProvenTableEndsTheFallback: a proxy that is killed every 20 s, because its memory limit is too small, gets each table
// all the same.
func TestOneRestartWithTheProvenTableEndsTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		_, x := w.proving("Exec")
		x.killed = 20 * time.Second
		for i := range 12 {
			w.apply(ingress(fmt.Sprint("b", i)))
			x.live(20 * time.Second)
		}
		x.live(3 * time.Second)
		if s := x.proofOf(); s.Proof.Instead != "" || s.Proof.Excused.IsZero() || strings.Count(x.log.String(), sidecar.LogFallenBack) != 2 || !strings.Contains(x.log.String(), sidecar.LogExcused) {
			t.Errorf("%+v, log\n%s", s, x.log)
		}
		if !strings.Contains(x.table, "b11_example") {
			t.Errorf("the proxy has\n%s", x.table)
		}
	})
}

// TestForgedRequestsAreNoEvidence: a tenant can send any request for the table through the proxy, to its data plane. That proves no table, makes
// none suspect, and hides no death.
func TestForgedRequestsAreNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		_, x := w.proving("Exec")
		forge := func() {
			for range 6 {
				x.get("/routes", "User-Agent: Go-http-client/1.1")
				x.get("/routes", "User-Agent: Go-http-client/1.1", "If-None-Match: "+x.etag)
				x.get("/routes", "User-Agent: Go-http-client/1.1", `If-None-Match: "1-aa"`)
			}
		}
		w.apply(ingress("b"))
		for range 10 {
			forge()
			x.live(time.Second)
		}
		x.live(30 * time.Second)
		if s := x.proofOf(); s.Proof.Suspect != nil || x.metric("dataplane_proxy_deaths_total") != 0 || !strings.Contains(x.file(), "b_example") {
			t.Errorf("%+v, deaths %v", s, x.metric("dataplane_proxy_deaths_total"))
		}
		w.apply(ingress("c"))
		for range 40 { // the proxy does not fetch it
			forge()
			time.Sleep(time.Second)
		}
		if strings.Contains(x.file(), "c_example") {
			t.Errorf("a table that no proxy has fetched is proven:\n%s", x.file())
		}
		w.apply(ingress("fatal"))
		for range 20 {
			forge()
			x.live(time.Second)
			forge()
		}
		if s := x.proofOf(); x.deaths != 2 || s.Proof.Instead == "" {
			t.Errorf("%d deaths, %+v, log\n%s", x.deaths, s, x.log)
		}
	})
}

// TestARestartBesideHealthyProxies: two of ten proxies are killed again and again, each beside its own data plane. The others get each change.
func TestARestartBesideHealthyProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		var all []*proxy
		for range 10 {
			_, x := w.withProxy("Exec")
			all = append(all, x)
		}
		all[0].killed, all[1].killed = 6*time.Second, 6*time.Second
		for i := range 12 {
			w.apply(ingress(fmt.Sprint("b", i)))
			for range 5 {
				for _, x := range all {
					x.poll()
				}
				time.Sleep(3 * time.Second)
			}
		}
		for i, x := range all {
			for x.table == "" {
				x.poll()
			}
			if s := x.proofOf(); s.Proof.Suspect != nil || !strings.Contains(x.table, "b11_example") {
				t.Errorf("plane %d: %+v, table\n%s", i, s, x.table)
			}
		}
	})
}

// TestLastKnownGoodFileHasOnlyProvenTables: it keeps the one before until then, also if a restart comes first.
func TestLastKnownGoodFileHasOnlyProvenTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		cfg, x := w.proving("Exec")
		w.apply(ingress("b"))
		x.live(20 * time.Second)
		if !strings.Contains(x.table, "b_example") || strings.Contains(x.file(), "b_example") {
			t.Errorf("the proxy has\n%s\nthe file\n%s", x.table, x.file())
		}
		x.live(30 * time.Second)
		if !strings.Contains(x.file(), "b_example") {
			t.Errorf("the file does not have the proven table:\n%s", x.file())
		}
		w.apply(ingress("c"))
		x.live(20 * time.Second)
		x.stop()
		if strings.Contains(x.file(), "c_example") {
			t.Errorf("the end of the process has written\n%s", x.file())
		}
		w.down.Store(true)
		x.plane = w.run(cfg)
		x.restart()
		x.live(20 * time.Second)
		if s := x.status(); s.Origin != "last_known_good" || !strings.Contains(x.table, "b_example") || strings.Contains(x.table, "c_example") {
			t.Errorf("origin %s, table\n%s", s.Origin, x.table)
		}
	})
}

// TestTheFirstTableIsWrittenAtOnce: any table is better than none.
func TestTheFirstTableIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("fatal"))
		cfg, x := w.withProxy("Exec")
		x.live(10 * time.Second)
		if !strings.Contains(x.file(), "fatal_example") {
			t.Errorf("the file has\n%s", x.file())
		}
		if x.deaths < 3 || x.metric("dataplane_suspect") != 0 { // there is nothing else
			t.Errorf("%d deaths, dataplane_suspect %v", x.deaths, x.metric("dataplane_suspect"))
		}
		x.stop() // the file is no proven one for the next process
		x.plane = w.run(cfg)
		if s := x.proofOf(); s.Proof.Proven != "" {
			t.Errorf("%+v", s)
		}
		w.apply(ingress("a"))
		x.live(10 * time.Second)
		if !strings.Contains(x.file(), "a_example") {
			t.Errorf("the file has\n%s", x.file())
		}
	})
}

// TestProxyThatDiesWithItsDataPlane: a pod whose containers end together, each time with the table that ends them.
func TestProxyThatDiesWithItsDataPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		cfg, x := w.proving("Exec")
		w.apply(ingress("fatal"))
		time.Sleep(10 * time.Second)
		for range 2 {
			x.poll()
			x.stop()
			x.plane = w.run(cfg)
			x.restart()
			time.Sleep(5 * time.Second)
		}
		x.live(30 * time.Second)
		if x.deaths != 2 || !strings.Contains(x.table, "a_example") {
			t.Errorf("%d deaths, table\n%s\nlog\n%s", x.deaths, x.table, x.log)
		}
	})
}

// TestTornProofIsSetAside: nothing in its place prevents a start.
func TestTornProofIsSetAside(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"torn":    func(t *testing.T, path string) { writeFile(t, path, `{"proven": "`) },
		"foreign": func(t *testing.T, path string) { writeFile(t, path, `{"proven": 3}`) },
		"huge":    func(t *testing.T, path string) { writeFile(t, path, strings.Repeat(" ", 1<<20)) },
		"folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ingress("a"))
				cfg, x := w.proving("Exec")
				x.stop()
				path := filepath.Join(cfg.StateDir, "proof.json")
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				spoil(t, path)
				x.plane = w.run(cfg)
				w.apply(ingress("fatal"))
				x.live(time.Minute)
				if x.deaths != 2 || !strings.Contains(x.log.String(), sidecar.LogProofUnusable) {
					t.Errorf("%d deaths, log\n%s", x.deaths, x.log)
				}
				x.stop()
				if _, err := os.Stat(path + ".bad"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRoutesFileIsProvenByTime: a proxy that reads a file and shows no metrics gives no evidence against a table.
func TestRoutesFileIsProvenByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.StateDir, cfg.RoutesFile = t.TempDir(), filepath.Join(t.TempDir(), "routes")
		x := w.run(cfg)
		time.Sleep(time.Minute)
		w.apply(ingress("b"))
		time.Sleep(20 * time.Second)
		if strings.Contains(x.file(), "b_example") {
			t.Errorf("the file has\n%s", x.file())
		}
		time.Sleep(20 * time.Second)
		if !strings.Contains(x.file(), "b_example") {
			t.Errorf("the file has\n%s", x.file())
		}
	})
}
