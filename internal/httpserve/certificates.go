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
	"github.com/routesrv/routesrv/internal/expiry"
)

// TLSConfig is the TLS of a listener. The zero value is plain HTTP.
type TLSConfig struct {
	// Enable serves TLS with the certificates of the files, in pairs.
	Enable              bool
	CertFiles, KeyFiles []string
	// MinVersion is a version of crypto/tls; 0 means TLS 1.2.
	MinVersion uint16
	// RequireClientCert wants clients to show a certificate of one of the authorities of CAFiles, to which AppendSystemCAs
	// adds those of the system.
	RequireClientCert bool
	CAFiles           []string
	AppendSystemCAs   bool
	// HandlersDecide lets clients without a certificate finish the handshake: an [Admission] refuses them where it matters, so that
	// probes, which have none, get an answer. A certificate that does not verify still fails. It needs RequireClientCert.
	HandlersDecide bool
	// Flags are the names of the flags in messages.
	Flags TLSFlags
}

// TLSFlags are the names of the flags that a [TLSConfig] comes from, with dashes. The zero value has those of the main listener. SystemCAs may
// be empty where no flag adds the authorities of the system.
type TLSFlags struct{ Cert, Key, CA, SystemCAs string }

func (f *TLSFlags) fill() {
	if *f == (TLSFlags{}) {
		*f = TLSFlags{Cert: "-tls-cert", Key: "-tls-key", CA: "-mtls-authn-ca", SystemCAs: "-mtls-authn-append-ca"}
	}
}

// certificateCheck is how often handshakes look whether the files have changed.
const certificateCheck = time.Second

// NewTLS reads the certificates; nil means plain HTTP. Later changes of the files are taken up by themselves, and a
// change that cannot be read leaves the certificates as they were. The registry gets the series of when they end; nil gets none.
func NewTLS(cfg TLSConfig, log *slog.Logger, reg prometheus.Registerer) (*tls.Config, error) {
	if !cfg.Enable {
		expiry.Register(reg, expiry.Server, nil)
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
	expiry.Register(reg, expiry.Server, r.expiry)
	return &tls.Config{
		MinVersion:         cfg.MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	}, nil
}

// certificates are the files of a TLS listener and what was last read of them.
type certificates struct {
	cfg TLSConfig
	log *slog.Logger

	mu      sync.Mutex
	config  *tls.Config          // guarded by mu
	ends    expiry.Ends          // guarded by mu; of what is in use
	state   map[string]fileState // guarded by mu
	checked time.Time            // guarded by mu
	failed  string               // guarded by mu; the last failure that was logged
}

// fileState tells whether a file was replaced or written.
type fileState struct {
	modified time.Time
	size     int64
}

// current gives the configuration for a handshake, read anew if a file has changed.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshLocked()
	return c.config
}

// expiry gives when the certificates end that a handshake would use now.
func (c *certificates) expiry() expiry.Ends {
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
		c.log.Info("certificates read anew")
	case err.Error() != c.failed:
		// Half of a pair may have been written: it is tried again at the next handshakes.
		c.failed = err.Error()
		c.log.Error("certificates changed and cannot be read, keeping those from before", "error", err)
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
		state[name] = stateOf(name) // before reading: a change in between is then seen the next time
	}
	ends := make(expiry.Ends)
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

func (c *certificates) authorities(ends expiry.Ends) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if c.cfg.AppendSystemCAs {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the system (%s): %w", c.cfg.Flags.SystemCAs, err)
		}
		pool = system
	}
	for _, name := range c.cfg.CAFiles {
		pem, err := durable.ReadFile(name, durable.MaxTLSFile)
		if err != nil {
			return nil, fmt.Errorf("read authorities (%s): %w", c.cfg.Flags.CA, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities %q (%s): no certificate in it", name, c.cfg.Flags.CA)
		}
		ends.Authorities(pem)
	}
	return pool, nil
}

// cause keeps what the operator needs: which file is missing is in the path error.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path
	}
	return err
}
