package sidecar_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

// outside makes connections appear to come from another machine.
type outside struct{ net.Listener }

type foreign struct{ net.Conn }

func (l outside) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return foreign{c}, nil
}

func (foreign) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40000} }

// support is a running sidecar, with the address of its support listener.
type support struct {
	sidecar *sidecar.Sidecar
	address string
}

// runSupport starts a sidecar with real listeners. If foreign is true, the requests to the support listener appear to come from
// other machines.
func runSupport(t *testing.T, cfg sidecar.Config, foreign bool) *support {
	t.Helper()
	srv := routeServer(t)
	var err error
	if cfg.Setting, err = rollout.ParseSetting("Exec"); err != nil {
		t.Fatal(err)
	}
	cfg.Pod, cfg.Address, cfg.SupportAddress, cfg.EnableProfile = "p", "127.0.0.1:0", "localhost:0", true
	cfg.Fetch.URLs, cfg.Fetch.Interval = []string{srv.URL}, 10*time.Millisecond
	opened := make(chan string, 2)
	cfg.Listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err == nil && address == "localhost:0" {
			opened <- l.Addr().String()
			if foreign {
				l = outside{l}
			}
		}
		return l, err
	}
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &support{sidecar: s, address: <-opened}
}

// status requests a path and returns the status.
func (s *support) status(t *testing.T, method, path string) int {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestWhoReadsTheSupportListener: with each protection and each kind of client, over real connections. The list of endpoints is
// complete, so a new endpoint is protected or fails here.
func TestWhoReadsTheSupportListener(t *testing.T) {
	const (
		scrapes = "probes, metrics"                // /livez, /readyz, /health, /fresh and /metrics
		all     = "probes, metrics, what is shown" // everything that can be read
	)
	for _, tt := range []struct {
		name    string
		cfg     sidecar.Config
		foreign bool
		want    string
	}{
		{"open, from outside", sidecar.Config{}, true, all},
		{"loopback only, from outside", sidecar.Config{SupportLoopbackOnly: true}, true, scrapes},
		{"open, from this machine", sidecar.Config{}, false, scrapes},
		{"loopback only, from this machine", sidecar.Config{SupportLoopbackOnly: true}, false, scrapes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := runSupport(t, tt.cfg, tt.foreign)
			eventually(t, "table", func() (bool, string) {
				return ask(s.sidecar.Handler(), "GET", "/health").Code == http.StatusNoContent, "no table"
			})
			for _, e := range s.sidecar.Endpoints() {
				if e.Listener != httpserve.SupportListener || strings.HasPrefix(e.Path, "/debug/pprof/profile") || strings.HasPrefix(e.Path, "/debug/pprof/trace") {
					continue // those two take long, and are in the same list
				}
				class := all
				switch e.Path {
				case "/livez", "/readyz", "/health", "/fresh", "/metrics":
					class = scrapes
				}
				want := strings.HasPrefix(tt.want, class)
				got := s.status(t, http.MethodGet, e.Path)
				answered := got == http.StatusOK || got == http.StatusNoContent || e.Path == "/guard/held" && got == http.StatusNotFound
				switch {
				case want && !answered, !want && got != http.StatusForbidden:
					t.Errorf("%s: %d, want an answer: %t", e.Path, got, want)
				}
			}
		})
	}
}

// TestLiveAnswersWithoutATable: unlike /health, because a restart would not help.
func TestLiveAnswersWithoutATable(t *testing.T) {
	cfg := sidecar.Config{Pod: "p"}
	cfg.Fetch.URLs = []string{"http://127.0.0.1:1"}
	var err error
	if cfg.Setting, err = rollout.ParseSetting("Exec"); err != nil {
		t.Fatal(err)
	}
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if live, health := ask(s.SupportHandler(), "GET", "/livez").Code, ask(s.SupportHandler(), "GET", "/health").Code; live != http.StatusNoContent || health != http.StatusServiceUnavailable {
		t.Errorf("/livez: %d, /health: %d", live, health)
	}
	if !slices.ContainsFunc(s.Endpoints(), func(e httpserve.Endpoint) bool { return e.Path == "/livez" }) {
		t.Error("/livez is not listed")
	}
}
