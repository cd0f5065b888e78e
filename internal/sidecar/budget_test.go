package sidecar_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

// TestProfilesAreServedWithTheFlag on the support listener, and a change budget leaves the first table as it is.
func TestProfilesAreServedWithTheFlag(t *testing.T) {
	cfg := sidecar.Config{Pod: "p", EnableProfile: true, ChangeBudget: time.Hour, Registry: prometheus.NewRegistry()}
	var err error
	if cfg.Setting, err = rollout.ParseSetting("Exec"); err != nil {
		t.Fatal(err)
	}
	cfg.Fetch.URLs, cfg.Fetch.Interval = []string{routeServer(t).URL}, 10*time.Millisecond
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { defer close(done); s.RunTables(ctx) }()
	if got := ask(s.Handler(), "GET", "/routes").Code; got != http.StatusOK { // waits for the boot
		t.Errorf("/routes: %d", got)
	}
	if got := ask(s.SupportHandler(), "GET", "/debug/pprof/cmdline").Code; got != http.StatusOK {
		t.Errorf("/debug/pprof/cmdline: %d", got)
	}
	if got := ask(s.Handler(), "GET", "/debug/pprof/cmdline").Code; got != http.StatusNotFound {
		t.Errorf("/debug/pprof/cmdline on the listener of the proxy: %d, want 404", got)
	}
}
