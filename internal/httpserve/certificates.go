package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

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

// certificateCheck is how often a handshake checks the files for changes.
const certificateCheck = time.Second

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
	r := &certificates{cfg: cfg, log: log.With("component", "tls")}
	if err := r.read(); err != nil {
		return nil, err
	}
	RegisterCertificateEnds(reg, ServerSide, r.expiry)
	return &tls.Config{
		MinVersion:         cfg.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	}, nil
}

// certificates holds the files of a TLS listener and what was last read from them.
type certificates struct {
	cfg TLSConfig
	log *slog.Logger

	mu      sync.Mutex
	config  *tls.Config          // guarded by mu
	ends    CertificateEnds      // guarded by mu; of the certificates in use
	state   map[string]fileState // guarded by mu
	checked time.Time            // guarded by mu
	failed  string               // guarded by mu; the last failure that was logged
}

// fileState detects that a file was replaced or written.
type fileState struct {
	modified time.Time
	size     int64
}

// current returns the configuration for a handshake. It reloads the files if one has changed.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshLocked()
	return c.config
}

// expiry returns the expiry times of the certificates that a handshake would use now.
func (c *certificates) expiry() CertificateEnds {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshLocked()
	return maps.Clone(c.ends)
}

func (c *certificates) refreshLocked() {
	if time.Since(c.checked) >= certificateCheck {
		c.checked = time.Now()
		if c.changed() {
			c.reloadLocked()
		}
	}
}

func (c *certificates) files() []string {
	all := append(append([]string{}, c.cfg.CertFiles...), c.cfg.KeyFiles...)
	return append(all, c.cfg.CAFiles...)
}

func (c *certificates) changed() bool {
	for _, name := range c.files() {
		if stateOf(name) != c.state[name] {
			return true
		}
	}
	return false
}

func stateOf(name string) fileState {
	info, err := os.Stat(name)
	if err != nil {
		return fileState{}
	}
	return fileState{info.ModTime(), info.Size()}
}

func (c *certificates) reloadLocked() {
	err := c.readLocked()
	switch {
	case err == nil:
		c.failed = ""
		c.log.Info("certificates reloaded")
	case err.Error() != c.failed:
		// Possibly only one file of a pair has been written: later handshakes retry.
		c.failed = err.Error()
		c.log.Error("certificates changed and cannot be read, keeping the previous ones", "error", err)
	}
}

func (c *certificates) read() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked = time.Now()
	return c.readLocked()
}

func (c *certificates) readLocked() error {
	state := make(map[string]fileState)
	for _, name := range c.files() {
		state[name] = stateOf(name) // before reading, so that a change in between is noticed next time
	}
	ends := make(CertificateEnds)
	config := &tls.Config{MinVersion: c.cfg.MinVersion, NextProtos: []string{"h2", "http/1.1"}}
	for i, cert := range c.cfg.CertFiles {
		pair, err := durable.ReadKeyPair(cert, c.cfg.KeyFiles[i])
		if err != nil {
			return fmt.Errorf("read certificate %q and key %q (%s, %s): %w", cert, c.cfg.KeyFiles[i], c.cfg.Flags.Cert, c.cfg.Flags.Key, cause(err))
		}
		config.Certificates = append(config.Certificates, pair)
		ends.Pair(pair)
	}
	if c.cfg.RequireClientCert {
		pool, err := c.authorities(ends)
		if err != nil {
			return err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
		if c.cfg.HandlersDecide {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	c.config, c.state, c.ends = config, state, ends
	return nil
}

func (c *certificates) authorities(ends CertificateEnds) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if c.cfg.AppendSystemCAs {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's authorities (%s): %w", c.cfg.Flags.SystemCAs, err)
		}
		pool = system
	}
	for _, name := range c.cfg.CAFiles {
		pem, err := durable.ReadFile(name, durable.MaxTLSFile)
		if err != nil {
			return nil, fmt.Errorf("read authorities (%s): %w", c.cfg.Flags.CA, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities %q (%s): the file has no certificate", name, c.cfg.Flags.CA)
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
