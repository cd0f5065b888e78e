package sidecar_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/test/programs"
)

// fetching runs a sidecar in mode Exec behind a route server, without listeners. It has a table.
func fetching(t *testing.T, cfg sidecar.Config, url string) (s *sidecar.Sidecar, stop func()) {
	t.Helper()
	var err error
	if cfg.Setting, err = rollout.ParseSetting("Exec"); err != nil {
		t.Fatal(err)
	}
	cfg.Fetch.URLs, cfg.Fetch.Interval = []string{url}, 10*time.Millisecond
	if s, err = sidecar.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.RunTables(ctx) }()
	if got := ask(s.Handler(), "GET", "/routes").Code; got != http.StatusOK { // waits for the boot
		t.Errorf("/routes: %d", got)
	}
	return s, func() { cancel(); <-done }
}

// TestProfilesAreServedWithTheFlag: on the support listener.
func TestProfilesAreServedWithTheFlag(t *testing.T) {
	cfg := sidecar.Config{Pod: "p", EnableProfile: true, Registry: prometheus.NewRegistry()}
	s, stop := fetching(t, cfg, routeServer(t).URL)
	defer stop()
	if got := ask(operator(s.ControlHandler()), "GET", "/debug/pprof/cmdline").Code; got != http.StatusOK {
		t.Errorf("/debug/pprof/cmdline: %d", got)
	}
	if got := ask(s.Handler(), "GET", "/debug/pprof/cmdline").Code; got != http.StatusNotFound {
		t.Errorf("/debug/pprof/cmdline on the listener of the proxy: %d, want 404", got)
	}
}

// TestASidecarSaysWhoItIs: by namespace and pod if it knows both, else by the name alone; and its exit is not an error.
func TestASidecarSaysWhoItIs(t *testing.T) {
	for _, c := range []struct{ namespace, pod, want string }{
		{"ingress", "p-1", "kind=sidecar;pod=ingress/p-1;"}, {"", "p-1", "kind=sidecar;id=p-1;"},
	} {
		var mu sync.Mutex
		var said string
		routes := routeServer(t)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			said = cmp.Or(said, r.Header.Get("Routesrv-Client"))
			mu.Unlock()
			routes.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		log := &programs.Buffer{}
		cfg := sidecar.Config{
			Pod: c.pod, PodNamespace: c.namespace, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil)),
		}
		_, stop := fetching(t, cfg, front.URL)
		stop()
		mu.Lock()
		if !strings.HasPrefix(said, c.want) {
			t.Errorf("namespace %q, pod %q: the sidecar says %q, want %q", c.namespace, c.pod, said, c.want)
		}
		if strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("the log has errors:\n%s", log.String())
		}
		mu.Unlock()
	}
}

// TestDefaults: the defaults are those of docs/reference/flags.md, on which operators rely.
func TestDefaults(t *testing.T) {
	if sidecar.DefaultShutdownTimeout != 10*time.Second || sidecar.DefaultFreshLimit != 5*time.Minute {
		t.Errorf("shutdown %v, fresh %v", sidecar.DefaultShutdownTimeout, sidecar.DefaultFreshLimit)
	}
}
