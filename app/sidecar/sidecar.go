// Package sidecar is the data-plane client beside a proxy. It serves /routes on the loopback interface, from a table that it
// computes itself or fetches from route servers, and switches from one to the other while it runs.
//
// Two producers supply tables: a poller, which reads the cluster and compiles, and a dataplane client, which fetches and
// verifies. Each has a publisher, and a switch of package publish connects one of them to the cache that the proxy reads. One
// goroutine, the controller, decides by the rules of package rollout which producers run and which one is served. In mode Pre it
// compares every answer of a route server with the computed table.
//
// The controller starts the new producer, switches the served table once the new producer has shown a table in a read or an
// answer that came after the request to switch, and then stops the previous producer. So a verified table is served at every
// moment. A new table with a lower revision and other content waits for a few polls, because its producer may just lag, and is
// then served under the revision of the previous one: otherwise the cache would conclude that the source went back in time.
//
// The first table comes from a route server. Without an answer within the first round, or two seconds, it is the last-known-good
// table, marked stale; then, if the mode or the fallback allows it, a computed table; else the answer is 404. Requests wait for
// that decision, because a proxy that gets 404 while it starts gives up. Mode False uses nothing of a route server.
//
// The metrics of the proxy show whether it runs with a table (rollout.Proof). The last-known-good file gets only proven tables.
// If new tables crash the proxy, the proven one is served instead, under the revision of the offered one, until the next retry.
// Requests are no evidence, since a tenant can send them through the proxy.
//
// If no route server answers after a switch to Exec, the sidecar keeps serving the computed table and reading the cluster until
// one answers. The metrics of a poller restart from zero when a producer is started again.
package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
)

// Defaults of Config.
const (
	DefaultAddress        = "127.0.0.1:9005"
	DefaultSupportAddress = ":9006"
	DefaultFreshLimit     = 5 * time.Minute
	// DefaultProxyMetricsURL is the support listener of a Skipper beside this process.
	DefaultProxyMetricsURL = "http://127.0.0.1:9911/metrics"
	DefaultShutdownTimeout = 10 * time.Second
)

// Config configures a Sidecar. Set Source, or a URL in Fetch, or both, as the modes in use require.
type Config struct {
	// Setting is the mode at the start. A valid mode in ModeFile takes precedence, at the start and whenever it changes.
	Setting  rollout.Setting
	ModeFile string
	// Pod determines the slot of the fallback. With PodNamespace and Node, which may be empty, it identifies this client.
	Pod, PodNamespace, Node string
	// ProxyMetricsURL is the URL of the proxy's metrics, which show whether a table is proven. A nil ProxyTransport means a new one.
	ProxyMetricsURL string
	ProxyTransport  http.RoundTripper
	Cutover         rollout.CutoverConfig
	// Fallback says when a data plane in Exec computes a table. The sidecar sets its Pod.
	Fallback rollout.FallbackConfig

	// Settings of the poller: see poller.Config and rules.Options. A nil Source means that no table can be computed.
	Source               poller.Source
	Compile              rules.Options
	Guard                guard.Config // for both producers, and for switches between them
	Interval, MaxBackoff time.Duration

	// Fetch configures the client; without URLs no table can be fetched. The sidecar sets StateDir, Sink, Guard, Logger and
	// Metrics. Zone and ZoneFile also apply to the computed table.
	Fetch dataplane.Config

	// Address is the listener for the proxy, by default [DefaultAddress], and SupportAddress the one for operators, probes and
	// metrics; empty turns it off.
	Address, SupportAddress string
	// Listen opens the listeners; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// FreshLimit is the age of the source's last read from which /fresh answers 503. Default [DefaultFreshLimit].
	FreshLimit time.Duration
	// Drain is how long to keep serving after Run was told to end: the proxy may need the sidecar as long as it serves itself.
	// ShutdownTimeout is how long requests then have to end, by default [DefaultShutdownTimeout].
	Drain, ShutdownTimeout time.Duration

	// StateDir is the folder for the last-known-good file and the control socket; empty keeps neither.
	StateDir string
	// RoutesFile has the served table, for a proxy with -routes-file that runs as the same user. Empty means no file.
	RoutesFile string

	// SupportLoopbackOnly limits the pages for operators (/status, /problems, /shadow, held tables, profiles) to the control socket
	// in StateDir. Requests from the addresses of this machine are never answered over TCP: see [httpserve.InPod].
	SupportLoopbackOnly bool
	// EnableProfile serves /debug/pprof on the support listener.
	EnableProfile bool

	Version  string               // shown by /status
	Logger   *slog.Logger         // nil means no log
	Registry *prometheus.Registry // receives all metrics; nil means a new one
}

