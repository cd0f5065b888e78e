package sidecar_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/internal/sidecar"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// proxy asks like a Skipper, and dies of each table that has a text. Something starts it again at once.
type proxy struct {
	*plane
	fatal  string
	deaths int
	etag   string
	table  string
}

// poll asks once, or at its start twice: it names the first table before it applies that.
func (x *proxy) poll() {
	x.t.Helper()
	if x.etag == "" {
		x.ask()
	}
	x.ask()
	if x.fatal != "" && strings.Contains(x.table, x.fatal) {
		x.deaths++
		x.etag, x.table = "", ""
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

// live asks every three seconds.
func (x *proxy) live(d time.Duration) {
	x.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Second) {
		x.poll()
	}
	synctest.Wait()
}

// proofOf returns the part of /status.
func (p *plane) proofOf() (s struct {
	Proof struct {
		Proven, Trial string
		Instead       string `json:"instead_of"`
		Suspects      []struct{ Digest, Evidence string }
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

// proving runs a data plane with a state folder, whose proxy has proven a first table.
func (w *world) proving(mode string, change func(*sidecar.Config)) (sidecar.Config, *proxy) {
	w.t.Helper()
	w.runServer(w.options)
	cfg := w.config(mode)
	cfg.StateDir = w.t.TempDir()
	if change != nil {
		change(&cfg)
	}
	x := &proxy{plane: w.run(cfg), fatal: "fatal_example"}
	x.live(time.Minute)
	if s := x.proofOf(); s.Proof.Proven == "" {
		w.t.Fatalf("nothing is proven: %+v", s)
	}
	return cfg, x
}

func fatalRef() kube.Ref { return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "fatal"} }

// TestProxyThatDiesTwiceGetsTheProvenTable: at once, and as long as the server offers the same table, over restarts of both. A later table is
// taken as usual.
func TestProxyThatDiesTwiceGetsTheProvenTable(t *testing.T) {
	for _, mode := range []string{"Exec", "Pre"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ingress("a"))
				cfg, x := w.proving(mode, nil)
				w.apply(ingress("fatal"))
				x.live(time.Minute)
				if x.deaths != 2 || !strings.Contains(x.table, "a_example") {
					t.Fatalf("%d deaths, table\n%s\nlog\n%s", x.deaths, x.table, x.log)
				}
				s := x.proofOf()
				if len(s.Proof.Suspects) != 1 || s.Proof.Instead != s.Proof.Suspects[0].Digest || !strings.Contains(x.log.String(), sidecar.LogSuspect) {
					t.Errorf("status %+v, log\n%s", s, x.log)
				}
				if x.metric("dataplane_suspect") != 1 || x.metric("dataplane_proxy_deaths_total") != 2 {
					t.Errorf("dataplane_suspect %v, deaths %v", x.metric("dataplane_suspect"), x.metric("dataplane_proxy_deaths_total"))
				}
				x.live(10 * time.Minute)
				x.etag = "" // another restart
				x.live(time.Minute)
				if x.deaths != 2 {
					t.Errorf("%d deaths while the same table is offered", x.deaths)
				}

				x.stop()
				x.plane = w.run(cfg)
				x.live(time.Minute)
				x.etag = ""
				x.live(time.Minute)
				if mode == "Exec" && x.deaths != 2 {
					t.Errorf("%d deaths after a restart of the data plane", x.deaths)
				}

				w.apply(ingress("b"))
				w.cluster.Delete(fatalRef())
				w.note(w.compiled())
				deaths := x.deaths
				x.live(time.Minute)
				if x.deaths != deaths || !strings.Contains(x.table, "b_example") || x.metric("dataplane_suspect") != 0 {
					t.Errorf("%d deaths of a later table, which is\n%s", x.deaths-deaths, x.table)
				}
			})
		})
	}
}

// TestLastKnownGoodFileHasOnlyProvenTables: it keeps the one before until then, also if a restart comes first.
func TestLastKnownGoodFileHasOnlyProvenTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		cfg, x := w.proving("Exec", nil)
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
		x.etag = ""
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
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.StateDir = t.TempDir()
		x := &proxy{plane: w.run(cfg), fatal: "fatal_example"}
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
		cfg, x := w.proving("Exec", nil)
		w.apply(ingress("fatal"))
		time.Sleep(10 * time.Second)
		for range 5 {
			x.poll()
			x.stop()
			x.plane, x.etag = w.run(cfg), ""
			time.Sleep(5 * time.Second)
		}
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
				cfg, x := w.proving("Exec", nil)
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

// TestPeopleAreNoProxy: requests of people and tools prove nothing, and are no deaths.
func TestPeopleAreNoProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		_, x := w.proving("Exec", nil)
		w.apply(ingress("b"))
		x.live(10 * time.Second)
		for range 10 {
			x.get("/routes", "User-Agent: curl/8.0")
			x.get("/routes", "User-Agent: routesrv-tool")
			x.get("/routes")
			ask(x.Handler(), http.MethodHead, "/routes", "User-Agent: Go-http-client/1.1")
		}
		x.live(10 * time.Second)
		if s := x.proofOf(); len(s.Proof.Suspects) != 0 || x.metric("dataplane_proxy_deaths_total") != 0 || !strings.Contains(x.table, "b_example") {
			t.Errorf("%+v, deaths %v", s, x.metric("dataplane_proxy_deaths_total"))
		}
	})
}

// TestRoutesFileIsProvenByTime: a proxy that reads a file and shows no metrics gives no evidence against a table.
func TestRoutesFileIsProvenByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.StateDir, cfg.RoutesFile = t.TempDir(), filepath.Join(t.TempDir(), "routes")
		x := &proxy{plane: w.run(cfg)}
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
