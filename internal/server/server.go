// Package server is the route server: a poller that makes tables, or a relay that has them from another route server, a cache
// that serves them, the two listeners, and the order in which all of it starts and stops.
//
// The main listener has what proxies use: /routes, /routes/{zone}, /health, and the shard endpoints where they are
// configured. The support listener has what operators use: the console at /, /metrics, /status, /clients, /problems, /explain, /match, /guard/accept, /health for
// probes that cannot show a certificate, and profiles where they are enabled.
//
// Readiness means "has a table". A table that has grown old is shown in headers, metrics and /status and is served all
// the same: an old table is better than none.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/internal/budget"
	"github.com/routesrv/routesrv/internal/console"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/relay"
	"github.com/routesrv/routesrv/internal/tracing"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	DefaultAddress         = ":9090"
	DefaultShutdownTimeout = 30 * time.Second
	DefaultMaxConnections  = 20_000
)

// Config is what a Server is made of. Either Source or a URL in Upstream is required, and not both.
type Config struct {
	// Upstream is the client of a relay: see relay.Config. Its LKGPath is made of StateDir, and Interval and MaxBackoff are
	// those below. With it Guard is that of relay.Config, and Compile, Redis, Valkey and Origin mean nothing.
	Upstream dataplane.Config

	// The poller and its gate: see poller.Config, compile.Options and guard.Config.
	Source     poller.Source
	Compile    compile.Options
	Guard      guard.Config
	Interval   time.Duration
	MaxBackoff time.Duration

	// Selection says which objects the source reads, for explanations.
	Selection Selection
	// ProblemNamespaces is for how many namespaces problems are counted in series of their own; 0 means that there are none.
	ProblemNamespaces int

	// Address and SupportAddress are host:port to listen on; the host may be empty. An empty Address is
	// [DefaultAddress]; an empty SupportAddress means that there is no support listener.
	Address        string
	SupportAddress string
	// Listen opens the listeners; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// TLS of the main listener; the support listener is always plain.
	TLS httpserve.TLSConfig
	// RequestFilters is the chain for every path of the main listener but /health.
	RequestFilters []*eskip.Filter
	// Redis and Valkey are the services whose addresses the shard endpoints give; not configured without a name.
	Redis, Valkey Shard
	// EnableProfile serves /debug/pprof on the support listener.
	EnableProfile bool

	// MaxConnections is how many connections the main listener holds, by default [DefaultMaxConnections]. The limit of open files
	// may allow fewer: see [httpserve.MainConnections].
	MaxConnections int

	// MaxStreams is how many clients may follow the table on /routes/watch; 0 means that there is none of it.
	MaxStreams int

	// HealthcheckInterval is how long the server goes on serving after it was told to stop, so that load balancers
	// notice; ShutdownTimeout is how long requests then have to end, by default [DefaultShutdownTimeout].
	HealthcheckInterval time.Duration
	ShutdownTimeout     time.Duration

	// SharedMaxAge is for how long HTTP caches may serve an answer without asking again: see etagcache.Config.
	SharedMaxAge time.Duration
	// ChangeBudget is how long changes that only add endpoints may wait: see package budget. 0 means that none waits. A relay serves
	// what the server above does, and has none.
	ChangeBudget time.Duration

	// Peers gives the table that another replica serves, and the address of it, to compare the first table with; it is called
	// if there is no checkpoint. nil means that there are no other replicas. A relay does not call it.
	Peers func(context.Context) (t *table.Table, from string, err error)

	// PeerClients asks the other replicas, and relays, which clients they know: see [fleet.Merge]. It returns within two seconds. nil
	// means that there are none.
	PeerClients func(context.Context) []fleet.Answer
	// Name is that of this replica among them; empty means that of the host.
	Name string

	// Started is called once by Run, when there is a first table, or when the context ends before. nil means that nobody is told.
	Started func()

	// Events writes problems as Kubernetes Events until the context ends; nil means that nobody does. A relay does not call it.
	Events func(ctx context.Context, problems func() []poller.Problem) error

	// StateDir is the folder of the checkpoint, and of the file with decisions; empty means none.
	StateDir string
	// Origin says in the checkpoint where the table comes from: "cluster", "manifests".
	Origin string
	// Version is shown by /status.
	Version string

	// Tracing makes traces, and is run as long as the server; nil means that there are none. It belongs to this server alone.
	Tracing *tracing.Tracer

	Logger *slog.Logger // nil means no log
	// Registry gets all metrics and is what /metrics shows. nil means a new one.
	Registry *prometheus.Registry
}

