package httpserve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/app/httpserve"
)

// day returns a time n days after a fixed one.
func day(n int) time.Time { return time.Unix(1_800_000_000, 0).AddDate(0, 0, n) }

// until makes a certificate that expires on a day.
func until(t *testing.T, n int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: day(-100), NotAfter: day(n)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestFirstCertificateAndLastAuthorityCount(t *testing.T) {
	ends := make(httpserve.CertificateEnds)
	ends.Pair(tls.Certificate{Certificate: [][]byte{until(t, 30), until(t, 20), []byte("no certificate")}})
	ends.Pair(tls.Certificate{Certificate: [][]byte{until(t, 40)}})
	var text []byte
	for _, n := range []int{-10, 300, 100} {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: until(t, n)})...)
	}
	ends.Authorities(text)
	ends.Authorities([]byte("nothing"))
	if len(ends) != 2 || !ends[httpserve.UsePresented].Equal(day(20)) || !ends[httpserve.UseAuthority].Equal(day(300)) {
		t.Errorf("got %v, want a certificate until %v and an authority until %v", ends, day(20), day(300))
	}
}

func TestSeriesFollowsWhatIsInUse(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	ends := httpserve.CertificateEnds{}
	httpserve.RegisterCertificateEnds(registry, httpserve.ServerSide, func() httpserve.CertificateEnds { return ends })
	httpserve.RegisterCertificateEnds(registry, httpserve.ClientSide, nil)
	httpserve.RegisterCertificateEnds(nil, httpserve.ClientSide, nil)
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series of no certificate, error %v", n, err)
	}
	ends[httpserve.UsePresented] = day(1)
	want := fmt.Sprintf(`routesrv_certificate_expiry_timestamp_seconds{side="server",use="certificate"} %g`, float64(day(1).Unix()))
	err := testutil.GatherAndCompare(registry, strings.NewReader(
		"# HELP routesrv_certificate_expiry_timestamp_seconds When certificates expire, by side (server or client: the role of the process) and use: certificate (presented; the first) or authority (verifies the other side; the last).\n"+
			"# TYPE routesrv_certificate_expiry_timestamp_seconds gauge\n"+want+"\n"))
	if err != nil {
		t.Error(err)
	}
}
