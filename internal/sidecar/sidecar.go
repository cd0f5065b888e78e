// Package sidecar is the data-plane client beside a proxy: it serves /routes on the loopback interface, of a table that it
// computes itself or that it fetches from route servers, and moves from one to the other while it runs.
//
// # Parts
//
// Two producers make tables: a poller, which reads the cluster and compiles, and a dataplane client, which fetches and
// verifies. Each has a gate, and a switch of package gate joins them before the one cache that the proxy reads. One
// goroutine, the conductor, decides which producers run and which one is served.
// What to decide is left to package rollout. In mode Pre every answer of a route server is compared with the table that
// was computed.
//
// # Moving between producers
//
// The new producer is started; the table that is served changes when it has shown a table of its own in a read or an
// answer that came after the switch was asked for; then the producer from before is stopped. So there is no moment
// without a table, and none with one that was not verified. Three things hold the change up:
//
//   - a table of a lower revision, and of other content, is waited with for a few polls: the producer may just be
//     behind. If it stays so, the two tables differ for another reason, and it is taken;
//   - a table that looks like an accident beside the one that is served is held back by the rules of package guard,
//     as one from the same producer would be: until every read has agreed for the time of the hold, or an operator accepts
//     it;
//   - a producer that shows nothing changes nothing.
//
// # Revisions
//
// Tables of both producers carry revisions of one cluster, so that a proxy that comes back after a restart of this process
// is not sent back in time. Where the conductor has decided for a table with a lower one, it is served under the
// revision of the table before it, because the cache would take it for a source that went back.
//
// # Boot
//
// A route server; if there is no answer within the first round, or two seconds, the last-known-good table, marked stale;
// then, if the mode or the fallback allows it, a table of our own; else 404. Requests for the table wait for that
// decision, because a proxy that is answered with 404 while it starts gives up. In mode False there is no route server and
// no last-known-good table of one.
//
// # Caveats
//
// A switch to Exec while no route server answers leaves the computed table in place, and the cluster is read as before,
// until one does. The last-known-good file is that of the client: in mode Pre, too, it has the table of the route server,
// which was verified and compared, and was not served. It is served only if there is nothing else. Metrics of a poller
// begin anew when a producer is started again.
//
// # What it does not do
//
// It does not read flags and handles no signals (cmd/dataplane-client), and it does not protect its main listener, which is for
// the loopback interface.
package sidecar

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/proxymetrics"
	"github.com/routesrv/routesrv/poller"
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

// Config is what a Sidecar is made of. It needs a Source, or a URL in Fetch, or both, as the modes do that it is to run.
type Config struct {
	// Setting is the mode at the start. If ModeFile is set and has a valid one, that counts, then and whenever it changes.
	Setting  rollout.Setting
	ModeFile string
	// Pod is the name that this data plane's slot of the fallback follows from. With PodNamespace and Node it is what route servers
	// are told about this client; both may be empty.
	Pod, PodNamespace, Node string
	// ShareBy says whether the node or the pod decides who is in the share of a setting such as Exec:25%.
	ShareBy rollout.ShareBy
	// ProxyMetricsURL is where the proxy shows its metrics, of which a few sums are reported to the route server. Empty: they are not
	// read.
	ProxyMetricsURL string
	Gate            rollout.GateConfig
	// Fallback is when a data plane in Exec computes after all. Its Pod is filled in.
	Fallback rollout.FallbackConfig

	// The poller: see poller.Config and compile.Options. A nil Source means that no table can be computed.
	Source     poller.Source
	Compile    compile.Options
	Guard      guard.Config // of both producers, and of moves between them
	Interval   time.Duration
	MaxBackoff time.Duration

	// Fetch is the client; without URLs no table can be fetched. Sink, Guard, Logger and Metrics are filled in.
	// Its Zone and ZoneFile are for the computed table, too. RoutesFile is written for whatever is served.
	Fetch dataplane.Config

	// Address is the listener for the proxy, host:port; an empty one is [DefaultAddress]. SupportAddress is that for
	// operators, probes and metrics; empty means that there is none.
	Address        string
	SupportAddress string
	// Listen opens the listeners; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// FreshLimit is the age of the last read of the source from which on /fresh answers 503. Default [DefaultFreshLimit].
	FreshLimit time.Duration
	// Drain is how long everything goes on after Run was told to end: the proxy beside us may need it as long as it serves
	// itself. ShutdownTimeout is how long requests then have to end, by default [DefaultShutdownTimeout].
	Drain           time.Duration
	ShutdownTimeout time.Duration

	// ChangeBudget is how long changes that only add endpoints may wait before the proxy gets them: see package budget. 0 means that
	// none waits. RoutesFile gets all of them at once.
	ChangeBudget time.Duration
	// SupportTLS is the TLS of the support listener, by default none. With a ClientCA, /metrics and everything that SupportLoopbackOnly
	// protects are for clients with a certificate of it.
	SupportTLS SupportTLS
	// SupportLoopbackOnly answers what operators ask on the support listener (/status, /problems, /shadow, what is held, profiles) only to
	// requests through the loopback interface; with client certificates, to both.
	SupportLoopbackOnly bool
	// EnableProfile serves /debug/pprof on the support listener.
	EnableProfile bool

	Version  string               // shown by /status
	Logger   *slog.Logger         // nil means no log
	Registry *prometheus.Registry // gets all metrics; nil means a new one
}

