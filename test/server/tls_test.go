package server_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/test/certtest"
)

// startTLS runs a server with TLS. Clients use the name "first" and trust the authority.
func startTLS(t *testing.T, a *certtest.Authority, cfg httpserve.TLSConfig) *fixture {
	t.Helper()
	f := start(t, service+ingress("a"), func(c *server.Config) { c.TLS = cfg })
	f.scheme = "https"
	f.useTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "first"})
	return f
}

// useTLS makes further requests with another client.
func (f *fixture) useTLS(cfg *tls.Config) *http.Transport {
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true, DisableCompression: true}
	f.t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return transport
}

// dial makes a handshake, and a request, since with TLS 1.3 a server that refuses the client says so only after the handshake.
func (f *fixture) dial(cfg *tls.Config) (*tls.ConnectionState, error) {
	conn, err := tls.Dial("tcp", f.main, cfg)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		return nil, err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	return &state, nil
}

func TestPlainHTTPIsTheDefault(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) {
		cfg.TLS = httpserve.TLSConfig{CertFiles: []string{"/does/not/exist"}, KeyFiles: []string{"/does/not/exist"}}
	})
	f.ready() // over plain HTTP
}

func TestTLSServesEveryPathAndHTTP2(t *testing.T) {
	a := certtest.New(t)
	cert, key := a.Files(t.TempDir(), "first")
	f := startTLS(t, a, httpserve.TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}})
	f.ready()
	resp, err := f.client.Get("https://" + f.main + "/routes")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Errorf("%d over HTTP/%d, want 200 over HTTP/2", resp.StatusCode, resp.ProtoMajor)
	}
	if _, err := f.dial(&tls.Config{RootCAs: a.Pool(), ServerName: "first", NextProtos: []string{"http/1.1"}}); err != nil {
		t.Errorf("HTTP/1.1: %v", err)
	}
	resp, err = http.Get("http://" + f.main + "/routes")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("%d over plain HTTP, want 400", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestTLSHasALowestVersion(t *testing.T) {
	a := certtest.New(t)
	cert, key := a.Files(t.TempDir(), "first")
	for _, tt := range []struct {
		name string
		min  uint16 // of the server
		max  uint16 // of the client
		ok   bool
	}{
		{"TLS 1.1 by default", 0, tls.VersionTLS11, false},
		{"TLS 1.2 by default", 0, tls.VersionTLS12, true},
		{"TLS 1.2 where 1.3 is wanted", tls.VersionTLS13, tls.VersionTLS12, false},
		{"TLS 1.3 where it is wanted", tls.VersionTLS13, tls.VersionTLS13, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startTLS(t, a, httpserve.TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}, MinVersion: tt.min})
			state, err := f.dial(&tls.Config{RootCAs: a.Pool(), ServerName: "first", MinVersion: tls.VersionTLS10, MaxVersion: tt.max})
			if (err == nil) != tt.ok {
				t.Errorf("error %v, want success: %v", err, tt.ok)
			}
			if tt.ok && state.Version != tt.max {
				t.Errorf("version %s", tls.VersionName(state.Version))
			}
		})
	}
}

func TestCertificateIsChosenByTheNameOfTheServer(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	cert1, key1 := a.Files(dir, "first")
	cert2, key2 := a.Files(dir, "second")
	f := startTLS(t, a, httpserve.TLSConfig{Enable: true, CertFiles: []string{cert1, cert2}, KeyFiles: []string{key1, key2}})
	for asked, want := range map[string]string{"first": "first", "second": "second", "": "first"} {
		cfg := &tls.Config{RootCAs: a.Pool(), ServerName: asked, InsecureSkipVerify: asked == ""}
		state, err := f.dial(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := state.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("certificate of %q for the name %q, want that of %q", got, asked, want)
		}
	}
}

func TestClientCertificateIsNeededForEveryPath(t *testing.T) {
	a, other := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	cert, key := a.Files(dir, "first")
	f := start(t, service+ingress("a"), func(c *server.Config) {
		c.TLS = httpserve.TLSConfig{
			Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key},
			RequireClientCert: true, CAFiles: []string{a.File(dir)},
		}
		c.RequestFilters = chain(t, `mtlsAuthn() -> mtlsCN("trusted")`)
		shards(c)
	})
	f.scheme = "https"
	base := tls.Config{RootCAs: a.Pool(), ServerName: "first"}
	for _, tt := range []struct {
		name   string
		certs  []tls.Certificate
		status int // of /routes; 0 means that there is no connection
	}{
		{"trusted", []tls.Certificate{a.Pair("trusted")}, 200},
		{"other name", []tls.Certificate{a.Pair("somebody")}, 403},
		{"no certificate", nil, 0},
		{"certificate of another authority", []tls.Certificate{other.Pair("trusted")}, 0},
	} {
		cfg := base.Clone()
		cfg.Certificates = tt.certs
		f.useTLS(cfg)
		if tt.status != 0 {
			f.ready() // is exempt from the filters, not from TLS
			if got := f.get("/routes"); got.status != tt.status {
				t.Errorf("%s: %d, want %d", tt.name, got.status, tt.status)
			}
			continue
		}
		for _, path := range []string{"/routes", "/routes/z", "/health", "/swarm/redis/shards", "/nothing"} {
			resp, err := f.client.Get("https://" + f.main + path)
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s: %s is answered with %d, want no answer", tt.name, path, resp.StatusCode)
			}
		}
	}
	f.scheme = "http"
	if got := f.request("GET", f.support, "/health"); got.status != http.StatusNoContent {
		t.Errorf("health without a certificate, on the support listener: %d, want 204", got.status)
	}
	f.scheme = "https"
	if !strings.Contains(f.plainMetrics(t), `routesrv_http_server_errors_total{kind="handshake"}`) {
		t.Error("handshakes that failed are not counted")
	}
	if lines := f.logged("TLS handshake error"); !strings.Contains(lines[0], "level=DEBUG") {
		t.Errorf("log of handshakes that failed: %q, want debug level", lines)
	}
}