// Selection restricts what a source reads: see the source.
type Selection struct {
	Namespace string
	Selectors map[kube.Kind]map[string]string
}

// Shard is a service whose addresses a shard endpoint gives.
type Shard struct {
	Namespace, Name string
	Port            int
}

func (s Shard) configured() bool { return s.Namespace != "" && s.Name != "" }

// Server is the route server. Make one with [New], then Run it once.
type Server struct {
	cfg       Config
	log       *slog.Logger
	registry  *prometheus.Registry
	cache     *etagcache.Cache
	tables    tables
	gate      *gate.Gate
	budget    *budget.Budget   // nil without --change-budget
	compiler  *poller.Compiler // nil in a relay
	relay     *relay.Relay     // nil but in a relay
	decisions *audit.Log       // in memory only without a state folder
	errors    *httpserve.ErrorLog
	questions *questions
	publishes console.Publishes
	clients   *clients
	endpoints []httpserve.Endpoint // of both listeners
	listeners *httpserve.Listeners
	started   time.Time // set by Run before it listens
}

// tables is a producer of tables: a poller or a relay.
type tables interface {
	// Run makes them until the context ends, and returns nil then.
	Run(context.Context) error
	// Recheck asks for an early look at the source; it never blocks.
	Recheck()
	Status() gate.Progress
	// Accept serves the held table with the digest.
	Accept(guard.Acceptance) (*table.Table, error)
}

// New checks the configuration, reads certificates and the checkpoint, and joins the parts. It opens no socket and
// starts nothing.
func New(cfg Config) (*Server, error) {
	if (cfg.Source == nil) == (len(cfg.Upstream.URLs) == 0) {
		return nil, errors.New("server: want either a source or an upstream route server")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = DefaultShutdownTimeout
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	if cfg.Source == nil {
		cfg.Redis, cfg.Valkey = Shard{}, Shard{} // a relay does not know the addresses
	}
	s := &Server{cfg: cfg, log: cfg.Logger.With("component", "server"), registry: cfg.Registry}
	cfg.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.errors = httpserve.NewErrorLog(s.log, s.registry)
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

// Reload reads the source at once instead of after the interval. Files of certificates need no reload: they are read again when
// they change. It may be called at any time, from any goroutine.
func (s *Server) Reload() {
	s.log.Info("SIGHUP: reading the source now; flags and configuration files take effect after a restart only")
	s.tables.Recheck()
}

// newTables makes the cache and what feeds it.
func (s *Server) newTables() error {
	var err error
	cfg := etagcache.Config{
		Logger: s.cfg.Logger, Metrics: etagcache.NewMetrics(s.registry),
		Recheck: func() { s.tables.Recheck() }, MaxStreams: s.cfg.MaxStreams, SharedMaxAge: s.cfg.SharedMaxAge, Observer: s.clients,
		Published: func(t *table.Table, stale bool) { s.publishes.Add(t, time.Now(), stale) },
	}
	if s.cfg.Tracing != nil {
		cfg.Answered = s.cfg.Tracing.Answered
	}
	if s.cache, err = etagcache.New(cfg); err != nil {
		return err
	}
	s.decisions = audit.InFolder(s.cfg.StateDir, s.log)
	if s.cfg.Source == nil {
		return s.newRelay()
	}
	return s.newPoller()
}

// newPoller makes what reads and compiles, and the gate with the checkpoint.
func (s *Server) newPoller() error {
	var err error
	if s.compiler, err = poller.NewCompiler(s.cfg.Compile, s.cfg.Logger, s.registry); err != nil {
		return err
	}
	if s.cfg.ProblemNamespaces > 0 {
		s.compiler.CountNamespaces(s.cfg.ProblemNamespaces, s.registry)
	}
	sink := s.sink()
	if s.cfg.ChangeBudget > 0 {
		s.budget, err = budget.New(budget.Config{Sink: sink, Limit: s.cfg.ChangeBudget, Logger: s.cfg.Logger, Registry: s.registry})
		if err != nil {
			return err
		}
		sink = s.budget
	}
	metrics := gate.NewMetrics(s.registry, "routesrv")
	if s.gate, err = gate.New(gate.Config{
		Sink: sink, Guard: s.cfg.Guard, Halves: s.compiler, Files: s.checkpoint(metrics), Decided: gate.RecordIn(s.decisions),
		Logger: s.cfg.Logger.With("component", "gate"), Metrics: metrics,
	}); err != nil {
		return err
	}
	s.gate.Boot(maxCheckpoint, nil)
	s.tables, err = poller.New(poller.Config{
		Trace:  s.traceReads(),
		Source: s.cfg.Source, Compile: s.compiler.Compile, Gate: s.gate, Origin: s.cfg.Origin,
		Interval: s.cfg.Interval, MaxBackoff: s.cfg.MaxBackoff, ProbeInterval: ProbeInterval(s.cfg.Interval),
		Logger: s.cfg.Logger, Metrics: poller.NewMetrics(s.registry),
	})
	return err
}

const (
	// checkpointFile is the name of the last-good file in the state folder. It is a valid eskip document.
	checkpointFile = "table.eskip"
	// maxCheckpoint bounds a checkpoint that is loaded. A server whose table is larger starts without one.
	maxCheckpoint = 1 << 30
)

// checkpoint is the last-good file of a server that reads a cluster; none without a state folder.
func (s *Server) checkpoint(metrics *gate.Metrics) []gate.FileConfig {
	if s.cfg.StateDir == "" {
		return nil
	}
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_checkpoint_writes_total", Help: "Writes of the checkpoint by result: ok or error.",
	}, []string{"result"})
	writes.WithLabelValues("ok")
	writes.WithLabelValues("error")
	s.registry.MustRegister(writes)
	metrics.CountWrites(func(_, result string) { writes.WithLabelValues(result).Inc() })
	return []gate.FileConfig{{
		Name: "checkpoint", Path: filepath.Join(s.cfg.StateDir, checkpointFile), Background: true, MakeFolder: true,
	}}
}

