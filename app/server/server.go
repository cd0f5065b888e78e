// Package server is the route server: a poller that produces tables, or a relay that fetches them from another route server; a
// cache that serves them; the two listeners; and the order in which these parts start and stop.
//
// The main listener serves proxies: /routes, /routes/{zone}, /health, and the shard endpoints where they are configured. The
// support listener serves operators: the console at /, /metrics, /status, /clients, /problems, /explain, /match, /guard/accept,
// /health for probes that cannot show a certificate, and profiles where they are enabled.
//
// Readiness means "has a table". Headers, metrics and /status show that a table is stale, but the server still serves it: an old
// table is better than none.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Config configures a Server. Set either Source or a URL in Upstream, not both.
type Config struct {
	Source poller.Source // see poller.Config
	// Interval and MaxBackoff configure the poller: see poller.Config.
	Interval, MaxBackoff time.Duration
	// Upstream are the route servers whose table a relay serves. Its StateDir, Guard, Interval and MaxBackoff are set from the other
	// fields. On a relay Guard has the meaning of dataplane.RelayConfig, and Compile and the shards have no effect.
	Upstream dataplane.Config

	Compile rules.Options
	// Selection is the one of Source, for explanations.
	Selection kube.Selection
	Guard     guard.Config
	Review    Review
	Canary    CanaryConfig
	// History is how many bytes the history of objects may have, by default [DefaultHistory]; without a StateDir, 16 MiB at most.
	History int64
	// StateDir is the folder of the last-known-good file, the history and the control socket; empty means none of them.
	StateDir string

	// Address is the main listener, by default [DefaultAddress]. SupportAddress is the listener for operators; empty turns it off.
	Address, SupportAddress string
	// TLS protects the main listener, and RequestFilters filter its requests, in order.
	TLS            httpserve.TLSConfig
	RequestFilters []*eskip.Filter
	// WaitForHealthcheckInterval is how long to keep serving after the context of Run ends. ShutdownTimeout is how long open
	// requests may then take, by default [DefaultShutdownTimeout].
	WaitForHealthcheckInterval, ShutdownTimeout time.Duration
	// MaxConnections is how many connections the main listener holds, by default [DefaultMaxConnections]; the limit of open files may
	// allow fewer: see [httpserve.MainConnections].
	MaxConnections int
	// MaxStreams is how many clients may follow the table; 0 turns streams off.
	MaxStreams int
	// EnableProfile serves profiles on the support listener.
	EnableProfile bool
	// Redis and Valkey are the services whose addresses are served under /swarm/redis/shards and /swarm/valkey/shards.
	Redis, Valkey Shard

	// Open opens the listeners; nil means net.Listen.
	Open func(network, address string) (net.Listener, error)
	// Peers returns the table that another replica serves, and the objects that it keeps. The server compares its first table with it,
	// and keeps the same objects, if it has no last-known-good file. nil means no other replicas. A relay does not call it.
	Peers func(context.Context) (dataplane.PeerTable, error)

	// FromPeers reads a document of the other replicas: see dataplane.FromPeers. nil means no other replicas.
	FromPeers func(ctx context.Context, path string, first bool, read func(io.Reader) error) error

	// PeerClients asks the other replicas, and relays, which clients they know: see [fleet.Merge]. It returns within two seconds.
	// nil means no peers.
	PeerClients func(context.Context) []fleet.Answer
	// Name is the name of this replica among its peers; empty means the host name, with the support listener unless it is the default.
	Name string

	// Events writes problems as Kubernetes Events until the context ends; nil writes none. A relay does not call it.
	Events func(ctx context.Context, problems func() []poller.Problem)

	// Origin is recorded in the last-known-good file as the origin of the table: "cluster" or "manifests".
	Origin string
	// Version is shown by /status.
	Version string

	Logger *slog.Logger // nil means no log
	// Registry receives all metrics, and /metrics shows it. nil means a new one.
	Registry *prometheus.Registry
}

// Defaults of a [Config]; SupportAddress and MaxStreams have them for flags only.
const (
	DefaultAddress         = ":9090"
	DefaultSupportAddress  = ":9911"
	DefaultMaxConnections  = 20_000
	DefaultMaxStreams      = 10_000
	DefaultShutdownTimeout = 30 * time.Second
	DefaultHistory         = 256 << 20
)

