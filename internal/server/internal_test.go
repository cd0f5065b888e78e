package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// countingWriter counts how a response is written.
type countingWriter struct {
	*httptest.ResponseRecorder
	writes, flushes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}

func (w *countingWriter) Flush() { w.flushes++ }

// The cache writes a body in large parts and flushes it, to see whether it arrives. What counts its answers must not be in the
// way.
func TestCountingAnswersLeavesTheWriterAsItIs(t *testing.T) {
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New([]table.Route{{ID: "a", Text: `a: Path("/` + strings.Repeat("x", 1<<20) + `") -> <shunt>;`}}, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cache.Publish(tab)
	c := newCompat(&Server{})
	ask := func(h http.Handler) *countingWriter {
		w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/routes", nil))
		return w
	}
	w, want := ask(c.observe(cache.Handler())), ask(cache.Handler())
	if w.writes != want.writes || w.flushes != 1 || w.Body.Len() != tab.Bytes() {
		t.Errorf("%d bytes in %d writes and %d flushes, want %d in %d and 1", w.Body.Len(), w.writes, w.flushes, tab.Bytes(), want.writes)
	}
	if got := testutil.ToFloat64(c.responses.WithLabelValues("200")); got != 1 {
		t.Errorf("%v answers counted", got)
	}
}

func TestCertificatesAreReadAnewOnlyIfAFileChanged(t *testing.T) {
	cert, key := certificateFiles(t)
	synctest.Test(t, func(t *testing.T) {
		cfg, err := newTLS(TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		current := func() *tls.Config {
			c, err := cfg.GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := current()
		for range 5 {
			time.Sleep(2 * certificateCheck)
			if current() != first {
				t.Fatal("the certificates were read anew although no file has changed")
			}
		}
	})
}

// certificateFiles writes the certificate and the key of package httptest.
func certificateFiles(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Close()
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
