package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// tlsCheckInterval is how often requests check the files for changes.
const tlsCheckInterval = time.Second

// TLSFiles configure which route servers to trust, and the certificate of this client. The zero value trusts the system's
// authorities and presents no certificate.
type TLSFiles struct {
	CA        string // authorities, PEM, instead of the system's
	Cert, Key string // of the client; set both or neither
}

// NewTransport returns the transport for a dataplane.Client. It reads the files now, which can fail, and reloads them when they
// change. If the new content cannot be read, the previous content stays in use. It ignores environment variables for proxies.
//
// It registers the series of expiry times with reg, unless reg is nil.
func NewTransport(files TLSFiles, log *slog.Logger, reg prometheus.Registerer) (http.RoundTripper, error) {
	t, err := newTransport("", files, log)
	if err != nil {
		return nil, err
	}
	httpserve.RegisterCertificateEnds(reg, httpserve.ClientSide, t.expiry)
	return t, nil
}

// NewTransportTo is [NewTransport] for one of several addresses of a name: it connects to address, HOST:PORT, and verifies the
// certificate for the host in the URL of each request. An empty address means the address in the URL.
func NewTransportTo(address string, files TLSFiles, log *slog.Logger) (http.RoundTripper, error) {
	t, err := newTransport(address, files, log)
	if err != nil {
		return nil, err // not a nil *transport
	}
	return t, nil
}

func newTransport(address string, files TLSFiles, log *slog.Logger) (*transport, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("client certificate: want both the certificate and its key")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &transport{address: address, files: files, log: log.With("component", "tls")}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// transport replaces its inner transport when the files have changed.
type transport struct {
	address string // to connect to; empty means the address of the request
	files   TLSFiles
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below
	current *http.Transport
	states  [3]fileState
	ends    httpserve.CertificateEnds // of the certificates in use
	checked time.Time
	failed  string // the failure logged last
}

// fileState detects that a file was replaced or written.
type fileState struct {
	modified time.Time
	size     int64
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.fresh().RoundTrip(r) }

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() { t.fresh().CloseIdleConnections() }

// fresh returns the transport for the current files.
func (t *transport) fresh() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.freshLocked()
}

// expiry returns the expiry times of the certificates that the next connection would use.
func (t *transport) expiry() httpserve.CertificateEnds {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freshLocked()
	return maps.Clone(t.ends)
}

func (t *transport) freshLocked() *http.Transport {
	if time.Since(t.checked) < tlsCheckInterval {
		return t.current
	}
	if t.checked = time.Now(); t.states == t.look() {
		return t.current
	}
	before := t.current
	if err := t.load(); err != nil {
		// Possibly only one file of a pair has been written: the next request retries.
		if t.failed != err.Error() {
			t.failed = err.Error()
			t.log.Error("certificates changed and cannot be read, keeping the previous ones", "error", err)
		}
		return t.current
	}
	t.failed = ""
	t.log.Info("certificates reloaded")
	before.CloseIdleConnections() // new connections use the new certificate
	return t.current
}

// look returns the state of the files.
func (t *transport) look() (states [3]fileState) {
	for i, name := range [...]string{t.files.CA, t.files.Cert, t.files.Key} {
		if info, err := os.Stat(name); name != "" && err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

// load builds a transport from the files.
func (t *transport) load() error {
	ends := make(httpserve.CertificateEnds)
	states := t.look() // before reading, so that a change in between is noticed next time
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.files.CA != "" {
		pem, err := durable.ReadFile(t.files.CA, durable.MaxTLSFile)
		if err != nil {
			return fmt.Errorf("read authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read authorities %q: the file has no certificate", t.files.CA)
		}
		ends.Authorities(pem)
	}
	if t.files.Cert != "" {
		pair, err := durable.ReadKeyPair(t.files.Cert, t.files.Key)
		if err != nil {
			return fmt.Errorf("read client certificate %q and key %q: %w", t.files.Cert, t.files.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
		ends.Pair(pair)
	}
	t.states, t.ends = states, ends
	t.current = dataplane.NewTransport()
	t.current.TLSClientConfig = config
	if t.address != "" {
		dial := t.current.DialContext
		t.current.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dial(ctx, network, t.address)
		}
	}
	return nil
}