// Sidecar is the data-plane client. Create it with [New], then call Run once.
type Sidecar struct {
	cfg        Config
	log        *slog.Logger
	registry   *prometheus.Registry
	cache      *etagcache.Cache
	controller *controller
	watch      *watch // nil if the proxy's metrics are not read
	member     rollout.Member
	endpoints  []httpserve.Endpoint // of both listeners
	listeners  *httpserve.Listeners
	started    atomic.Int64 // unix nanoseconds
}

// New checks the configuration, reads the mode file and connects the parts. It opens no socket and starts no goroutine.
func New(cfg Config) (*Sidecar, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Sidecar{cfg: cfg, log: cfg.Logger.With("component", "sidecar"), registry: cfg.Registry}
	setting := cfg.Setting
	var modes *modeFile
	if cfg.ModeFile != "" {
		modes = &modeFile{path: cfg.ModeFile, log: s.log}
		if set, ok := modes.read(); ok {
			setting = set
		}
	}
	var err error
	var metrics *metricsReader
	if cfg.ProxyMetricsURL != "" {
		if metrics, err = newMetricsReader(cfg.ProxyMetricsURL, cfg.ProxyTransport, s.log); err != nil {
			return nil, fmt.Errorf("sidecar: URL of the proxy's metrics: %w", err)
		}
	}
	able := rollout.Able{Compute: cfg.Source != nil, Fetch: len(cfg.Fetch.URLs) > 0}
	s.member = rollout.MemberOf(cfg.Node, cfg.Pod)
	decider, err := rollout.NewDecider(s.member.Name, cfg.Cutover, able, setting)
	if err != nil {
		return nil, err
	}
	if s.cache, err = etagcache.New(etagcache.Config{
		Logger: cfg.Logger, Metrics: etagcache.NewMetrics(s.registry),
		Recheck: func() { s.controller.recheck() }, Saw: func(seen etagcache.Seen) { s.controller.proof.saw(seen) },
	}); err != nil {
		return nil, err
	}
	if s.controller, err = newController(&s.cfg, decider, modes, s.cache, s.log); err != nil {
		return nil, err
	}
	if metrics != nil {
		s.watch = newWatch(metrics, s.controller.proof.knowsProcess(), s.controller.readProxy)
	}
	s.endpoints = s.newEndpoints()
	s.listeners, err = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: s.cfg.Address, SupportAddress: s.cfg.SupportAddress, Listen: s.cfg.Listen,
		Endpoints: s.endpoints, DrainStreams: s.cache.DrainStreams, MaxConnections: maxConnections,
		StateDir: s.cfg.StateDir,
		Drain:    s.cfg.Drain, ShutdownTimeout: s.cfg.ShutdownTimeout,
		Draining: func() { s.log.Info("shutting down", "drain", s.cfg.Drain) },
		Logger:   s.log, Registry: s.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("support listener: %w", err)
	}
	return s, nil
}

func (cfg *Config) fill() error {
	if cfg.Source == nil && len(cfg.Fetch.URLs) == 0 {
		return errors.New("sidecar: neither a source nor a route server")
	}
	if cfg.RoutesFile != "" && filepath.Clean(cfg.RoutesFile) == publish.LastKnownGood(cfg.StateDir).Path {
		return fmt.Errorf("sidecar: %q is both last-known-good file and routes file", cfg.RoutesFile)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	cfg.Address = cmp.Or(cfg.Address, DefaultAddress)
	cfg.FreshLimit = cmp.Or(cfg.FreshLimit, DefaultFreshLimit)
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, DefaultShutdownTimeout)
	cfg.Interval = cmp.Or(cfg.Interval, poller.DefaultInterval)
	cfg.Fetch.Interval = cmp.Or(cfg.Fetch.Interval, dataplane.DefaultInterval)
	cfg.Fallback.Pod = cfg.Pod
	return nil
}

// Reload reads the mode file at once.
func (s *Sidecar) Reload() {
	select {
	case s.controller.reload <- struct{}{}:
	default: // it is about to
	}
}

// maxConnections limits the main listener, which serves one proxy.
const maxConnections = 1000

// Run serves until ctx ends, then shuts down in the order of [httpserve.Listeners]; the controller and its producers end last. It
// returns an error if the main listener cannot be opened or fails. If ctx has already ended, it opens nothing.
func (s *Sidecar) Run(ctx context.Context) error { return s.listeners.Run(ctx, s.RunTables) }

// RunTables runs everything except the listeners, for a program that serves [Sidecar.Handler] itself, until ctx ends.
func (s *Sidecar) RunTables(ctx context.Context) {
	s.started.Store(time.Now().UnixNano())
	var background sync.WaitGroup
	background.Go(func() { s.report(ctx) })
	if s.watch != nil {
		background.Go(func() { s.watch.run(ctx) })
	}
	s.controller.run(ctx)
	background.Wait()
}
