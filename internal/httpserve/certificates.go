package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/durable"
)

// TLSConfig configures TLS for a listener. The zero value is plain HTTP.
type TLSConfig struct {
	// Enable serves TLS with the certificates from the files, in pairs.
	Enable              bool
	CertFiles, KeyFiles []string
	// MinVersion is a version constant of crypto/tls; 0 means TLS 1.2.
	MinVersion uint16
	// RequireClientCert requires a client certificate from one of the authorities in CAFiles. AppendSystemCAs adds the system's
	// authorities.
	RequireClientCert bool
	CAFiles           []string
	AppendSystemCAs   bool
	// HandlersDecide lets clients without a certificate finish the handshake. An [Admission] rejects them where it matters, so that
	// probes, which have no certificate, get an answer. The handshake still fails for a certificate that does not verify. It needs
	// RequireClientCert.
	HandlersDecide bool
	// Flags are the flag names for messages.
	Flags TLSFlags
}

// TLSFlags are the names of the flags that set a [TLSConfig], with dashes. The zero value means the flags of the main listener.
// SystemCAs may be empty if no flag adds the system's authorities.
type TLSFlags struct{ Cert, Key, CA, SystemCAs string }

func (f *TLSFlags) fill() {
	if *f == (TLSFlags{}) {
		*f = TLSFlags{Cert: "-tls-cert", Key: "-tls-key", CA: "-mtls-authn-ca", SystemCAs: "-mtls-authn-append-ca"}
	}
}

// NewTLS reads the certificates and returns nil for plain HTTP. It reloads the files when they change; if the new content cannot
// be read, the previous certificates stay in use. It registers the series of expiry times with reg, unless reg is nil.
func NewTLS(cfg TLSConfig, log *slog.Logger, reg prometheus.Registerer) (*tls.Config, error) {
	if !cfg.Enable {
		RegisterCertificateEnds(reg, ServerSide, nil)
		return nil, nil
	}
	cfg.Flags.fill()
	switch {
	case len(cfg.CertFiles) == 0:
		return nil, fmt.Errorf("TLS needs certificates: set %s and %s", cfg.Flags.Cert, cfg.Flags.Key)
	case len(cfg.CertFiles) != len(cfg.KeyFiles):
		return nil, fmt.Errorf("%s names %d files and %s %d: want pairs", cfg.Flags.Cert, len(cfg.CertFiles), cfg.Flags.Key, len(cfg.KeyFiles))
	case cfg.RequireClientCert && len(cfg.CAFiles) == 0 && !cfg.AppendSystemCAs:
		return nil, fmt.Errorf("client certificates cannot be verified: set %s or %s", cfg.Flags.CA, cfg.Flags.SystemCAs)
	}
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS12
	}
	files := slices.Concat(cfg.CertFiles, cfg.KeyFiles, cfg.CAFiles)
	r, err := NewReloaded(files, log, cfg.read)
	if err != nil {
		return nil, err
	}
	RegisterCertificateEnds(reg, ServerSide, r.Ends)
	return &tls.Config{
		MinVersion:         cfg.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil },
	}, nil
}

// read reads the files.
func (cfg *TLSConfig) read(ends CertificateEnds) (*tls.Config, error) {
	config := &tls.Config{MinVersion: cfg.MinVersion, NextProtos: []string{"h2", "http/1.1"}}
	for i, cert := range cfg.CertFiles {
		pair, err := durable.ReadKeyPair(cert, cfg.KeyFiles[i])
		if err != nil {
			return nil, fmt.Errorf("read certificate %q and key %q (%s, %s): %w", cert, cfg.KeyFiles[i], cfg.Flags.Cert, cfg.Flags.Key, cause(err))
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
		if cfg.HandlersDecide {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return config, nil
}

func (cfg *TLSConfig) authorities(ends CertificateEnds) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if cfg.AppendSystemCAs {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's authorities (%s): %w", cfg.Flags.SystemCAs, err)
		}
		pool = system
	}
	for _, name := range cfg.CAFiles {
		pem, err := durable.ReadFile(name, durable.MaxTLSFile)
		if err != nil {
			return nil, fmt.Errorf("read authorities (%s): %w", cfg.Flags.CA, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities %q (%s): the file has no certificate", name, cfg.Flags.CA)
		}
		ends.Authorities(pem)
	}
	return pool, nil
}

// cause reduces an error to what the operator needs: the path error names the missing file.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path
	}
	return err
}
