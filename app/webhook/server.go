package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

// Config configures a Server. Source and TLS are required.
type Config struct {
	Source  poller.Source // see poller.Config
	Compile rules.Options
	Scope   kube.Selection // of the objects that the route server reads
	// RefuseTakeovers refuses objects that take requests of other namespaces, or may do so. Otherwise the author is warned.
	RefuseTakeovers bool

	Interval, MaxBackoff time.Duration // zero means the defaults of package poller

	Address, SupportAddress string
	MaxConnections          int // default 1,000
	// WaitForHealthcheckInterval is how long to keep serving after Run was told to end. ShutdownTimeout is how long open requests may
	// then take.
	WaitForHealthcheckInterval, ShutdownTimeout time.Duration
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
	reads     *poller.Poller
	listeners *httpserve.Listeners
}

// New checks the configuration and reads the certificates. It opens no sockets and starts no goroutines.
func New(cfg Config) (*Server, error) {
	if cfg.Source == nil {
		return nil, errors.New("webhook: Source is required")
	}
	if !cfg.TLS.Enable {
		return nil, errors.New("API servers require TLS for webhooks: set -tls-cert and -tls-key")
	}
	cfg.Logger, cfg.Registry = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Registry, prometheus.NewRegistry())
	log := cfg.Logger.With("component", "webhook")
	judge, err := NewJudge(cfg.Compile, cfg.Scope, cfg.RefuseTakeovers)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	// The reads serve no table, so nothing is held back or logged.
	publisher, err := publish.New(publish.Config{Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}})
	if err != nil {
		return nil, err
	}
	s := &Server{log: log}
	if s.reads, err = poller.New(poller.Config{
		Source: cfg.Source, Compile: judge.Take, Publisher: publisher, Interval: cfg.Interval, MaxBackoff: cfg.MaxBackoff,
		Logger: cfg.Logger, Metrics: poller.NewMetrics(cfg.Registry),
	}); err != nil {
		return nil, err
	}
	endpoints := Endpoints(judge, cfg.Registry, log, NewMetrics(cfg.Registry))
	s.listeners, err = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: cfg.Address, SupportAddress: cfg.SupportAddress, Listen: cfg.Open,
		Endpoints: endpoints, TLS: cfg.TLS, MaxConnections: cmp.Or(cfg.MaxConnections, 1000),
		Drain: cfg.WaitForHealthcheckInterval, ShutdownTimeout: cmp.Or(cfg.ShutdownTimeout, 30*time.Second),
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
			Handler: &handler{judge: j, log: log, metrics: m, turns: make(httpserve.Turns, maxReviews)},
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
	var readsErr error
	err := s.listeners.Run(ctx, func(ctx context.Context) { readsErr = s.reads.Run(ctx) })
	return errors.Join(err, readsErr)
}

// Reload reads the cluster at once instead of after the interval.
func (s *Server) Reload() {
	s.log.Info("SIGHUP: reading the source now; flags and configuration files take effect after a restart only")
	s.reads.Recheck()
}

// Results of reviews.
const (
	resultAllowed = "allowed" // the object has no problems
	resultWarned  = "warned"  // admitted with warnings
	resultRefused = "refused"
	resultSkipped = "skipped" // the route server ignores the object
	resultFailed  = "failed"  // the review could not be read, or the object not judged
)

// Metrics are the series of a webhook.
type Metrics struct {
	reviews  *prometheus.CounterVec // by kind, operation, result
	duration prometheus.Histogram
}

// NewMetrics creates the series and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		reviews: made.Counters("routesrv_webhook_reviews_total",
			"Reviews: allowed, warned, refused, skipped (not an object of this route server) or failed.", "kind operation result"),
		duration: made.Histogram("routesrv_webhook_review_duration_seconds", "Time to answer a review.",
			[]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5}),
	}
}
