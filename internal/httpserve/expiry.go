package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sides of a connection: the role of this process when it uses the certificate.
const (
	ServerSide = "server"
	ClientSide = "client"
)

// Uses of a certificate: the process presents it, or verifies the other side with it.
const (
	UsePresented = "certificate"
	UseAuthority = "authority"
)

// CertificateEnds are the times at which certificates expire, by use: an alert fires beforehand. A use without certificates is not in it.
type CertificateEnds map[string]time.Time

// Pair adds a presented certificate: the earliest expiry counts, within its chain and among several pairs.
func (e CertificateEnds) Pair(pair tls.Certificate) {
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			continue // the pair was parsed when it was loaded, except the rest of the chain
		}
		if was, ok := e[UsePresented]; !ok || c.NotAfter.Before(was) {
			e[UsePresented] = c.NotAfter
		}
	}
}

// Authorities adds authorities in PEM: the latest expiry counts, because during a replacement a file also has old authorities.
func (e CertificateEnds) Authorities(text []byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(e[UseAuthority]) {
			e[UseAuthority] = c.NotAfter
		}
	}
}

// RegisterCertificateEnds exports the result of ends at each scrape; a nil ends means no certificates. Register each side once. A nil registerer
// does nothing. ends is called concurrently.
func RegisterCertificateEnds(reg prometheus.Registerer, side string, ends func() CertificateEnds) {
	if reg == nil {
		return
	}
	reg.MustRegister(&collector{ends, prometheus.NewDesc("routesrv_certificate_expiry_timestamp_seconds",
		"When certificates expire, by side (server or client: the role of the process) and use: certificate (presented; the first) or authority (verifies the other side; the last).",
		[]string{"use"}, prometheus.Labels{"side": side})})
}

type collector struct {
	ends func() CertificateEnds
	desc *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	if c.ends == nil {
		return
	}
	for use, end := range c.ends() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(end.Unix()), use)
	}
}
