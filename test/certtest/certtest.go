// Package certtest issues certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Make one with [New]. Its methods fail the test if something goes wrong, and are for its goroutine.
type Authority struct {
	Cert *x509.Certificate // of the authority itself

	t   *testing.T
	key *ecdsa.PrivateKey
}

// New returns a new authority, which signed itself.
func New(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{t: t}
	pair := a.Pair("authority", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	a.Cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// Loopback is a change for certificates that are good for 127.0.0.1, too.
func Loopback(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }

// Pair issues a certificate, for an hour from now, for servers and clients of the name, which is also its only DNS name. The changes are
// made before it is signed. Leaf is set.
func (a *Authority) Pair(name string, changes ...func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, change := range changes {
		change(template)
	}
	parent, signer := a.Cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
}

// Files issues a certificate as Pair does and writes it to NAME.crt and NAME.key in the folder. Existing files are replaced one by one and
// atomically, as the kubelet does.
func (a *Authority) Files(dir, name string, changes ...func(*x509.Certificate)) (certFile, keyFile string) {
	a.t.Helper()
	pair := a.Pair(name, changes...)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(dir, name+".crt", "CERTIFICATE", pair.Leaf.Raw), a.write(dir, name+".key", "PRIVATE KEY", der)
}

// File writes the certificate of the authority to ca.crt in the folder.
func (a *Authority) File(dir string) string {
	a.t.Helper()
	return a.write(dir, "ca.crt", "CERTIFICATE", a.Cert.Raw)
}

func (a *Authority) write(dir, name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// Pool returns a pool with the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}
