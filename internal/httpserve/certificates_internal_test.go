package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestCertificatesAreReadAnewOnlyIfAFileChanged(t *testing.T) {
	cert, key := certificateFiles(t)
	synctest.Test(t, func(t *testing.T) {
		cfg, err := NewTLS(TLSConfig{Enable: true, CertFiles: []string{cert}, KeyFiles: []string{key}}, slog.New(slog.DiscardHandler))
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