// plainMetrics reads the metrics of the support listener, which is always plain.
func (f *fixture) plainMetrics(t *testing.T) string {
	t.Helper()
	f.scheme = "http"
	defer func() { f.scheme = "https" }()
	return f.metrics()
}

func TestChangedCertificateIsTakenUpWhileConnectionsGoOn(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	cert, key := a.Files(dir, "first")
	f := startTLS(t, a, httpserve.TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}})
	f.ready()
	plain := &tls.Config{RootCAs: a.Pool(), ServerName: "first"}
	serial := func() string {
		state, err := f.dial(plain)
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()

	// Half of the pair: the new certificate with the old key.
	oldKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	a.Files(dir, "first")
	newKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, key, oldKey)
	f.eventually("complaint", func() bool {
		if got := serial(); got != first {
			t.Fatalf("certificate %s with half of a pair, want the old one", got)
		}
		return strings.Contains(f.log.String(), "certificates changed and cannot be read, keeping the previous ones")
	})
	replace(t, key, newKey)
	f.eventually("the new certificate", func() bool { return serial() != first })
	reused := false
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	}), http.MethodGet, "https://"+f.main+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !reused || resp.StatusCode != http.StatusNoContent {
		t.Errorf("%d, on the connection from before: %v", resp.StatusCode, reused)
	}
	if n := len(linesWith(f.log.String(), "keeping the previous ones")); n != 1 {
		t.Errorf("the half pair was logged %d times, want once", n)
	}
	if n := len(f.logged("certificates reloaded")); n != 1 {
		t.Errorf("the new pair was logged %d times, want once", n)
	}
}

// replace writes a file by renaming another over it.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A resumed session must not outlive the trust in the authority of its client.
func TestAuthorityThatIsTakenAwayIsNotTrustedInResumedSessions(t *testing.T) {
	a, other := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	cert, key := a.Files(dir, "first")
	ca := a.File(dir)
	f := start(t, service+ingress("a"), func(c *server.Config) {
		c.TLS = httpserve.TLSConfig{
			Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}, RequireClientCert: true, CAFiles: []string{ca},
		}
	})
	cfg := &tls.Config{
		RootCAs: a.Pool(), ServerName: "first", Certificates: []tls.Certificate{a.Pair("x")},
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	f.eventually("a resumed session", func() bool {
		state, err := f.dial(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return state.DidResume
	})
	replace(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Cert.Raw}))
	f.eventually("refusal", func() bool { _, err := f.dial(cfg); return err != nil })
	for range 3 {
		if _, err := f.dial(cfg); err == nil {
			t.Error("a client of the authority that was taken away is served")
		}
	}
}

func TestTLSThatCannotWorkEndsTheStart(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	cert, key := a.Files(dir, "first")
	_, otherKey := a.Files(dir, "second")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(s string) []string { return []string{s} }
	for _, tt := range []struct {
		name string
		cfg  httpserve.TLSConfig
		want []string
	}{
		{"no certificate", httpserve.TLSConfig{}, []string{"-tls-cert", "-tls-key"}},
		{"no pair", httpserve.TLSConfig{CertFiles: []string{cert, cert}, KeyFiles: one(key)}, []string{"-tls-cert names 2 files and -tls-key 1: must be pairs"}},
		{"no such file", httpserve.TLSConfig{CertFiles: one("/does/not/exist"), KeyFiles: one(key)}, []string{"-tls-cert", "/does/not/exist", "no such file"}},
		{"other key", httpserve.TLSConfig{CertFiles: one(cert), KeyFiles: one(otherKey)}, []string{"-tls-key", otherKey, "does not match"}},
		{"no authority", httpserve.TLSConfig{CertFiles: one(cert), KeyFiles: one(key), RequireClientCert: true}, []string{"-mtls-authn-ca"}},
		{"no such authority", httpserve.TLSConfig{CertFiles: one(cert), KeyFiles: one(key), RequireClientCert: true, CAFiles: one("/does/not/exist")},
			[]string{"-mtls-authn-ca", "/does/not/exist"}},
		{"empty authority", httpserve.TLSConfig{CertFiles: one(cert), KeyFiles: one(key), RequireClientCert: true, CAFiles: one(empty)},
			[]string{"-mtls-authn-ca", empty, "the file has no certificate"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fixture{}
			cfg := f.config(t, service)
			cfg.TLS = tt.cfg
			cfg.TLS.Enable = true
			_, err := server.New(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}