// Review configures the checks that a change must pass before it is published.
type Review struct {
	// TrialProxy is the support listener of the trial proxy; nil for none. TrialTraffic is its listener for requests.
	TrialProxy, TrialTraffic *url.URL
	TrialTimeout             time.Duration // default trial.DefaultTimeout
	KeepTakeovers            takeover.Policy
}

// Shard is a service whose addresses proxies share.
type Shard struct {
	Namespace, Name string
	Port            int // 1 to 65535
}

// Configured reports whether a service is named.
func (s Shard) Configured() bool { return s.Namespace != "" && s.Name != "" }

// Server is the route server. Create it with [New], then call Run once.
type Server struct {
	cfg       Config
	log       *slog.Logger
	registry  *prometheus.Registry
	cache     *etagcache.Cache
	canary    *canary              // nil without one
	onDisk    map[string]time.Time // since when problems have existed, as in the file; owned by keepProblems once it runs
	tables    tables
	publisher *publish.Publisher
	kept      keptAnswer
	compiler  *poller.Compiler // nil in a relay
	relay     *dataplane.Relay // nil except in a relay
	decisions publish.Decisions
	reviews   *reviews  // nil in a relay
	history   *recorder // nil in a relay
	questions *questions
	clients   *clients
	endpoints []httpserve.Endpoint // of both listeners
	listeners *httpserve.Listeners
	started   time.Time // set by Run before it listens
}

// tables produces tables: a poller or a relay.
type tables interface {
	// Run produces tables until the context ends, then returns nil.
	Run(context.Context) error
	// Recheck asks for an early read of the source. It never blocks.
	Recheck()
	Status() api.Source
	// Accept publishes the held table with the digest.
	Accept(publish.Acceptance) (*table.Table, error)
}

