// Package config turns command line, environment and configuration file into plain values for the programs, and these into parts that
// several programs have: logger, source, transport. It also runs a program, from signals to the exit status ([Program]).
//
// The flags have the names, defaults and forms of Skipper's flags, so that the arguments of an existing Deployment of its route
// server work unchanged; this route server adds its own flags. A setting may come from four places, in this order of precedence:
//
//  1. the command line: -flag=value, -flag value, with one dash or two; a switch is -flag or -flag=false
//  2. the environment: ROUTESRV_FLAG_ and the name in capitals with underscores, such as ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT
//  3. the file that -config-file names: YAML with the names of the flags as keys
//  4. the default
//
// A value from a higher place replaces one from a lower place, even for repeatable flags: lists are not joined.
//
// Nothing is silently ignored. A flag of Skipper without effect on a route server causes one [Warning] that says why. An unknown
// flag, or one that requests a different table or a protection that this server does not have, causes an [Error] that says what
// to do instead. The parser collects all errors before it gives up, because an operator who migrates a Deployment wants to see
// them at once. Messages never contain the values of flags that are not used here: some are passwords.
//
// The groups of flags ([Parser.Source], [Parser.Compile], …) fill one struct each, so that other binaries that compute tables can
// offer the same flags. Parsing reads only the configuration file, through [Env]. It opens no certificate, manifest or
// connection, and uses no clock and no global state.
package options

import (
	"io"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/source/cluster"
)

// RouteServer is the complete configuration of a route server. [ParseRouteServer] checks it: its users may rely on the limits
// stated for the fields.
type RouteServer struct {
	Source Source
	// Upstream are the route servers whose table a relay serves instead of compiling one, the preferred one first; without URLs, this
	// server is not a relay. With one, Source has neither Kubernetes nor Manifests. Only what flags set is set.
	Upstream    dataplane.Config
	UpstreamTLS TLSFiles      // for Upstream and Peers
	Compile     rules.Options // complete; EndpointSlices and HealthcheckAccessLog are copied from the other parts
	Poll
	Guard guard.Config // shares and times are above zero, except an unset MaxLoss, for which a relay has another default
	Listen
	// Review says what a change must pass before it is published.
	Review Review
	// Canary says how changes soak.
	Canary Canary
	// History is how many bytes the history of objects may have.
	History int64
	// RefuseTakeovers says which takeovers a webhook refuses: none, namespace or object.
	RefuseTakeovers string
	// TLS protects the main listener. CertFiles and KeyFiles correspond by position: they have the same length, and with Enable at
	// least one element. RequireClientCert implies Enable, and at least one authority.
	TLS httpserve.TLSConfig
	// RequestFilters is the filter chain for requests to the main listener, in order; nil if there is none. The names of the
	// filters are not checked here.
	RequestFilters []*eskip.Filter
	Shards
	Log     Log
	Tracing Tracing
	// Peers are the URLs of the other replicas, http(s)://HOST:PORT, where each address of the host is one replica; empty if no
	// replica is to be asked. Requests to them use UpstreamTLS.
	Peers []string
	// Events turns on writing problems as Kubernetes Events. It is false without a Kubernetes API to write to.
	Events bool
	// StateDir is the folder of the last-known-good file, the decisions and the control socket; empty means none of them.
	StateDir string
}

// Source says where to read objects. After [ParseRouteServer], exactly one of Kubernetes, Manifests and the URLs of Upstream is
// set.
type Source struct {
	// Kubernetes reads the API server that the embedded Config reaches. Its Selection is for Manifests, too, its EndpointSlices always equals
	// Compile.EndpointSlices, and its Namespaces follows from Review.KeepTakeovers.
	Kubernetes bool
	cluster.Config
	// Manifests are files and folders to read instead.
	Manifests []string
	// Watch follows an API server with watches instead of listing everything for every read.
	Watch bool
	// DefaultFiltersDir is the folder with the default filters of services; empty means none.
	DefaultFiltersDir string
}

