package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for a test, and writes each certificate and its key to files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key, a.file, _ = a.issue(t, "ca")
	return a
}

// issue issues a certificate for the loopback address and a name. The first certificate is self-signed.
func (a *authority) issue(t *testing.T, name string) (cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, certFile, keyFile
}

// TestCommandsShowClientCertificates: diff, match and explain reach servers that require a client certificate, as with
// components/mtls. Without one they report what is missing.
func TestCommandsShowClientCertificates(t *testing.T) {
	a := newAuthority(t)
	_, _, serverCert, serverKey := a.issue(t, "routesrv")
	_, _, clientCert, clientKey := a.issue(t, "client")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/explain" {
			fmt.Fprint(w, `{"schema":"routesrv.explain/v1","result":"fine","cause":"All is well."}`)
			return
		}
		fmt.Fprint(w, tableA)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs failed handshakes
	s.StartTLS()
	defer s.Close()
	file := tempFile(t, "a.eskip", tableA)
	all := []string{"--cacert", a.file, "--cert", clientCert, "--key", clientKey}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{append([]string{"diff", s.URL + "/routes", file}, all...), 0, "same: "},
		{append([]string{"match", "https://nowhere.example.org/", s.URL + "/routes"}, all...), -1, "table"},
		{append([]string{"explain", "shop.example.org", s.URL}, all...), 0, "All is well."},
		{[]string{"diff", s.URL + "/routes", file}, 2, "certificate"},
		{[]string{"diff", s.URL + "/routes", file, "--cacert", a.file}, 2, "certificate required"},
		{[]string{"diff", s.URL + "/routes", file, "--cert", clientCert}, 2, "--cert and --key: want both"},
		{[]string{"explain", "shop.example.org", s.URL, "--cacert", a.file}, 2, "certificate required"},
		{append([]string{"diff", s.URL + "/routes", file, "--server-name", "other"}, all...), 2, "not other"},
	} {
		r := runWith(t, "", c.args...)
		if c.status >= 0 && r.status != c.status || c.status < 0 && r.status == 2 || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s%s", c.args, r.status, c.status, c.want, r.out, r.err)
		}
	}
}

// TestCommandsUnderstandTheServer: the commands that query a server can read what a route server answers.
func TestCommandsUnderstandTheServer(t *testing.T) {
	server := start(t, "", "--manifests="+shop)
	server.ready()
	p := server.support
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"status", p}, 0, "   healthy   "},
		{[]string{"status", "-o", "wide", p}, 0, "VERSION"},
		{[]string{"problems", p}, 0, "no problems"},
		{[]string{"held", p}, 0, "nothing is held"},
		{[]string{"accept", p, strings.Repeat("0", 64), "--by=a", "--why=b", "--yes"}, 1, "nothing is held"},
		{[]string{"clients", p}, -1, ""},
	} {
		r := runWith(t, "", c.args...)
		if c.status >= 0 && r.status != c.status || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s%s", c.args, r.status, c.status, c.want, r.out, r.err)
		}
	}
	if r := runWith(t, "", "completion", "bash"); r.status != 0 || !strings.Contains(r.out, "complete -F _routesrv routesrv") {
		t.Errorf("completion: %+v", r)
	}
	if r := runWith(t, "", "__complete", "diff", "--cace"); r.out != "--cacert\n:4\n" {
		t.Errorf("completion of the flags of diff: %q", r.out)
	}
}
