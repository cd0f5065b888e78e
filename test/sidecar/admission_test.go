package sidecar_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/routesrv/routesrv/test/certtest"
)

// serverFiles writes a certificate for the support listener, which is good for nothing else.
func serverFiles(a *certtest.Authority, dir string) (cert, key string) {
	return a.Files(dir, "dataplane-client", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
}

// clientPair returns a certificate for a client.
func clientPair(a *certtest.Authority) *tls.Certificate {
	pair := a.Pair("prometheus", func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	return &pair
}

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

// support is a running sidecar, with what is needed to query its support listener.
type support struct {
	sidecar *sidecar.Sidecar
	address string
	scheme  string
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
	r := &support{sidecar: s, address: <-opened, scheme: "http"}
	if cfg.SupportTLS.Cert != "" {
		r.scheme = "https"
	}
	return r
}

// status requests a path and returns the status; 0 if there was no response.
func (s *support) status(t *testing.T, roots *certtest.Authority, client *tls.Certificate, method, path string) int {
	t.Helper()
	cfg := &tls.Config{ServerName: "dataplane-client", RootCAs: x509.NewCertPool()}
	if roots != nil {
		cfg.RootCAs.AddCert(roots.Cert)
	}
	if client != nil {
		// Even if the server requests another authority.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client, nil }
	}
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, s.scheme+"://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0
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
	a, stranger := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	cert, key := serverFiles(a, dir)
	withTLS := sidecar.SupportTLS{Cert: cert, Key: key}
	withClients := sidecar.SupportTLS{Cert: cert, Key: key, ClientCA: a.File(dir)}
	ours, theirs := clientPair(a), clientPair(stranger)
	const (
		probes  = "probes"                          // only /livez, /health and /fresh
		scrapes = "probes, metrics"                 // also /metrics
		all     = "probes, metrics, what is shown"  // everything that can be read
		nothing = "nothing: the handshake is ended" // not even probes
	)
	for _, tt := range []struct {
		name    string
		cfg     sidecar.Config
		foreign bool
		client  *tls.Certificate
		want    string
	}{
		{"open, from outside", sidecar.Config{}, true, nil, all},
		{"loopback only, from outside", sidecar.Config{SupportLoopbackOnly: true}, true, nil, scrapes},
		{"open, from this machine", sidecar.Config{}, false, nil, scrapes},
		{"loopback only, from this machine", sidecar.Config{SupportLoopbackOnly: true}, false, nil, scrapes},
		{"TLS, from outside", sidecar.Config{SupportTLS: withTLS}, true, nil, all},
		{"certificates, without one", sidecar.Config{SupportTLS: withClients}, true, nil, probes},
		{"certificates, without one from loopback", sidecar.Config{SupportTLS: withClients}, false, nil, probes},
		{"certificates, with one", sidecar.Config{SupportTLS: withClients}, true, ours, all},
		{"certificates, of another authority", sidecar.Config{SupportTLS: withClients}, true, theirs, nothing},
		{"both, from outside", sidecar.Config{SupportTLS: withClients, SupportLoopbackOnly: true}, true, nil, probes},
		{"certificates, with one from this machine", sidecar.Config{SupportTLS: withClients}, false, ours, all},
		{"both, from this machine", sidecar.Config{SupportTLS: withClients, SupportLoopbackOnly: true}, false, nil, probes},
		{"both, with a certificate", sidecar.Config{SupportTLS: withClients, SupportLoopbackOnly: true}, true, ours, all},
		{"TLS and loopback only, with a certificate that nobody verifies", sidecar.Config{SupportTLS: withTLS, SupportLoopbackOnly: true}, true, ours, scrapes},
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
				class, method := all, http.MethodGet
				switch e.Path {
				case "/livez", "/readyz", "/health", "/fresh":
					class = probes
				case "/metrics":
					class = scrapes
				case "/guard/accept":
					method = http.MethodPost
				}
				want := strings.HasPrefix(tt.want, class)
				got := s.status(t, a, tt.client, method, e.Path)
				answered := got == http.StatusOK || got == http.StatusNoContent || e.Path == "/guard/held" && got == http.StatusNotFound
				switch {
				case tt.want == nothing:
					if got != 0 {
						t.Errorf("%s: %d, want a handshake that fails", e.Path, got)
					}
				case e.Path == "/guard/accept":
					if got != http.StatusMethodNotAllowed {
						t.Errorf("%s: %d", e.Path, got)
					}
				case want && !answered, !want && got != http.StatusForbidden:
					t.Errorf("%s: %d, want an answer: %t", e.Path, got, want)
				}
			}
		})
	}
}

// TestPlainRequestsToATLSSupportListener: they get no response of the sidecar.
func TestPlainRequestsToATLSSupportListener(t *testing.T) {
	a := certtest.New(t)
	cert, key := serverFiles(a, t.TempDir())
	s := runSupport(t, sidecar.Config{SupportTLS: sidecar.SupportTLS{Cert: cert, Key: key}}, true)
	s.scheme = "http"
	if got := s.status(t, a, nil, http.MethodGet, "/livez"); got != http.StatusBadRequest {
		t.Errorf("%d, want 400", got)
	}
}

// TestSupportCertificateIsReadAgain: when its file changes, without a restart.
func TestSupportCertificateIsReadAgain(t *testing.T) {
	first, second := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	cert, key := serverFiles(first, dir)
	s := runSupport(t, sidecar.Config{SupportTLS: sidecar.SupportTLS{Cert: cert, Key: key}}, true)
	if got := s.status(t, first, nil, http.MethodGet, "/livez"); got != http.StatusNoContent {
		t.Fatalf("/livez: %d", got)
	}
	serverFiles(second, dir)
	eventually(t, "answer with the new certificate", func() (bool, string) {
		return s.status(t, second, nil, http.MethodGet, "/livez") == http.StatusNoContent, "none"
	})
}

// TestWrongSupportTLSEndsTheStart: the error names the flag.
func TestWrongSupportTLSEndsTheStart(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	cert, key := serverFiles(a, dir)
	for want, cfg := range map[string]sidecar.SupportTLS{
		"set --support-tls cert and --support-tls key":           {ClientCA: a.File(dir)},
		"(--support-tls cert, --support-tls key)":                {Cert: cert + "x", Key: key},
		"(--support-tls client-ca): the file has no certificate": {Cert: cert, Key: key, ClientCA: key},
		"read authorities (--support-tls client-ca): open /no/":  {Cert: cert, Key: key, ClientCA: "/no/where"},
	} {
		c := sidecar.Config{Pod: "p", SupportTLS: cfg}
		c.Fetch.URLs = []string{"http://127.0.0.1:1"}
		var err error
		if c.Setting, err = rollout.ParseSetting("Exec"); err != nil {
			t.Fatal(err)
		}
		if _, err := sidecar.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
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
