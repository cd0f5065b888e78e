package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
)

// TestTheFirstRouteServerThatAnswersSaysWhatFailed: others are asked if one is away or is no route server.
func TestTheFirstRouteServerThatAnswersSaysWhatFailed(t *testing.T) {
	serve := func(address string, h http.Handler) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		srv.Start()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	away := serve("127.0.0.1:0", http.NotFoundHandler())
	here := serve("127.0.0.2:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.PathTrialFailures {
			t.Errorf("path %s", r.URL.Path)
		}
		io.WriteString(w, `[{"text":"bad()","verdict":"refused","words":"no","at":"2026-11-25T00:00:00Z"}]`)
	}))
	ask := func(peers ...string) ([]api.TrialFailure, error) {
		failures, err := trialFailures(&options.RouteServer{Peers: peers}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		return failures(t.Context())
	}
	if list, err := ask(away, here); err != nil || len(list) != 1 || list[0].Text != "bad()" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := ask(away); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
}