// Poll says how often to read the source.
type Poll struct {
	Interval   time.Duration // between the starts of two reads, at least 1 ms
	MaxBackoff time.Duration // the longest delay after failures, at least Interval
}

// Listen configures the listeners and the shutdown of the route server.
type Listen struct {
	// Address is the main listener. SupportAddress is the listener for metrics; empty turns it off.
	Address        string
	SupportAddress string

	// WaitForHealthcheckInterval is how long to keep serving after the signal to stop. ShutdownTimeout, above zero, is how long
	// open requests may then take.
	WaitForHealthcheckInterval time.Duration
	ShutdownTimeout            time.Duration

	// MaxConnections is how many connections the main listener holds, if the limit of open files allows that many.
	MaxConnections int
	// MaxStreams is how many clients may follow the table; 0 turns streams off.
	MaxStreams int
	// SharedMaxAge is how long HTTP caches may serve an answer without asking again, in whole seconds; 0 means they must ask
	// every time.
	SharedMaxAge time.Duration
	// EndpointDebounce is how long changes that only add endpoints may wait; 0 serves them at once.
	EndpointDebounce time.Duration

	// EnableProfile serves profiles on the support listener. The rates are the ones of package runtime; zero keeps the runtime's
	// default.
	EnableProfile        bool
	BlockProfileRate     int
	MutexProfileFraction int
	MemProfileRate       int
}

// Shards are the services whose addresses are served under /swarm/redis/shards and /swarm/valkey/shards.
type Shards struct {
	Redis  Shard
	Valkey Shard
}

// Shard is one such service.
type Shard struct {
	Namespace string
	Name      string
	Port      int // 1 to 65535
}

// Configured reports whether a service is named.
func (s Shard) Configured() bool { return s.Namespace != "" && s.Name != "" }

// Log levels in addition to those of slog and poller.LevelTrace, for the names of Skipper that slog does not have.
const (
	LevelFatal = slog.LevelError + 4
	LevelPanic = slog.LevelError + 8
)

// Log configures logging.
type Log struct {
	Level slog.Level
	JSON  bool
}

// Env is the environment of the parser.
type Env struct {
	// Environ holds the environment variables in the form of os.Environ.
	Environ []string
	// ReadFile reads the configuration file, like os.ReadFile. It is called at most once. If it is nil, a configuration file is
	// an error.
	ReadFile func(name string) ([]byte, error)
	// Output receives the help text; nil discards it.
	Output io.Writer
}

// NewRouteServer returns a parser with all flags of the route server, which fills c. The caller may add its own flags before
// parsing.
func NewRouteServer(cmd Command, c *RouteServer) *Parser {
	p := NewParser(cmd)
	p.Source(&c.Source)
	p.Poll(&c.Poll)
	p.Compile(&c.Compile)
	p.Guard(&c.Guard, guard.DefaultObjectLoss, guard.DefaultKeep)
	p.Review(&c.Review)
	p.Canary(&c.Canary)
	c.RefuseTakeovers = "none"
	p.Flag("refuse-takeovers", Choice(&c.RefuseTakeovers, "none", "namespace", "object"))
	p.Listen(&c.Listen, &c.Source)
	p.TLS(&c.TLS)
	p.RequestFilters(&c.RequestFilters)
	p.Shards(&c.Shards)
	p.Log(&c.Log)
	p.Tracing(&c.Tracing)
	p.Flag("state-dir", Text("string", &c.StateDir, ""))
	p.History(&c.History)
	p.Upstream(c)
	p.Peers(c)
	p.Events(c)
	p.Timing(&c.Source, &c.Poll, &c.Upstream.FullEvery, &c.Upstream.Timeout, ShutdownTime(&c.Listen.ShutdownTimeout, DefaultShutdownTimeout))
	p.CompileFrom(&c.Compile, &c.Source, &c.Log)
	p.check(func() { c.Source.Namespaces = c.Review.KeepTakeovers.Routes > 0 })
	return p
}

