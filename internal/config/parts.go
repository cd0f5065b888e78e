package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/routesrv/routesrv/internal/events"
	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/internal/source/manifests"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// NewLogger returns a logger that writes text or JSON. It spells levels that slog does not have as in flags.
func NewLogger(cfg Log, w io.Writer) *slog.Logger {
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

// NewSource returns the source for the configuration, and one word for the origin of its objects. It reads standard input if a
// manifest path is "-". The error names the flag or the file that cannot be used.
func NewSource(cfg Source, stdin io.Reader, log *slog.Logger, reg prometheus.Registerer) (source poller.Source, origin string, err error) {
	if cfg.Selectors[kube.KindConfigMap] != nil {
		cfg.Orders = ownNamespace()
	}
	if len(cfg.Manifests) > 0 {
		origin = "manifests"
		source, err = manifests.New(manifests.Config{
			Paths: cfg.Manifests, Stdin: stdin, Selection: cfg.Selection, Namespaces: cfg.Namespaces, Logger: log,
		})
	} else {
		origin = "cluster"
		// client-go reports an unreadable token file through klog, which is global.
		klog.SetSlogLogger(log.With("component", "client-go"))
		access := access(cfg)
		access.Selection, access.EndpointSlices, access.Namespaces = cfg.Selection, cfg.EndpointSlices, cfg.Namespaces
		access.Timeout, access.Logger, access.Metrics = cfg.RequestTimeout, log, cluster.NewMetrics(reg)
		if cfg.Watch {
			source, err = cluster.NewWatcher(access)
		} else {
			source, err = cluster.New(access)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if cfg.DefaultFiltersDir != "" {
		source = manifests.NewFilterFolder(cfg.DefaultFiltersDir, source, log)
	}
	return source, origin, nil
}

// access returns how to reach the API.
func access(cfg Source) cluster.Config {
	return cluster.Config{
		InCluster: cfg.InCluster, Kubeconfig: cfg.Kubeconfig, Context: cfg.Context, URL: cfg.URL, TokenFile: cfg.TokenFile,
	}
}

// NewEvents returns the writer of problems to the API of the configuration. Its name is that of the host, which is the pod's.
func NewEvents(cfg Source, log *slog.Logger, reg prometheus.Registerer) (*events.Cluster, error) {
	rest, err := access(cfg).Access()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this replica: %w", err)
	}
	return events.NewCluster(events.Config{REST: rest, Instance: host, Logger: log, Registry: reg})
}

// ownNamespace returns the namespace of this pod; elsewhere, that of the base.
func ownNamespace() string {
	name, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil || len(name) == 0 {
		return "routesrv"
	}
	return strings.TrimSpace(string(name))
}