// ProbeInterval is how often a route server asks a source that failed for a little, to read again as soon as it answers. A
// cluster has two or three route servers; what it has by the hundred, such as data planes, must not ask so often.
func ProbeInterval(interval time.Duration) time.Duration {
	return max(min(cmp.Or(interval, poller.DefaultInterval)/3, time.Second), time.Millisecond)
}

// newRelay makes the relay, whose client keeps the checkpoint: it names the table to the server above after a restart.
func (s *Server) newRelay() error {
	fetch := s.cfg.Upstream
	fetch.Decided, fetch.Identity = gate.RecordIn(s.decisions), s.identity
	fetch.Interval, fetch.MaxBackoff = s.cfg.Interval, s.cfg.MaxBackoff
	if s.cfg.StateDir != "" {
		_ = os.MkdirAll(s.cfg.StateDir, 0o700) // the client says what it cannot read or write
		fetch.LKGPath = filepath.Join(s.cfg.StateDir, checkpointFile)
	}
	var err error
	s.relay, err = relay.New(relay.Config{
		Fetch: fetch, Guard: s.cfg.Guard, Cache: s.cache, Sink: s.sink(), Logger: s.cfg.Logger, Registerer: s.registry,
	})
	if err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	s.tables, s.gate = s.relay, s.relay.Gate()
	s.relay.Boot()
	return nil
}

// Endpoints are what the listeners answer with this configuration, in the order in which they are documented.
func (s *Server) Endpoints() []httpserve.Endpoint { return slices.Clone(s.endpoints) }

func (s *Server) newListeners() error {
	s.endpoints = slices.Concat(s.mainEndpoints(), s.supportEndpoints())
	handler, err := s.mainHandler()
	if err != nil {
		return err
	}
	secure, err := httpserve.NewTLS(s.cfg.TLS, s.cfg.Logger, s.registry)
	if err != nil {
		return err
	}
	s.listeners = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: s.cfg.Address, SupportAddress: s.cfg.SupportAddress, Listen: s.cfg.Listen, Flags: "-",
		Main: handler, Support: httpserve.Mux(httpserve.SupportListener, s.endpoints), Routes: s.cache, TLS: secure,
		MaxConnections: s.cfg.MaxConnections, Drain: s.cfg.HealthcheckInterval, ShutdownTimeout: s.cfg.ShutdownTimeout,
		Draining: func() { s.log.Info(fmt.Sprintf("shutting down the server in %s...", s.cfg.HealthcheckInterval)) },
		Errors:   s.errors, Logger: s.log, Registry: s.registry,
	})
	return nil
}
