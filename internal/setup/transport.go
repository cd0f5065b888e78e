package setup

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
	"github.com/routesrv/routesrv/internal/expiry"
)

// tlsCheckInterval is how often requests look whether the files have changed.
const tlsCheckInterval = time.Second

// TLSFiles say how route servers are trusted, and how this client shows who it is. The zero value trusts the
// authorities of the system and shows nothing.
type TLSFiles struct {
	CA        string // authorities, PEM, instead of those of the system
	Cert, Key string // of the client; both or none
}

// NewTransport makes the transport of a dataplane.Client. The files are read now, which can fail, and again when they
// change; a change that cannot be read leaves things as they were. Environment variables for proxies are not looked at.
//
// The registry gets the series of when the certificates of the files end; nil gets none.
func NewTransport(files TLSFiles, log *slog.Logger, reg prometheus.Registerer) (http.RoundTripper, error) {
	t, err := newTransport("", files, log)
	if err != nil {
		return nil, err
	}
	expiry.Register(reg, expiry.Client, t.expiry)
	return t, nil
}

// NewTransportTo is [NewTransport] for one of several addresses of a name: it connects to address, HOST:PORT, and verifies the
// certificate for the host that requests name. An empty address is the one of the request.
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

// transport replaces what it makes requests with when the files have changed.
type transport struct {
	address string // to connect to; empty for that of the request
	files   TLSFiles
	log     *slog.Logger

	mu      sync.Mutex // guards what follows
	current *http.Transport
	states  [3]fileState
	ends    expiry.Ends // of what is in use
	checked time.Time
	failed  string // the last failure that was logged
}

// fileState tells whether a file was replaced or written.
type fileState struct {
	modified time.Time
	size     int64
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.fresh().RoundTrip(r) }

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() { t.fresh().CloseIdleConnections() }

// fresh gives the transport of the files as they are.
func (t *transport) fresh() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.freshLocked()
}

// expiry gives when the certificates end that the next connection would use.
func (t *transport) expiry() expiry.Ends {
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
		// Half of a pair may have been written: it is tried again with the next request.
		if t.failed != err.Error() {
			t.failed = err.Error()
			t.log.Error("certificates changed and cannot be read, keeping the previous ones", "error", err)
		}
		return t.current
	}
	t.failed = ""
	t.log.Info("certificates reloaded")
	before.CloseIdleConnections() // the next connections show the new certificate
	return t.current
}

// look gives the state of the files.
func (t *transport) look() (states [3]fileState) {
	for i, name := range [...]string{t.files.CA, t.files.Cert, t.files.Key} {
		if info, err := os.Stat(name); name != "" && err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

// load makes a transport of the files.
func (t *transport) load() error {
	ends := make(expiry.Ends)
	states := t.look() // before reading: a change in between is then seen the next time
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
