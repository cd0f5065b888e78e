package sidecar_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// Problems of the objects are counted where an operator looks first.
func TestStatusCountsTheProblemsOfTheComputedTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := strings.Replace(ingress("b"), "namespace: shop", `namespace: shop, annotations: {zalando.org/skipper-filter: "("}`, 1)
		unknown := strings.Replace(ingress("c"), "name: s,", "name: nobody,", 1)
		w := newWorld(t, ingress("a"), broken, unknown)
		p := w.run(w.config("False"))
		p.expect("False", "self", time.Second)
		var s struct {
			Self struct{ Problems map[string]int }
		}
		if err := json.Unmarshal(p.admin(http.MethodGet, "/status").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]int)
		for _, severity := range []string{"error", "warning", "info"} {
			want[severity] = 0
		}
		want["error"] = 2
		if fmt.Sprint(s.Self.Problems) != fmt.Sprint(want) {
			t.Errorf("problems %v, want %v", s.Self.Problems, want)
		}
	})
}

// claimNewer polls as a proxy whose table has a revision that the cluster has not reached here.
func (p *plane) claimNewer() int {
	p.t.Helper()
	return p.get("/routes", fmt.Sprintf(`If-None-Match: "%064x.%d"`, 1, 1000)).Code
}

// A proxy with a newer revision than a table computed here shows that the read came from a stale cache.
func TestAProxyThatIsAheadOfAComputedTableHasTheClusterRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		cfg := w.config("False")
		cfg.Fetch = dataplane.Config{} // only computed tables
		cfg.Interval = time.Hour
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		time.Sleep(time.Minute)
		before := w.reads.Load()
		if code := p.claimNewer(); code != http.StatusNotModified {
			t.Errorf("status %d, want the proxy to keep its table", code)
		}
		time.Sleep(time.Minute)
		if n := w.reads.Load() - before; n == 0 || n > 60 {
			t.Errorf("%d reads in a minute in which a proxy was ahead, want at least one and few", n)
		}
	})
}

// A fallback is slow so that a fleet does not overload the cluster, whatever proxies name.
func TestAFallbackKeepsItsPaceWhateverAProxyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.down.Store(true)
		cfg := w.config("Exec")
		cfg.Interval = time.Hour
		p := w.run(cfg)
		p.expect("Exec", "self", time.Hour)
		time.Sleep(time.Minute)
		before := w.reads.Load()
		p.claimNewer()
		time.Sleep(10 * time.Minute)
		if n := w.reads.Load() - before; n != 0 {
			t.Errorf("%d reads of a fallback because a proxy was ahead, want none", n)
		}
	})
}

func TestDefaultsOfASidecar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		p := w.run(w.config("False"))
		p.expect("False", "self", time.Second)
		if got := p.admin(http.MethodGet, "/fresh").Body.String(); !strings.Contains(got, `"limit_seconds": 300`) {
			t.Errorf("/fresh says\n%s", got)
		}
		// Ten polls of the cluster at the interval of the poller.
		before := w.reads.Load()
		time.Sleep(30 * time.Second)
		if n := w.reads.Load() - before; n < 8 || n > 12 {
			t.Errorf("%d reads in 30 s, want one about every 3 s", n)
		}
	})
}

// Wrong zone limits are reported at the start, and not when a table is fetched.
func TestTwoZonesEndTheStart(t *testing.T) {
	w := newWorld(t)
	cfg := w.config("False")
	cfg.Fetch = dataplane.Config{Zone: "a", ZoneFile: tempFile(t, "zone", "b\n")}
	if s, err := newSidecar(cfg); err == nil || s != nil || !strings.Contains(err.Error(), "zone") {
		t.Errorf("a zone and a file with one: %v", err)
	}
}

// A switch that the guard holds shows in the same places as any held table, beside what is served.
func TestHeldSwitchShowsWhatItWouldChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), other("b"), other("c"), other("d"))
		w.options = selective("other|skipper")
		w.runServer(selective("^skipper$"))
		cfg := w.config("Pre")
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		p.expect("Pre", "self", time.Second)
		if got := p.admin(http.MethodGet, "/guard/held"); got.Code != http.StatusNotFound {
			t.Errorf("status %d while nothing is held, want 404", got.Code)
		}
		p.setMode("Exec")
		time.Sleep(20 * time.Second)
		got := p.admin(http.MethodGet, "/guard/held?format=json")
		body := got.Body.String()
		if got.Code != http.StatusOK || !strings.Contains(body, p.status().Switch.Guard.Digest) || !strings.Contains(body, "b_example") {
			t.Errorf("status %d: %s", got.Code, body)
		}
	})
}
