package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Config configures a Server. Source and TLS are required.
type Config struct {
	Source  poller.Source
	Compile rules.Options
	Scope   kube.Selection // of the objects that the route server reads
	// RefuseTakeovers says which requests of others an object may not take.
	RefuseTakeovers Refusal
	// Failures asks route servers what failed their trials; nil asks none.
	Failures Failures

	config.Poll   // zero means the defaults of package poller
	config.Listen // zero means its defaults, and 1,000 connections

	// Open opens the listeners; nil means net.Listen.
	Open func(network, address string) (net.Listener, error)
	// TLS configures the main listener. The server reloads its files when they change.
	TLS httpserve.TLSConfig

	Logger   *slog.Logger         // nil means no log
	Registry *prometheus.Registry // nil means a new one
}

// Server is the webhook server. Create it with [New], then call Run once.
type Server struct {
	log       *slog.Logger
	cfg       Config
	judge     *Judge
	metrics   *Metrics
	recheck   chan struct{}
	listeners *httpserve.Listeners
}

// New checks the configuration and reads the certificates. It opens no socket and starts no goroutine.
func New(cfg Config) (*Server, error) {
	if cfg.Source == nil {
		return nil, errors.New("webhook: Source is required")
	}
	if !cfg.TLS.Enable {
		return nil, errors.New("an API server talks to webhooks by TLS only: set -tls-cert and -tls-key")
	}
	cfg.Logger, cfg.Registry = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Registry, prometheus.NewRegistry())
	cfg.Interval = cmp.Or(cfg.Interval, poller.DefaultInterval)
	log := cfg.Logger.With("component", "webhook")
	judge, err := NewJudge(cfg.Compile, cfg.Scope, cfg.RefuseTakeovers)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	cfg.MaxBackoff = max(cmp.Or(cfg.MaxBackoff, poller.DefaultMaxBackoff), cfg.Interval)
	s := &Server{cfg: cfg, log: log, judge: judge, metrics: NewMetrics(cfg.Registry), recheck: make(chan struct{}, 1)}
	endpoints := Endpoints(judge, cfg.Registry, log, s.metrics)
	s.listeners, err = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: cfg.Address, SupportAddress: cfg.SupportAddress, Listen: cfg.Open, Flags: "-",
		Endpoints: endpoints, TLS: cfg.TLS, MaxConnections: cmp.Or(cfg.MaxConnections, 1000),
		Drain: cfg.WaitForHealthcheckInterval, ShutdownTimeout: cmp.Or(cfg.ShutdownTimeout, config.DefaultShutdownTimeout),
		Logger: log, Registry: cfg.Registry,
	})
	return s, err
}

// Endpoints returns the endpoints of both listeners of a webhook.
func Endpoints(j *Judge, reg *prometheus.Registry, log *slog.Logger, m *Metrics) []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []httpserve.Endpoint{
		{
			Listener: httpserve.MainListener, Path: "/validate", Methods: []string{http.MethodPost}, MaxBody: maxReview,
			Does:    "a review of an Ingress or a RouteGroup, for API servers (`admission.k8s.io/v1`)",
			Handler: newHandler(j, log, m),
		},
		{
			Listener: httpserve.SupportListener, Path: "/health", Methods: get,
			Does: "200 after the first snapshot of the cluster, 503 before", Handler: health(j),
		},
		{
			Listener: httpserve.SupportListener, Path: "/metrics", Methods: get, Does: "the metrics, for Prometheus",
			Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}),
		},
	}
}

func health(j *Judge) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !j.Ready() {
			http.Error(w, "no snapshot of the cluster yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot be opened
// or fails.
func (s *Server) Run(ctx context.Context) error {
	return s.listeners.Run(ctx, func(ctx context.Context) {
		var beside sync.WaitGroup
		if s.cfg.Failures != nil {
			beside.Go(func() { s.followFailures(ctx) })
		}
		s.follow(ctx)
		beside.Wait()
	})
}

// Reload reads the cluster at once instead of after the interval.
func (s *Server) Reload() {
	s.log.Info("SIGHUP: reading the source now; flags and configuration files take effect after a restart only")
	select {
	case s.recheck <- struct{}{}:
	default:
	}
}
