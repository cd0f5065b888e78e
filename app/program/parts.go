package program

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/routesrv/routesrv/app/events"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/source/manifests"
)

// NewLogger returns a logger that writes text or JSON. It spells levels that slog does not have as in flags.
func NewLogger(cfg options.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.LevelKey {
			if l, ok := a.Value.Any().(slog.Level); ok && l <= poller.LevelTrace {
				a.Value = slog.StringValue("TRACE")
			}
		}
		return a
	}}
	if cfg.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// NewSource returns the source for the configuration, and one word for the origin of its objects.
func NewSource(cfg options.Source, stdin io.Reader, log *slog.Logger, reg prometheus.Registerer) (source poller.Source, origin string, err error) {
	if cfg.DefaultFiltersDir != "" {
		cfg.Filters = manifests.NewFilterFolder(cfg.DefaultFiltersDir, log).Add
	}
	if len(cfg.Manifests) > 0 {
		origin = "manifests"
		source, err = manifests.New(manifests.Config{
			Paths: cfg.Manifests, Stdin: stdin, Selection: cfg.Selection, Namespaces: cfg.Namespaces, Filters: cfg.Filters, Logger: log,
		})
	} else {
		origin = "cluster"
		// client-go reports an unreadable token file through klog, which is global.
		klog.SetSlogLogger(log.With("component", "client-go"))
		cfg.Logger, cfg.Metrics = log, cluster.NewMetrics(reg)
		if cfg.Watch {
			source, err = cluster.NewWatcher(cfg.Config)
		} else {
			source, err = cluster.New(cfg.Config)
		}
	}
	if err != nil {
		return nil, "", err
	}
	return source, origin, nil
}

// NewEvents returns the writer of problems to the API of the configuration. Its name is that of the host, which is the pod's.
func NewEvents(cfg options.Source, log *slog.Logger, reg prometheus.Registerer) (*events.Cluster, error) {
	rest, err := cfg.Access()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this replica: %w", err)
	}
	return events.NewCluster(events.Config{REST: rest, Instance: host, Logger: log, Registry: reg})
}

// transport replaces its inner transport when the files have changed.
type transport struct {
	*httpserve.Reloaded[*http.Transport]
}

// NewTransport returns the transport for a dataplane.Client. It reads the files now, and again when they change; if that fails, the
// previous content stays in use. It ignores environment variables for proxies.
//
// It connects to address, HOST:PORT, instead of the one in the URL, unless it is empty, and verifies the certificate for the host in the
// URL. It registers the series of expiry times with reg, unless reg is nil.
func NewTransport(address string, files options.TLSFiles, log *slog.Logger, reg prometheus.Registerer) (http.RoundTripper, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("client certificate: set both the certificate and its key")
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	ends := httpserve.NewCertificateEnds(reg, httpserve.ClientSide)
	var before *http.Transport
	r, err := httpserve.NewReloaded([]string{files.CA, files.Cert, files.Key}, log, func() (*http.Transport, error) {
		config, err := clientTLS(files, ends)
		if err != nil {
			return nil, err
		}
		t := dataplane.NewTransport()
		t.TLSClientConfig = config
		if dial := t.DialContext; address != "" {
			t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, address) }
		}
		if before != nil {
			before.CloseIdleConnections() // new connections use the new certificate
		}
		before = t
		return t, nil
	})
	if err != nil {
		return nil, err
	}
	return &transport{r}, nil
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.Current().RoundTrip(r)
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() { t.Current().CloseIdleConnections() }

// clientTLS reads the files.
func clientTLS(files options.TLSFiles, ends *httpserve.CertificateEnds) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var authorities []byte
	if files.CA != "" {
		var err error
		if authorities, err = durable.ReadFile(files.CA, durable.MaxTLSFile); err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("read authorities %q: the file has no certificate", files.CA)
		}
	}
	if files.Cert != "" {
		pair, err := durable.ReadKeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate %q and key %q: %w", files.Cert, files.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	ends.Show(config.Certificates, authorities)
	return config, nil
}

// MemoryLimit returns the memory limit of this process in bytes, from its container and GOMEMLIMIT; 0 means no limit.
func MemoryLimit() int64 { return memoryLimit("/sys/fs/cgroup/memory.max") }

// memoryLimit takes the file of the container's cgroup, which is at the top there.
func memoryLimit(file string) int64 {
	limit := debug.SetMemoryLimit(-1)
	text, _ := os.ReadFile(file) // without it only GOMEMLIMIT counts
	if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
		limit = min(limit, n)
	}
	return limit % math.MaxInt64 // which means none
}
