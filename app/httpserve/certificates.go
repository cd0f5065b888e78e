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
	ends := NewCertificateEnds(reg, ServerSide)
	if !cfg.Enable {
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
	r, err := NewReloaded(slices.Concat(cfg.CertFiles, cfg.KeyFiles, cfg.CAFiles), log, func() (*tls.Config, error) { return cfg.read(ends) })
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         cfg.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil },
	}, nil
}

func (cfg *TLSConfig) read(ends *CertificateEnds) (*tls.Config, error) {
	config := &tls.Config{MinVersion: cfg.MinVersion, NextProtos: []string{"h2", "http/1.1"}}
	for i, cert := range cfg.CertFiles {
		pair, err := durable.ReadKeyPair(cert, cfg.KeyFiles[i])
		if err != nil {
			return nil, fmt.Errorf("read certificate %q and key %q (-tls-cert, -tls-key): %w", cert, cfg.KeyFiles[i], err)
		}
		config.Certificates = append(config.Certificates, pair)
	}
	var authorities []byte
	if cfg.RequireClientCert {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if cfg.AppendSystemCAs {
			system, err := x509.SystemCertPool()
			if err != nil {
				return nil, fmt.Errorf("read the system's authorities (-mtls-authn-append-ca): %w", err)
			}
			config.ClientCAs = system
		}
		for _, name := range cfg.CAFiles {
			pem, err := durable.ReadFile(name, durable.MaxTLSFile)
			if err != nil {
				return nil, fmt.Errorf("read authorities (-mtls-authn-ca): %w", err)
			}
			if !config.ClientCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("read authorities %q (-mtls-authn-ca): the file has no certificate", name)
			}
			authorities = append(append(authorities, pem...), '\n')
		}
	}
	ends.Show(config.Certificates, authorities)
	return config, nil
}

// certificateCheck is how often a use of the value checks the files for changes.
const certificateCheck = time.Second

// Reloaded is a value loaded from files, and reloaded when one of them has changed. If that fails, such as while only one file of
// a pair has been written, the previous value stays in use, and the next use retries. It is safe for concurrent use.
type Reloaded[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	value   T
	stamp   string // see stat
	checked time.Time
	failed  string // the last failure that was logged
}

// NewReloaded loads the value for the first time. Empty names of files are ignored.
func NewReloaded[T any](files []string, log *slog.Logger, load func() (T, error)) (*Reloaded[T], error) {
	r := &Reloaded[T]{files: files, load: load, log: log.With("component", "tls"), checked: time.Now()}
	return r, r.loadLocked()
}

// Current returns the value for the files as they are now.
func (r *Reloaded[T]) Current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < certificateCheck {
		return r.value
	}
	if r.checked = time.Now(); r.stamp == r.stat() {
		return r.value
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
	return r.value
}

func (r *Reloaded[T]) loadLocked() error {
	stamp := r.stat() // before reading, so that a change in between is noticed next time
	value, err := r.load()
	if err == nil {
		r.value, r.stamp = value, stamp
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

// CertificateEnds shows when the certificates of one side expire: an alert fires beforehand.
type CertificateEnds struct{ gauge *prometheus.GaugeVec }

// NewCertificateEnds registers the series of a side; a nil registerer does nothing.
func NewCertificateEnds(reg prometheus.Registerer, side string) *CertificateEnds {
	e := &CertificateEnds{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "routesrv_certificate_expiry_timestamp_seconds",
		Help: "When certificates expire, by side (server or client: the role of the process) and use: certificate (presented; the first) or " +
			"authority (verifies the other side; the last).",
		ConstLabels: prometheus.Labels{"side": side},
	}, []string{"use"})}
	if reg != nil {
		reg.MustRegister(e.gauge)
	}
	return e
}

// Show shows the earliest expiry of the presented pairs and their chains, and the latest one of the authorities, PEM, because during
// a replacement a file also has old authorities.
func (e *CertificateEnds) Show(pairs []tls.Certificate, authorities []byte) {
	var first, last time.Time
	for _, pair := range pairs {
		for _, der := range pair.Certificate {
			if c, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
				first = c.NotAfter
			}
		}
	}
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	for use, end := range map[string]time.Time{"certificate": first, "authority": last} {
		if !end.IsZero() {
			e.gauge.WithLabelValues(use).Set(float64(end.Unix()))
		}
	}
}
