package sidecar_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

func TestBootServesTheRouteServerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		p := w.run(w.config("Exec"))
		// The first request of a proxy comes during the start: it waits.
		if r := p.get("/routes"); r.Code != http.StatusOK || r.Header().Get("X-Table-State") != "" {
			t.Errorf("status %d, state %q, want a table that is not stale", r.Code, r.Header().Get("X-Table-State"))
		}
		if s := p.status(); s.Origin != "routeserver" || w.reads.Load() != 0 {
			t.Errorf("origin %s after %d reads of the cluster", s.Origin, w.reads.Load())
		}
	})
}

func TestBootWithADeadServerServesTheLastKnownGoodTableAsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.StateDir = t.TempDir()
		cfg.FreshLimit = time.Hour
		p := w.run(cfg)
		before := p.get("/routes")
		p.stop()

		w.down.Store(true)
		p = w.run(cfg)
		r := p.get("/routes")
		if r.Code != http.StatusOK || r.Body.String() != before.Body.String() || r.Header().Get("X-Table-State") != "stale" {
			t.Errorf("status %d, state %q, want the last table, marked stale", r.Code, r.Header().Get("X-Table-State"))
		}
		if s := p.status(); s.Origin != "last_known_good" || !s.Table.Stale || !s.Fresh {
			t.Errorf("status %+v", s)
		}
		time.Sleep(90 * time.Minute)
		if s := p.status(); s.Origin != "last_known_good" || w.reads.Load() != 0 {
			t.Errorf("origin %s after %d reads of the cluster: fallback boot has a table", s.Origin, w.reads.Load())
		}
		if r := p.get("/fresh"); r.Code != http.StatusServiceUnavailable || !strings.Contains(r.Body.String(), `"age_seconds": 54`) {
			t.Errorf("/fresh: status %d\n%s", r.Code, r.Body)
		}
		if r := p.get("/health"); r.Code != http.StatusNoContent {
			t.Errorf("/health: status %d, want an old table to be better than none", r.Code)
		}

		w.down.Store(false)
		p.expect("Exec", "routeserver", time.Minute)
		if r := p.get("/routes"); r.Header().Get("X-Table-State") != "" {
			t.Errorf("state %q after the route server has confirmed the table", r.Header().Get("X-Table-State"))
		}
		if r := p.get("/fresh"); r.Code != http.StatusOK {
			t.Errorf("/fresh: status %d\n%s", r.Code, r.Body)
		}
	})
}

func TestBootWithNothingIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.down.Store(true)
		cfg := w.config("Exec")
		cfg.Fallback.Policy = rollout.FallbackNever
		p := w.run(cfg)
		began := time.Now()
		if r := p.get("/routes"); r.Code != http.StatusNotFound || r.Body.Len() != 0 {
			t.Errorf("status %d %q, want 404", r.Code, r.Body)
		}
		if waited := time.Since(began); waited > 2500*time.Millisecond {
			t.Errorf("the request waited %v: a proxy gives up after three seconds", waited)
		}
		for _, path := range []string{"/health", "/fresh"} {
			if r := p.get(path); r.Code != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d, want 503", path, r.Code)
			}
		}
		time.Sleep(24 * time.Hour)
		if s := p.status(); s.Ready || w.reads.Load() != 0 {
			t.Errorf("ready %v after %d reads, want fallback never to be that", s.Ready, w.reads.Load())
		}
	})
}

func TestFallbackBootComputesUntilTheRouteServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.down.Store(true)
		p := w.run(w.config("Exec"))
		time.Sleep(59 * time.Second)
		if n := w.reads.Load(); n != 0 {
			t.Errorf("%d reads before the route server was silent for a minute", n)
		}
		time.Sleep(2 * time.Second)
		if s := p.status(); s.Fallback.Reason == "" || s.Fallback.StartAt.IsZero() && !s.Fallback.Computing {
			t.Errorf("%+v, want the slot that is waited for", s.Fallback)
		}
		s := p.expect("Exec", "self", 10*time.Minute)
		if !s.Fallback.Computing || !s.Self.Fallback || p.metric("dataplane_fallback") != 1 {
			t.Errorf("%+v", s)
		}
		before := w.reads.Load()
		time.Sleep(5 * time.Minute)
		if n := w.reads.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d reads in five minutes, want one every 30 s", n)
		}
		w.down.Store(false)
		p.expect("Exec", "routeserver", time.Minute)
		before = w.reads.Load()
		time.Sleep(10 * time.Minute)
		if n := w.reads.Load() - before; n > 0 {
			t.Errorf("%d reads after the route server was back", n)
		}
		for _, message := range []string{sidecar.LogFallbackWaiting, sidecar.LogFallbackStarted, sidecar.LogFallbackStopped} {
			if n := strings.Count(p.log.String(), message); n != 1 {
				t.Errorf("%q is in the log %d times, want once", message, n)
			}
		}
	})
}

func TestFallbackAlwaysReplacesATableThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.Fallback.Policy = rollout.FallbackAlways
		p := w.run(cfg)
		p.expect("Exec", "routeserver", time.Second)
		w.down.Store(true)
		time.Sleep(59 * time.Minute)
		if n := w.reads.Load(); n != 0 {
			t.Errorf("%d reads while the table is younger than an hour", n)
		}
		w.apply(ingress("b"))
		p.expect("Exec", "self", 12*time.Minute)
		if got, want := p.get("/routes").Body.String(), string(w.compiled().Text()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
