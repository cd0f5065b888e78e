// Package expiry shows when certificates end, as a series that an alert can look at before they do.
package expiry

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sides of a connection: which one the process is when it uses the certificate.
const (
	Server = "server"
	Client = "client"
)

// Uses of a certificate: it is shown to the other side, or the other side is judged by it.
const (
	Certificate = "certificate"
	Authority   = "authority"
)

// Ends are the times after which certificates are not valid any more, by use. A use without certificates is not in it.
type Ends map[string]time.Time

// Pair notes a certificate that is shown: the first one of its chain to end counts, and the first one of several pairs.
func (e Ends) Pair(pair tls.Certificate) {
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			continue // it was parsed to make the pair, but for what follows the leaf
		}
		if was, ok := e[Certificate]; !ok || c.NotAfter.Before(was) {
			e[Certificate] = c.NotAfter
		}
	}
}

// Authorities notes authorities, PEM: the last one to end counts, because a file has old ones as well while they are replaced.
func (e Ends) Authorities(text []byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(e[Authority]) {
			e[Authority] = c.NotAfter
		}
	}
}

// Register shows what ends gives when somebody asks for metrics; a nil ends shows that there are no certificates. Each side can be
// registered once. A nil registerer does nothing. ends is called concurrently.
func Register(reg prometheus.Registerer, side string, ends func() Ends) {
	if reg == nil {
		return
	}
	reg.MustRegister(&collector{ends, prometheus.NewDesc("routesrv_certificate_expiry_timestamp_seconds",
		"When certificates in use end, by side (server or client: what the process is) and use: certificate (it is shown; the first to end) or authority (the other side is judged by it; the last to end).",
		[]string{"use"}, prometheus.Labels{"side": side})})
}

type collector struct {
	ends func() Ends
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
