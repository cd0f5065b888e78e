package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Config configures a Server. Source and TLS are required.
type Config struct {
	Source  poller.Source
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
	cfg       Config
	judge     *Judge
	metrics   *Metrics
	recheck   chan struct{}
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
			Handler: &handler{judge: j, log: log, metrics: m, turns: httpserve.NewTurns(maxReviews)},
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
	return s.listeners.Run(ctx, s.follow)
}

// Reload reads the cluster at once instead of after the interval.
func (s *Server) Reload() {
	s.log.Info("SIGHUP: reading the source now; flags and configuration files take effect after a restart only")
	select {
	case s.recheck <- struct{}{}:
	default:
	}
}

// Messages of the log.
const (
	LogReadFailed = "read of the cluster failed, objects are judged against the last snapshot"
)

// follow keeps the snapshot of the judge up to date until ctx ends: it reads at once, at every interval, and whenever the source
// reports a change.
func (s *Server) follow(ctx context.Context) {
	var changed <-chan struct{}
	var following sync.WaitGroup
	defer following.Wait()
	source, follows := s.cfg.Source.(poller.Follower)
	if follows {
		following.Go(func() {
			if err := source.Run(ctx); err != nil {
				s.log.Error(poller.LogFollowingFailed, "error", err)
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-changed:
		case <-s.recheck:
		}
		began, first := time.Now(), !s.judge.Ready()
		err := s.read(ctx)
		if ctx.Err() != nil {
			return // the shutdown is not a failure
		}
		s.metrics.read(err)
		if err == nil {
			if first {
				s.log.Info("first snapshot taken, objects are judged against the cluster")
			} else if failures > 0 {
				s.log.Info("read of the cluster succeeded again", "failures", failures)
			}
			if failures = 0; follows {
				changed = source.Changed()
			}
			timer.Reset(time.Until(began.Add(s.cfg.Interval)))
			continue
		}
		if failures++; failures == 1 {
			s.log.Error(LogReadFailed, "error", err)
		}
		changed = nil // give a failing source time to recover
		timer.Reset(api.Backoff(failures, s.cfg.Interval, s.cfg.MaxBackoff, rand.Float64()))
	}
}

// read takes one snapshot. It turns a panic into an error: an unexpected input must not end the process.
func (s *Server) read(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	snapshot, err := s.cfg.Source.Read(ctx, kube.ReadOptions{})
	if err == nil {
		s.judge.Take(snapshot)
	}
	return err
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
	reads    *prometheus.CounterVec // by result
	lastRead prometheus.Gauge
}

// NewMetrics creates the series and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		reviews: made.Counters("routesrv_webhook_reviews_total",
			"Reviews: allowed, warned, refused, skipped (not an object of this route server) or failed.", "kind operation result"),
		duration: made.Histogram("routesrv_webhook_review_duration_seconds", "Time to answer a review.",
			[]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5}),
		reads:    made.Counters("routesrv_webhook_reads_total", "Reads of the cluster: ok or error.", "result", "ok", "error"),
		lastRead: made.Gauge("routesrv_webhook_last_read_timestamp_seconds", "Time of the last successful read of the cluster; 0 before the first."),
	}
}

func (m *Metrics) read(err error) {
	if err != nil {
		m.reads.WithLabelValues("error").Inc()
		return
	}
	m.reads.WithLabelValues("ok").Inc()
	series.Stamp(m.lastRead, time.Now())
}
