package sidecar_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/rollout"
)

// Whatever changes in whatever order, the proxy never loses its table and never gets one that nobody published. When everything
// is well again, it has the table of the cluster.
func TestRandomWalkNeverLosesTheTable(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { walk(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func walk(t *testing.T, random *rand.Rand) {
	w := newWorld(t, ingress("a"), ingress("b"), ingress("c"), ingress("d"))
	w.runServer(w.options)
	w.note(w.compiled())
	cfg := w.config("Pre")
	cfg.ModeFile = tempFile(t, "mode", "Pre")
	cfg.StateDir = t.TempDir()
	cfg.Fallback = rollout.FallbackConfig{
		Policy: rollout.FallbackAlways, After: 10 * time.Second, MaxAge: 30 * time.Second, Window: 20 * time.Second,
	}
	p := w.run(cfg)
	p.expect("Pre", "self", time.Second)
	stop := p.proxy()
	modes := []string{"False", "Pre", "Exec", "Exec:50%", "Exec!", "nonsense", "Exec:0%"}
	var did []string
	for i := range 60 {
		switch random.IntN(5) {
		case 0, 1:
			mode := modes[random.IntN(len(modes))]
			did = append(did, mode)
			p.setMode(mode)
		case 2:
			w.apply(ingress(fmt.Sprintf("n%d", i)))
		case 3:
			w.down.Store(random.IntN(2) == 0)
		case 4:
			w.apiDown.Store(random.IntN(3) == 0)
		}
		time.Sleep(time.Duration(random.Int64N(int64(25 * time.Second))))
	}
	w.down.Store(false)
	w.apiDown.Store(false)
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	want := string(w.compiled().Text())
	if got := p.get("/routes").Body.String(); got != want {
		t.Errorf("modes %v; at the end %+v, got\n%s\nwant\n%s", did, p.status(), got, want)
	}
	if n := stop(); n < 5 {
		t.Errorf("the proxy saw %d tables", n)
	}
}

// A proxy outlives its sidecar, and holds a table that is newer than the last-known-good one: it is not sent back to that one.
func TestProxyIsNotSentBackByARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.StateDir = t.TempDir()
		p := w.run(cfg)
		p.expect("Exec", "routeserver", time.Second)
		p.stop()
		w.apply(ingress("b"))
		time.Sleep(5 * time.Second)
		cfg2 := w.config("Exec")
		p = w.run(cfg2) // without a file: it has the newer table, and the file the older one
		p.expect("Exec", "routeserver", time.Second)
		held := p.get("/routes").Header().Get("Etag")
		p.stop()

		w.down.Store(true)
		p = w.run(cfg)
		p.expect("Exec", "last_known_good", 3*time.Second)
		if r := p.get("/routes", "If-None-Match: "+held); r.Code != http.StatusNotModified {
			t.Errorf("status %d, want the proxy to keep its newer table", r.Code)
		}
		if r := p.get("/routes"); r.Code != http.StatusOK || r.Header().Get("X-Table-State") != "stale" {
			t.Errorf("a proxy without a table: status %d", r.Code)
		}
	})
}

func TestSwitchToADeadRouteServerKeepsTheComputedTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.down.Store(true)
		cfg := w.config("Pre")
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		cfg.Fallback.Policy = rollout.FallbackNever
		p := w.run(cfg)
		p.expect("Pre", "self", time.Second)
		p.setMode("Exec")
		time.Sleep(10 * time.Minute)
		w.apply(ingress("b"))
		time.Sleep(4 * time.Second)
		s := p.expect("Exec", "self", 0)
		if s.Switch == nil || s.Switch.To != "routeserver" || !s.Fresh {
			t.Errorf("%+v, want a switch in progress and a fresh table", s)
		}
		if got, want := p.get("/routes").Body.String(), string(w.compiled().Text()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestFallbackTakesItsUsualPaceWhenTheModeGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.down.Store(true)
		cfg := w.config("Exec")
		cfg.ModeFile = tempFile(t, "mode", "Exec")
		p := w.run(cfg)
		p.expect("Exec", "self", 12*time.Minute)
		p.setMode("False")
		if s := p.expect("False", "self", time.Second); s.Self == nil || s.Self.Fallback {
			t.Errorf("%+v, want a producer at its usual pace", s.Self)
		}
		before := w.reads.Load()
		time.Sleep(time.Minute)
		if n := w.reads.Load() - before; n < 18 {
			t.Errorf("%d reads in a minute, want one every three seconds", n)
		}
		if r := p.get("/routes"); r.Code != http.StatusOK {
			t.Errorf("status %d", r.Code)
		}
	})
}