// CompileFrom fills the options of the compiler that follow from other groups of flags, once those are parsed.
func (p *Parser) CompileFrom(o *rules.Options, s *Source, l *Log) {
	p.check(func() {
		o.EndpointSlices = s.EndpointSlices
		o.HealthcheckAccessLog = l.Level <= slog.LevelDebug // as in the reference
	})
}

// ParseRouteServer reads the configuration of the route server from its arguments, without the name of the program, and from env.
// The caller must log the warnings, even with an error.
//
// The error is [ErrHelp] after printing the help to env.Output, [ErrVersion] if the version was requested, or [ErrChecked] if only a check
// was requested, the settings are valid, and env.Output has the result. Otherwise it joins an [*Error] for each mistake.
func ParseRouteServer(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	return parsed(&c, routeServerParser(&c), args, env)
}

// parsed parses, and returns what the parser fills, or nil with an error.
func parsed[T any](c *T, p *Parser, args []string, env Env) (*T, []Warning, error) {
	_, warnings, err := p.Parse(args, env)
	if err != nil {
		return nil, warnings, err
	}
	return c, warnings, nil
}

// routeServerParser returns the parser of the route server itself.
func routeServerParser(c *RouteServer) *Parser {
	p := NewRouteServer(Command{Name: "routesrv", Skipper: true}, c)
	p.check(func() { p.requireSource(c) })
	return p
}

// Compile is what the command compile does.
type Compile struct {
	RouteServer
	// Against is the support listener of the route server that is asked what the manifests would take from others; empty means that the
	// table is printed. Output is the form of its answer.
	Against, Output string
}

// ParseCompile is ParseRouteServer for the command that prints a table. Its positional arguments are manifests, like the values
// of --manifests, and replace a cluster that other settings name.
func ParseCompile(args []string, env Env) (*Compile, []Warning, error) {
	c := Compile{Output: "text"}
	p := NewRouteServer(Command{Name: "routesrv compile", Args: "PATH...", MaxArgs: -1, Skipper: true}, &c.RouteServer)
	p.Ask("against", Text("URL", &c.Against, ""))
	p.Ask("output", Choice(&c.Output, "text", "json", "markdown"))
	p.take = func(paths []string) {
		if len(paths) > 0 && c.Source.Kubernetes {
			p.warn("kubernetes", "has no effect: the manifests are read")
			c.Source.Kubernetes = false
		}
		c.Source.Manifests = append(c.Source.Manifests, paths...)
		if len(c.Upstream.URLs) > 0 {
			p.warn("upstream", "has no effect: the manifests are read")
			c.Upstream.URLs = nil
		}
	}
	p.check(func() { p.requireSource(&c.RouteServer) })
	return parsed(&c, p, args, env)
}

// DefaultWebhookAddress is the default main listener of a webhook.
const DefaultWebhookAddress = ":9443"

// ParseWebhook is [ParseRouteServer] for the webhook command. It always serves TLS, so the settings must name a certificate. The
// default address is [DefaultWebhookAddress].
func ParseWebhook(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	p := NewRouteServer(Command{Name: "routesrv webhook", Skipper: true}, &c)
	p.take = func([]string) { // before the settings are checked
		if len(c.TLS.CertFiles) == 0 {
			p.failf("tls-cert", "API servers talk to webhooks by TLS only: set -tls-cert and -tls-key")
		} else {
			c.TLS.Enable = true
			p.Derive("enable-tls", "true", "routesrv webhook")
		}
		if !p.Given("address") {
			c.Listen.Address = DefaultWebhookAddress
			p.Derive("address", DefaultWebhookAddress, "routesrv webhook")
		}
		if len(c.Upstream.URLs) > 0 {
			p.failf("upstream", "a webhook reads the objects itself: set -kubernetes instead")
		}
	}
	p.check(func() { p.requireSource(&c) })
	return parsed(&c, p, args, env)
}