// New checks the configuration, reads certificates and the last-known-good file, and connects the parts. It opens no socket and
// starts no goroutine.
func New(cfg Config) (*Server, error) {
	if (cfg.Source == nil) == (len(cfg.Upstream.URLs) == 0) {
		return nil, errors.New("server: must have either a source or an upstream route server")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, DefaultShutdownTimeout)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, DefaultMaxConnections)
	cfg.History = cmp.Or(cfg.History, DefaultHistory)
	cfg.Address = cmp.Or(cfg.Address, DefaultAddress)
	if cfg.Source == nil {
		cfg.Redis, cfg.Valkey = Shard{}, Shard{} // a relay does not know the addresses
	}
	s := &Server{cfg: cfg, log: cfg.Logger.With("component", "server"), registry: cfg.Registry}
	s.questions = newQuestions(s.registry)
	s.newClients()
	if err := s.newTables(); err != nil {
		return nil, err
	}
	if err := s.newListeners(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the source at once instead of after the interval. Certificate files need no reload: the server reloads them when
// they change. Reload is safe for concurrent use.
func (s *Server) Reload() {
	s.log.Info("SIGHUP: reading the source now; flags and configuration files take effect after a restart only")
	s.tables.Recheck()
}

// newTables creates the cache and the producer that feeds it.
func (s *Server) newTables() error {
	var err error
	cfg := etagcache.Config{
		Logger: s.cfg.Logger, Metrics: etagcache.NewMetrics(s.registry),
		Recheck: func() { s.tables.Recheck() }, MaxStreams: s.cfg.MaxStreams, Saw: func(seen etagcache.Seen) { s.clients.Saw(seen, false) },
		Published: func(order uint64, t *table.Table, _ bool) {
			s.clients.Published(order, nameOf(t), false)
			if s.reviews != nil {
				s.reviews.takeovers.published()
				s.history.published()
			}
		},
	}
	if s.cache, err = etagcache.New(cfg); err != nil {
		return err
	}
	if s.canary, err = newCanary(s); err != nil {
		return err
	}
	if s.cfg.Source == nil {
		return s.newRelay()
	}
	return s.newPoller()
}

// nameOf returns the name under which the fleet knows a table.
func nameOf(t *table.Table) fleet.Name { return fleet.Name{Digest: t.Digest(), Revision: t.Revision()} }

// newPoller creates the poller and the publisher with the last-known-good file.
func (s *Server) newPoller() error {
	var err error
	if s.compiler, err = poller.NewCompiler(s.cfg.Compile, s.cfg.Logger, s.registry); err != nil {
		return err
	}
	s.rememberProblems()
	metrics := publish.NewMetrics(s.registry, "routesrv")
	s.registry.MustRegister(metrics.Steering()...)
	s.reviews, s.history = newReviews(s), newRecorder(s)
	decided := func(d api.Decision) {
		s.decisions.Append(d)
		s.history.decided(d)
	}
	if s.publisher, err = publish.New(publish.Config{
		Sink: s.cache, Canary: s.canary.config(), Guard: s.cfg.Guard, Builder: s.compiler, Review: s.reviews.review, File: publish.LastKnownGood(s.cfg.StateDir), Decided: decided,
		Changed: s.history.Changed, Logger: s.cfg.Logger.With("component", "publish"), Metrics: metrics,
	}); err != nil {
		return err
	}
	s.publisher.Boot(maxLastKnownGood, nil)
	polls := poller.Config{
		Source: s.cfg.Source, Compile: s.compiler.Compile, Publisher: s.publisher, Origin: s.cfg.Origin,
		Interval: s.cfg.Interval, MaxBackoff: s.cfg.MaxBackoff,
		// Only route servers send a failed source small requests: a cluster has two or three of them, but hundreds of data planes.
		ProbeInterval: max(min(cmp.Or(s.cfg.Interval, poller.DefaultInterval)/3, time.Second), time.Millisecond),
		Logger:        s.cfg.Logger, Metrics: poller.NewMetrics(s.registry),
	}
	if tried := s.reviews.trial; tried != nil {
		polls.Settle, polls.Reviewed = tried.Settle, tried.Changed()
	}
	s.tables, err = poller.New(polls)
	return err
}

// maxLastKnownGood limits the size of a last-known-good file that is loaded. A server with a larger one starts without it.
const maxLastKnownGood = 1 << 30

// newRelay creates the relay. Its client keeps the last-known-good file, and names that table to the server above after a restart.
func (s *Server) newRelay() error {
	fetch := s.cfg.Upstream
	fetch.Decided, fetch.Identity = s.decisions.Append, s.identity
	fetch.Interval, fetch.MaxBackoff = s.cfg.Interval, s.cfg.MaxBackoff
	fetch.StateDir, fetch.Guard, fetch.Sink, fetch.Logger = s.cfg.StateDir, s.cfg.Guard, s.cache, s.cfg.Logger
	var err error
	s.relay, err = dataplane.NewRelay(dataplane.RelayConfig{Fetch: fetch, Cache: s.cache, Registerer: s.registry})
	if err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	s.tables, s.publisher = s.relay, s.relay.Publisher()
	s.relay.Boot()
	return nil
}

// Endpoints returns what the listeners answer with this configuration, in the order of the documentation.
func (s *Server) Endpoints() []httpserve.Endpoint { return slices.Clone(s.endpoints) }

func (s *Server) newListeners() error {
	s.endpoints = slices.Concat(s.mainEndpoints(), s.supportEndpoints())
	handler, err := s.mainHandler()
	if err != nil {
		return err
	}
	s.listeners, err = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: s.cfg.Address, SupportAddress: s.cfg.SupportAddress, Listen: s.cfg.Open,
		Endpoints: s.endpoints, Main: handler, DrainStreams: s.drainStreams, TLS: s.cfg.TLS, StateDir: s.cfg.StateDir,
		MaxConnections: s.cfg.MaxConnections, Drain: s.cfg.WaitForHealthcheckInterval, ShutdownTimeout: s.cfg.ShutdownTimeout,
		Draining: func() { s.log.Info(fmt.Sprintf("shutting down the server in %s...", s.cfg.WaitForHealthcheckInterval)) },
		Logger:   s.log, Registry: s.registry,
	})
	return err
}