// SupportTLS are the files of the support listener, PEM. They are read again when they change.
type SupportTLS struct {
	// Cert and Key are the certificate that the listener shows; without them it is plain HTTP.
	Cert, Key string
	// ClientCA are the authorities of clients. Empty: nobody is asked for a certificate.
	ClientCA string
}

// config is how the listener is protected. Probes have no certificate, so the handlers decide who needs one.
func (t SupportTLS) config() httpserve.TLSConfig {
	if t == (SupportTLS{}) {
		return httpserve.TLSConfig{}
	}
	cfg := httpserve.TLSConfig{
		Enable: true, HandlersDecide: true,
		Flags: httpserve.TLSFlags{Cert: "--support-tls-cert", Key: "--support-tls-key", CA: "--support-client-ca"},
	}
	if t.Cert != "" && t.Key != "" {
		cfg.CertFiles, cfg.KeyFiles = []string{t.Cert}, []string{t.Key}
	}
	if t.ClientCA != "" {
		cfg.RequireClientCert, cfg.CAFiles = true, []string{t.ClientCA}
	}
	return cfg
}

// Sidecar is the data-plane client. Make one with [New], then Run it once.
type Sidecar struct {
	cfg       Config
	log       *slog.Logger
	registry  *prometheus.Registry
	cache     *etagcache.Cache
	conductor *conductor
	proxy     *proxyTable
	member    rollout.Member
	modes     *modeFile            // nil without one
	endpoints []httpserve.Endpoint // of both listeners
	main      http.Handler
	support   http.Handler
	listeners *httpserve.Listeners
	started   atomic.Int64 // unix nanoseconds
}

// New checks the configuration, reads the mode file and joins the parts. It opens no socket and starts nothing.
func New(cfg Config) (*Sidecar, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Sidecar{cfg: cfg, log: cfg.Logger.With("component", "sidecar"), registry: cfg.Registry}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	setting := cfg.Setting
	if cfg.ModeFile != "" {
		s.modes = newModeFile(cfg.ModeFile, s.log)
		if set, ok := s.modes.read(); ok {
			setting = set
		}
	}
	if cfg.ProxyMetricsURL != "" {
		if _, err := proxymetrics.New(cfg.ProxyMetricsURL, s.log); err != nil {
			return nil, fmt.Errorf("sidecar: URL of the proxy's metrics: %w", err)
		}
	}
	s.proxy = &proxyTable{}
	able := rollout.Able{Compute: cfg.Source != nil, Fetch: len(cfg.Fetch.URLs) > 0}
	var err error
	if s.member, err = cfg.ShareBy.Member(cfg.Node, cfg.Pod); err != nil {
		return nil, fmt.Errorf("sidecar: share by %s: %w", cfg.ShareBy, err)
	}
	decider, err := rollout.NewDecider(s.member.Name, cfg.Gate, able, setting)
	if err != nil {
		return nil, err
	}
	if s.cache, err = etagcache.New(etagcache.Config{
		Logger: cfg.Logger, Metrics: etagcache.NewMetrics(s.registry),
		Recheck: func() { s.conductor.recheck() }, Observer: s.proxy, ObserveSent: true, EncodeOnDemand: true,
	}); err != nil {
		return nil, err
	}
	if s.conductor, err = newConductor(&s.cfg, decider, s.cache, s.log); err != nil {
		return nil, err
	}
	if s.modes != nil {
		s.conductor.modeErrors = s.modes.problem
	}
	supportTLS, err := httpserve.NewTLS(cfg.SupportTLS.config(), cfg.Logger, s.registry)
	if err != nil {
		return nil, fmt.Errorf("support listener: %w", err)
	}
	s.endpoints = s.newEndpoints()
	s.main = httpserve.Mux(httpserve.MainListener, s.endpoints)
	s.support = httpserve.Mux(httpserve.SupportListener, s.endpoints)
	s.listeners = httpserve.NewListeners(httpserve.ListenersConfig{
		Address: s.cfg.Address, SupportAddress: s.cfg.SupportAddress, Listen: s.cfg.Listen, Flags: "--",
		Main: s.main, Support: s.support, SupportTLS: supportTLS, Routes: s.cache, MaxConnections: maxConnections,
		Drain: s.cfg.Drain, ShutdownTimeout: s.cfg.ShutdownTimeout,
		Draining: func() { s.log.Info("shutting down", "drain", s.cfg.Drain) },
		Errors:   httpserve.NewErrorLog(s.log, s.registry), Logger: s.log, Registry: s.registry,
	})
	return s, nil
}

func (cfg *Config) fill() error {
	if cfg.Source == nil && len(cfg.Fetch.URLs) == 0 {
		return errors.New("sidecar: neither a source nor a route server")
	}
	if f := cfg.Fetch; f.LKGPath != "" && f.LKGPath == f.RoutesFile {
		return fmt.Errorf("sidecar: %q is both LKG file and routes file", f.LKGPath)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	if cfg.FreshLimit == 0 {
		cfg.FreshLimit = DefaultFreshLimit
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = DefaultShutdownTimeout
	}
	if cfg.Interval == 0 {
		cfg.Interval = poller.DefaultInterval
	}
	if cfg.Fetch.Interval == 0 {
		cfg.Fetch.Interval = dataplane.DefaultInterval
	}
	cfg.Fallback.Pod = cfg.Pod
	return nil
}

// Reload looks at the mode file at once.
func (s *Sidecar) Reload() {
	if s.modes != nil {
		s.modes.poke()
	}
}
