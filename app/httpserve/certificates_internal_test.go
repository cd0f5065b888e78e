package httpserve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestCertificatesAreReadAnewOnlyIfAFileChanged(t *testing.T) {
	cert, key := certificateFiles(t)
	synctest.Test(t, func(t *testing.T) {
		cfg, err := NewTLS(TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}}, slog.New(slog.DiscardHandler), nil)
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
				t.Fatal("the certificates were read again although no file has changed")
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

// TestExpiryFollowsTheFiles: with the next handshake.
func TestExpiryFollowsTheFiles(t *testing.T) {
	cert, key := certificateFiles(t)
	dir := t.TempDir()
	for from, to := range map[string]string{cert: "a.crt", key: "a.key"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		cfg := TLSConfig{Enable: true, CertFiles: []string{filepath.Join(dir, "a.crt")}, KeyFiles: []string{filepath.Join(dir, "a.key")},
			RequireClientCert: true, CAFiles: []string{cert}}
		secure, err := NewTLS(cfg, slog.New(slog.DiscardHandler), registry)
		if err != nil {
			t.Fatal(err)
		}
		end := func(use string) float64 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.Metric {
					if f.GetName() == "routesrv_certificate_expiry_timestamp_seconds" && m.Label[1].GetValue() == use {
						return m.Gauge.GetValue()
					}
				}
			}
			t.Fatalf("no series of the use %s", use)
			return 0
		}
		if end("certificate") != end("authority") { // the same certificate
			t.Errorf("ends %v and %v, want one time", end("certificate"), end("authority"))
		}
		before := end("certificate")
		renew(t, filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key"), time.Unix(int64(before)+3600, 0))
		time.Sleep(2 * certificateCheck)
		if _, err := secure.GetConfigForClient(nil); err != nil {
			t.Fatal(err)
		}
		if got := end("certificate"); got != before+3600 {
			t.Errorf("after a renewal the certificate ends at %v, want %v", got, before+3600)
		}
	})
}

// renew writes a pair that expires at end.
func renew(t *testing.T, certFile, keyFile string, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
