package program_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
)

// pair makes a self-signed certificate and its key, in PEM.
func pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName))
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	defer srv.Close()
	dir := t.TempDir()
	files := options.TLSFiles{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
	}
	writeFile(t, files.CA, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	cert, key := pair(t, "first")
	writeFile(t, files.Cert, cert)
	writeFile(t, files.Key, key)
	transport, err := program.NewTransport("", files, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	name := func() string {
		t.Helper()
		resp, err := client.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 100)
		n, _ := resp.Body.Read(buf)
		return string(buf[:n])
	}
	if got := name(); got != "first" {
		t.Errorf("shown %q, want first", got)
	}
	writeFile(t, files.Cert, "half of a fi") // is being written
	for deadline := time.Now().Add(1500 * time.Millisecond); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got := name(); got != "first" {
			t.Errorf("shown %q while the files are broken, want first", got)
		}
	}
	cert, key = pair(t, "second one")
	writeFile(t, files.Cert, cert)
	writeFile(t, files.Key, key)
	for deadline := time.Now().Add(10 * time.Second); name() != "second one"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not shown")
		}
	}
}

func TestFilesThatCannotBeUsedEndTheStart(t *testing.T) {
	broken := tempFile(t, "broken.pem", "nothing")
	for _, files := range []options.TLSFiles{
		{CA: broken}, {CA: broken + "x"}, {Cert: broken}, {Key: broken}, {Cert: broken, Key: broken},
	} {
		if _, err := program.NewTransport("", files, nil, nil); err == nil {
			t.Errorf("%+v is taken", files)
		} else if files.CA != "" && !strings.Contains(err.Error(), "broken.pem") {
			t.Errorf("%+v: %v, want the name of the file", files, err)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeFile(t, path, content)
	return path
}

// TestTransportToAnAddress: it connects to the address, and the certificate has to match the host of the URL.
func TestTransportToAnAddress(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Host)) }))
	defer srv.Close()
	ca := tempFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	transport, err := program.NewTransport(srv.Listener.Addr().String(), options.TLSFiles{CA: ca}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://example.com:9090/") // a name of the certificate
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 100)
	if n, _ := resp.Body.Read(buf); string(buf[:n]) != "example.com:9090" {
		t.Errorf("asked for %q", buf[:n])
	}
	if resp, err := client.Get("https://example.net:9090/"); err == nil {
		resp.Body.Close()
		t.Error("a certificate of another name is taken")
	}
}
