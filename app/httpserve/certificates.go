package httpserve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/durable"
)

// TLSConfig configures TLS for a listener. The zero value is plain HTTP.
type TLSConfig struct {
	// Enable serves TLS with the certificates from the files, in pairs. At least one pair is required.
	Enable              bool
	CertFiles, KeyFiles []string
	// MinVersion is a version constant of crypto/tls; 0 means TLS 1.2.
	MinVersion uint16
	// RequireClientCert requires a client certificate of an authority in CAFiles or, with AppendSystemCAs, of the system.
	RequireClientCert bool
	CAFiles           []string
	AppendSystemCAs   bool
}

// NewTLS reads the certificates and returns nil for plain HTTP. It reloads the files when they change; if the new content cannot
// be read, the previous certificates stay in use. It registers the series of expiry times with reg, unless reg is nil.
func NewTLS(cfg TLSConfig, log *slog.Logger, reg prometheus.Registerer) (*tls.Config, error) {
	if !cfg.Enable {
		RegisterCertificateEnds(reg, ServerSide, nil)
		return nil, nil
	}
	cfg.MinVersion = cmp.Or(cfg.MinVersion, tls.VersionTLS12)
	switch {
	case len(cfg.CertFiles) == 0:
		return nil, errors.New("TLS needs certificates: set -tls-cert and -tls-key")
	case len(cfg.CertFiles) != len(cfg.KeyFiles):
		return nil, fmt.Errorf("-tls-cert names %d files and -tls-key %d: must be pairs", len(cfg.CertFiles), len(cfg.KeyFiles))
	case cfg.RequireClientCert && len(cfg.CAFiles) == 0 && !cfg.AppendSystemCAs:
		return nil, errors.New("client certificates cannot be verified: set -mtls-authn-ca or -mtls-authn-append-ca")
	}
	r, err := NewReloaded(slices.Concat(cfg.CertFiles, cfg.KeyFiles, cfg.CAFiles), log, cfg.read)
	if err != nil {
		return nil, err
	}
	RegisterCertificateEnds(reg, ServerSide, r.Ends)
	return &tls.Config{
		MinVersion:         cfg.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil },
	}, nil
}

func (cfg *TLSConfig) read(ends CertificateEnds) (*tls.Config, error) {
	config := &tls.Config{MinVersion: cfg.MinVersion, NextProtos: []string{"h2", "http/1.1"}}
	for i, cert := range cfg.CertFiles {
		pair, err := durable.ReadKeyPair(cert, cfg.KeyFiles[i])
		if err != nil {
			return nil, fmt.Errorf("read certificate %q and key %q (-tls-cert, -tls-key): %w", cert, cfg.KeyFiles[i], err)
		}
		config.Certificates = append(config.Certificates, pair)
		ends.Pair(pair)
	}
	if cfg.RequireClientCert {
		pool, err := cfg.authorities(ends)
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

func (cfg *TLSConfig) authorities(ends CertificateEnds) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if cfg.AppendSystemCAs {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's authorities (-mtls-authn-append-ca): %w", err)
		}
		pool = system
	}
	for _, name := range cfg.CAFiles {
		pem, err := durable.ReadFile(name, durable.MaxTLSFile)
		if err != nil {
			return nil, fmt.Errorf("read authorities (-mtls-authn-ca): %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities %q (-mtls-authn-ca): the file has no certificate", name)
		}
		ends.Authorities(pem)
	}
	return pool, nil
}

// certificateCheck is how often a use of the value checks the files for changes.
const certificateCheck = time.Second

// Reloaded is a value loaded from the files of certificates and keys, and reloaded when one of them has changed. If reloading
// fails, such as while only one file of a pair has been written, the previous value stays in use, and the next use retries. It is
// safe for concurrent use.
type Reloaded[T any] struct {
	files []string
	load  func(CertificateEnds) (T, error)
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	value   T
	ends    CertificateEnds // of the certificates in use
	stamp   string          // see stat
	checked time.Time
	failed  string // the last failure that was logged
}

// NewReloaded loads the value for the first time. load adds the expiry times of the certificates. Empty names are ignored.
func NewReloaded[T any](files []string, log *slog.Logger, load func(CertificateEnds) (T, error)) (*Reloaded[T], error) {
	r := &Reloaded[T]{files: files, load: load, log: log.With("component", "tls"), checked: time.Now()}
	return r, r.loadLocked()
}

// Current returns the value for the files as they are now.
func (r *Reloaded[T]) Current() T {
	value, _ := r.current()
	return value
}

// Ends returns the expiry times of the certificates in use.
func (r *Reloaded[T]) Ends() CertificateEnds {
	_, ends := r.current()
	return ends
}

func (r *Reloaded[T]) current() (T, CertificateEnds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < certificateCheck {
		return r.value, r.ends
	}
	if r.checked = time.Now(); r.stamp == r.stat() {
		return r.value, r.ends
	}
	err := r.loadLocked()
	switch {
	case err == nil:
		r.failed = ""
		r.log.Info("certificates reloaded")
	case err.Error() != r.failed:
		r.failed = err.Error()
		r.log.Error("certificates changed and cannot be read, keeping the previous ones", "error", err)
	}
	return r.value, r.ends
}

func (r *Reloaded[T]) loadLocked() error {
	stamp := r.stat() // before reading, so that a change in between is noticed next time
	ends := make(CertificateEnds)
	value, err := r.load(ends)
	if err == nil {
		r.value, r.stamp, r.ends = value, stamp, ends
	}
	return err
}

// stat returns a text that differs once a file was replaced or written.
func (r *Reloaded[T]) stat() (stamp string) {
	for _, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			stamp += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return stamp
}

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

// CertificateEnds are the times at which certificates expire, by use. A use without certificates is not in it.
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

// RegisterCertificateEnds exports the result of ends, which may be nil, at each scrape. Register each side once.
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
