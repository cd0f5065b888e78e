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
	registry := prometheus.NewPedanticRegistry()
	ends := httpserve.NewCertificateEnds(registry, httpserve.ServerSide)
	httpserve.NewCertificateEnds(registry, httpserve.ClientSide)
	httpserve.NewCertificateEnds(nil, httpserve.ClientSide)
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series of no certificate, error %v", n, err)
	}
	var text []byte
	for _, n := range []int{-10, 300, 100} {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: until(t, n)})...)
	}
	ends.Show([]tls.Certificate{
		{Certificate: [][]byte{until(t, 30), until(t, 20), []byte("no certificate")}}, {Certificate: [][]byte{until(t, 40)}},
	}, append(text, "nothing"...))
	err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(
		"# HELP routesrv_certificate_expiry_timestamp_seconds When certificates expire, by side (server or client: the role of the process) and use: certificate (presented; the first) or authority (verifies the other side; the last).\n"+
			"# TYPE routesrv_certificate_expiry_timestamp_seconds gauge\n"+
			"routesrv_certificate_expiry_timestamp_seconds{side=\"server\",use=\"authority\"} %d\n"+
			"routesrv_certificate_expiry_timestamp_seconds{side=\"server\",use=\"certificate\"} %d\n", day(300).Unix(), day(20).Unix())))
	if err != nil {
		t.Error(err)
	}
}