func (s *Server) drainStreams(window time.Duration) {
	var all sync.WaitGroup
	all.Go(func() { s.cache.DrainStreams(window) })
	if s.canary != nil {
		all.Go(func() { s.canary.cache.DrainStreams(window) })
	}
	all.Wait()
}

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot be opened
// or fails. If ctx has already ended, it opens nothing.
//
// The order of the shutdown is the one of [httpserve.Listeners], after a wait of Config.WaitForHealthcheckInterval for load balancers.
// The last-known-good file is written last.
func (s *Server) Run(ctx context.Context) error {
	s.started = time.Now()
	if s.cfg.SupportAddress == "" {
		s.log.Info("no support listener: no metrics, no status (-support-listener)")
	}
	var tablesErr error
	err := s.listeners.Run(ctx, func(ctx context.Context) { tablesErr = s.runTables(ctx) })
	return errors.Join(err, tablesErr)
}

// runTables produces tables until ctx ends. It asks other replicas first: see askPeers.
func (s *Server) runTables(ctx context.Context) error {
	if s.relay == nil {
		s.askPeers(ctx)
	}
	var beside sync.WaitGroup
	if s.cfg.Events != nil && s.compiler != nil {
		beside.Go(func() { s.cfg.Events(ctx, s.eventProblems) })
	}
	beside.Go(func() { s.clients.Run(ctx) })
	if s.reviews != nil {
		beside.Go(func() { s.reviews.run(ctx) })
		beside.Go(func() { s.history.run(ctx) })
		beside.Go(func() { s.keepProblems(ctx) })
	}
	if s.canary != nil {
		beside.Go(func() { s.canary.run(ctx) })
	}
	if s.relay != nil {
		beside.Go(func() { s.reportUp(ctx) })
	} else if s.cfg.FromPeers != nil {
		beside.Go(func() { s.adopt(ctx) })
	}
	err := s.tables.Run(ctx)
	beside.Wait()
	return err
}

// askPeers asks the other replicas for what a server without a last-known-good file lacks: the table to compare its first table with, and what is kept;
// for freezes and pins set while this process was down; and for the history if there is none. It logs what it finds.
func (s *Server) askPeers(ctx context.Context) {
	if s.publisher.Served() == nil {
		s.findPeer(ctx)
	} else if s.cfg.FromPeers != nil {
		if err := s.cfg.FromPeers(ctx, api.PathKept, true, func(r io.Reader) error {
			kept, err := publish.ReadKept(r)
			if err == nil {
				s.publisher.TakeOver(kept)
			}
			return err
		}); err != nil {
			s.log.Info("freezes and pins come from the state folder, no other replica answers", "reason", err)
		}
	}
	if s.cfg.FromPeers != nil && s.history.Empty() {
		if err := s.cfg.FromPeers(ctx, api.PathKeptHistory, true, s.history.Import); err != nil {
			s.log.Info("the history begins now", "reason", err)
		}
	}
}

// adoptTimeout limits the requests to the other replicas, which are made at each interval.
const adoptTimeout = 2 * time.Second

// adopt keeps what other replicas keep, if it is lost here as well, until the context ends.
func (s *Server) adopt(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.cfg.Interval, poller.DefaultInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var all []*publish.Kept
		soon, cancel := context.WithTimeout(ctx, adoptTimeout)
		err := s.cfg.FromPeers(soon, api.PathKeptNames, false, func(r io.Reader) error {
			list, err := publish.ReadKept(r)
			all = append(all, list...)
			return err
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Debug("not every replica answers what its guard keeps", "error", err)
		}
		s.publisher.Adopt(all)
	}
}

// findPeer finds the table to compare the first table with, and logs where it comes from.
func (s *Server) findPeer(ctx context.Context) {
	const nothing = "the first table is compared with nothing: no last-known-good file and no other replica has a table"
	if s.cfg.Peers == nil {
		s.log.Info(nothing, "reason", "no --peers")
		return
	}
	found, err := s.cfg.Peers(ctx)
	if err != nil {
		s.log.Warn(nothing, "reason", err)
		return
	}
	t := found.Table
	s.log.Info("the first table is compared with the table of another replica", "peer", found.From, "count", t.Len(), "hash", t.Digest().String(),
		"revision", t.Revision(), "kept", len(found.Kept))
	s.publisher.CompareWith(t)
	s.publisher.TakeOver(found.Kept)
}
