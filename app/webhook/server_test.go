package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// patience is the longest that anything may take before a test gives up. Nothing else depends on it.
const patience = time.Minute

// sourceFunc is a source that a test controls.
type sourceFunc func(context.Context) (*kube.Snapshot, error)

func (f sourceFunc) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	return f(ctx)
}

// certificate writes the certificate of package httptest, and returns a pool that trusts it.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Close()
	pair := srv.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return cert, key, pool
}

// running is a webhook with real sockets.
type running struct {
	*webhook.Server
	main, support string
	client        *http.Client
	log           *syncBuffer
}

func run(t *testing.T, source sourceFunc) *running {
	t.Helper()
	cert, key, pool := certificate(t)
	r := &running{log: &syncBuffer{}}
	var addresses []string
	var mu sync.Mutex
	opened := make(chan struct{}, 2)
	server, err := webhook.New(webhook.Config{
		Source: source, Interval: 10 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
		Address: "127.0.0.1:0", SupportAddress: "127.0.0.1:0",
		Open: func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			if err == nil {
				mu.Lock()
				addresses = append(addresses, l.Addr().String())
				mu.Unlock()
				opened <- struct{}{}
			}
			return l, err
		},
		TLS:    httpserve.TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}},
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-opened
	<-opened
	mu.Lock()
	defer mu.Unlock()
	r.Server, r.main, r.support = server, "https://"+addresses[0], "http://"+addresses[1]
	r.client = &http.Client{Transport: transport, Timeout: patience}
	return r
}

func (r *running) health(t *testing.T) int {
	t.Helper()
	resp, err := r.client.Get(r.support + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestServer: the webhook answers over TLS, is ready with the first snapshot, logs that reads fail, and continues with the
// last snapshot.
func TestServer(t *testing.T) {
	var mu sync.Mutex
	var failure error = errors.New("the API is away")
	reads := 0
	r := run(t, func(context.Context) (*kube.Snapshot, error) {
		mu.Lock()
		defer mu.Unlock()
		reads++
		return shop(t), failure
	})
	set := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failure, reads = err, 0
	}
	await(t, "failing reads", func() bool { mu.Lock(); defer mu.Unlock(); return reads > 3 })
	if got := r.health(t); got != http.StatusServiceUnavailable {
		t.Errorf("health %d without a snapshot", got)
	}
	set(nil)
	await(t, "the first snapshot", func() bool { return r.health(t) == http.StatusOK })
	ask := func() string {
		resp, err := r.client.Post(r.main+"/validate", "application/json",
			bytes.NewReader(review("CREATE", "Ingress", "", ingress("a", "a.example.org", "/", "later", "{}"), nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
		}
		return string(body)
	}
	if got := ask(); !strings.Contains(got, "service_not_found") {
		t.Error(got)
	}
	set(errors.New("away again"))
	await(t, "failing reads", func() bool { mu.Lock(); defer mu.Unlock(); return reads > 3 })
	if got := ask(); !strings.Contains(got, "service_not_found") || r.health(t) != http.StatusOK {
		t.Error("the last snapshot is not used any more:", got)
	}
	if !strings.Contains(r.log.String(), "away again") {
		t.Errorf("no line about failing reads:\n%s", r.log)
	}
	r.Reload()
	if !strings.Contains(r.log.String(), "SIGHUP") {
		t.Error("nothing said about the signal")
	}
}

// TestAPanickingReadIsAFailedOne: an unexpected input must not end the process.
func TestAPanickingReadIsAFailedOne(t *testing.T) {
	var once sync.Once
	r := run(t, func(context.Context) (*kube.Snapshot, error) {
		once.Do(func() { panic("planted") })
		return shop(t), nil
	})
	await(t, "the first snapshot", func() bool { return r.health(t) == http.StatusOK })
	if !strings.Contains(r.log.String(), "planted") {
		t.Errorf("the panic is not in the log:\n%s", r.log)
	}
}

func TestServerWithoutWhatItNeeds(t *testing.T) {
	source := sourceFunc(func(context.Context) (*kube.Snapshot, error) { return nil, nil })
	for want, cfg := range map[string]webhook.Config{
		"Source is required": {},
		"-tls-cert":          {Source: source},
		"no such file": {Source: source, TLS: httpserve.TLSConfig{Enable: true, CertFiles: []string{"/does/not/exist"},
			KeyFiles: []string{"/does/not/exist"}}},
		"compile options": {Source: source, TLS: httpserve.TLSConfig{Enable: true}, Compile: rules.Options{IngressClass: "("}},
	} {
		if _, err := webhook.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSlowBodiesDelayNoReview: more clients than reviews at a time each promise a body that does not arrive.
func TestSlowBodiesDelayNoReview(t *testing.T) {
	r := run(t, func(context.Context) (*kube.Snapshot, error) { return shop(t), nil })
	await(t, "readiness", func() bool { return r.health(t) == http.StatusOK })
	tlsConfig := r.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	for range 20 {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(r.main, "https://"), tlsConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /validate HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience / 3))
		var answer [12]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || string(answer[:]) != "HTTP/1.1 100" {
			t.Fatalf("%q, %v: the server does not read the body", answer, err)
		}
	}
	r.client.Timeout = patience / 3 // less than the server waited for bodies before
	resp, err := r.client.Post(r.main+"/validate", "application/json", bytes.NewReader(review("CREATE", "Ingress", "", []byte(`{}`), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a review beside slow bodies: %s, %v", resp.Status, err)
	}
}
