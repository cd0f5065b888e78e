package deploy

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
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// certificateSpec has the parts of a Certificate of cert-manager that the test reads.
type certificateSpec struct {
	SecretName string   `json:"secretName"`
	CommonName string   `json:"commonName"`
	DNSNames   []string `json:"dnsNames"`
	Usages     []string `json:"usages"`
	IsCA       bool     `json:"isCA"`
	IssuerRef  struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
		Name  string `json:"name"`
	} `json:"issuerRef"`
}

func certificate(t *testing.T, render, name string) certificateSpec {
	t.Helper()
	text, err := yaml.Marshal(find(t, render, "Certificate", name).fields["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var c certificateSpec
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// issuer is an authority that makes the Secrets that cert-manager would make.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "routesrv-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	key, der := sign(t, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

// sign makes a key and a certificate for it; without an authority the certificate is self-signed.
func sign(t *testing.T, template *x509.Certificate, by *issuer) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// secret makes the Secret that the Certificate requests. The addresses are added because nothing resolves the names of Services
// here.
func (i *issuer) secret(t *testing.T, c certificateSpec, addresses ...net.IP) map[string][]byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: c.CommonName},
		DNSNames: c.DNSNames, IPAddresses: addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, u := range c.Usages {
		switch u {
		case "digital signature":
			template.KeyUsage |= x509.KeyUsageDigitalSignature
		case "server auth":
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		case "client auth":
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		default:
			t.Fatalf("usage %q is not known to this test", u)
		}
	}
	key, der := sign(t, template, i)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw}),
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// TestMutualTLSWorksWithWhatTheComponentAsksFor: with the Secrets of its Certificates the data plane gets the table of the route
// server, a client without a certificate gets nothing, and the kubelet, which has no certificate, gets answers.
func TestMutualTLSWorksWithWhatTheComponentAsksFor(t *testing.T) {
	const render = "all-components"
	serving, showing := certificate(t, render, "routesrv"), certificate(t, render, "routesrv-dataplane")
	by := newIssuer(t)
	secrets := map[string]map[string][]byte{
		serving.SecretName: by.secret(t, serving, net.IPv4(127, 0, 0, 1)),
		showing.SecretName: by.secret(t, showing),
	}
	d, c := routeServer(t, render)
	p := prepare(t, render, d, c, secrets).reading(t, shop(t))
	listens := p.listens(t)
	s := p.serve(t)
	s.ready(t)
	for kind, probe := range probes(c) {
		if listener := listenerOf(t, c, listens, probe); listener != supportListener {
			t.Errorf("the %s probe asks the %s listener, which wants a certificate", kind, listener)
		} else if status, _ := s.get(t, listener, probe.HTTPGet.Path); !passes(status) {
			t.Errorf("the %s probe gets %d", kind, status)
		}
	}

	trusted := x509.NewCertPool()
	trusted.AddCert(by.cert)
	stranger := s.withTLS(&tls.Config{RootCAs: trusted})
	if status, _, err := stranger.ask(t.Context(), mainListener, "/routes"); err == nil {
		t.Errorf("somebody without a certificate gets %d", status)
	}
	if status, _, err := s.ask(t.Context(), mainListener, "/routes"); err == nil && status == http.StatusOK {
		t.Error("somebody without TLS gets the table")
	}

	d, c = sidecarOf(t, render)
	if host := serverURL(t, d).Hostname(); !slices.Contains(serving.DNSNames, host) {
		t.Errorf("data planes ask %s, the certificate is for %q", host, serving.DNSNames)
	}
	beside := prepare(t, render, d, c, secrets).reading(t, nowhere).asking(t, d, s.addresses[mainListener]).serve(t)
	beside.ready(t)
	pair, err := tls.X509KeyPair(secrets[showing.SecretName]["tls.crt"], secrets[showing.SecretName]["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	known := s.withTLS(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}})
	_, want := known.get(t, mainListener, "/routes/"+zone)
	if status, got := beside.get(t, mainListener, "/routes"); status != http.StatusOK || got != want {
		t.Errorf("the proxy gets %d\n%s\nwant that of its zone\n%s", status, got, want)
	}
}

// TestSecretsAreWhereTheIssuerPutsThem: every Certificate names an existing issuer, and every mounted Secret is made by a
// Certificate in its namespace.
func TestSecretsAreWhereTheIssuerPutsThem(t *testing.T) {
	const render = "component-mtls"
	made := make(map[string]bool)
	for _, o := range rendered[render] {
		if o.kind != "Certificate" {
			continue
		}
		c := certificate(t, render, o.name)
		find(t, render, c.IssuerRef.Kind, c.IssuerRef.Name)
		made[o.namespace+"/"+c.SecretName] = true
	}
	server, _ := routeServer(t, render)
	mounted := 0
	for _, d := range []*appsv1.Deployment{server, dataPlane(t, render)} {
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Secret == nil {
				continue
			}
			mounted++
			if !made[d.Namespace+"/"+v.Secret.SecretName] {
				t.Errorf("the Secret %s/%s is mounted, and made by no Certificate: %v", d.Namespace, v.Secret.SecretName, made)
			}
		}
	}
	if mounted != 2 {
		t.Errorf("%d Secrets are mounted, want one on each side", mounted)
	}
}
