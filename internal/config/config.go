// Package config turns command line, environment and configuration file into plain values for the binaries.
//
// The flags carry the names, defaults and forms of Skipper's, so that the arguments of an existing Deployment of its
// route server work as they are; what only this route server has is added beside them. A setting may come from four
// places, and the first that has it counts:
//
//  1. the command line: -flag=value, -flag value, with one dash or two; a switch is -flag or -flag=false
//  2. the environment: ROUTESRV_FLAG_ and the name in capitals with underscores, such as ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT
//  3. the file that -config-file names: YAML with the names of the flags as keys
//  4. the default
//
// A value of a higher place replaces that of a lower one also where a flag may be repeated: lists are not joined.
//
// Nothing is silently ignored. A flag of Skipper that means nothing to a route server gives one [Warning] that says why; a
// flag that is unknown, or that asks for another table or for protection that cannot be had here, gives an [Error] that
// says what to do instead. All errors are collected before the parser gives up, because an operator who moves a
// Deployment over wants to see them at once. Values of flags that are not used here are never repeated in a message:
// among them are passwords.
//
// The groups of flags ([Parser.Source], [Parser.Compile], …) fill one struct each, so that another binary that computes
// tables can offer the same flags. The package reads nothing but the configuration file, through [Env]; it opens no
// certificate, no manifest and no connection, and it knows no clock and no global state.
package config

import (
	"io"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// RouteServer is everything that can be said about a route server. [ParseRouteServer] checks it: a consumer may rely on
// the limits that the fields name.
type RouteServer struct {
	Source   Source
	Upstream Upstream        // of a relay; if it has a URL, Source has neither Kubernetes nor Manifests
	Compile  compile.Options // complete, with EndpointSlices and HealthcheckAccessLog taken from the other parts
	Poll     Poll
	Guard    guard.Config // without zero for shares and times, but for the MaxLoss of a relay if it was not set: see relay.Config
	Listen   Listen
	TLS      TLS
	// RequestFilters is the chain for requests to the main listener, in order; nil if there is none. The names of the
	// filters are not checked here.
	RequestFilters []*eskip.Filter
	Shards         Shards
	Log            Log
	Tracing        Tracing
	// Peers are the URLs under which the other replicas answer, http(s)://HOST:PORT, where each address of the host is one; empty if
	// nobody is to be asked. Its certificates are those of Upstream.
	Peers []string
	// Events says that problems are written as Kubernetes Events, and EventsNamespace where the Lease is for which the replicas
	// compete. Events is false without a Kubernetes API to write to.
	Events          bool
	EventsNamespace string
	// StateDir is the folder of the checkpoint; empty if there is to be none.
	StateDir string
}

// Source says where objects are read. Exactly one of Kubernetes, Manifests and the URLs of Upstream is set after
// [ParseRouteServer].
type Source struct {
	// Kubernetes reads an API server: in the cluster of the pod (InCluster), of Kubeconfig and the Context in it, or at
	// URL. An empty URL without the other two means the default of kubectl proxy. TokenFile is for URL.
	Kubernetes bool
	InCluster  bool
	URL        string
	TokenFile  string
	Kubeconfig string
	Context    string

	// Manifests are files and folders to read instead.
	Manifests []string

	// Namespace restricts what is read; empty means all.
	Namespace string
	// EndpointSlices reads these instead of Endpoints. It always equals Compile.EndpointSlices.
	EndpointSlices bool
	// Selectors are label selectors by kind: equality, or mere presence if the value is empty. A kind without one is
	// not in the map; nil if there is none.
	Selectors map[kube.Kind]map[string]string
	// Watch follows an API server by watches, with a list of everything at each ReconcileInterval, instead of listing
	// everything for every read.
	Watch             bool
	ReconcileInterval time.Duration
	// ProbeInterval is how often an API server that does not answer is asked for a little; 0 leaves it at the growing
	// delays of reads and watches. There is no flag for it.
	ProbeInterval time.Duration
	// RequestTimeout is the limit of each request to the API, above zero.
	RequestTimeout time.Duration
	// DefaultFiltersDir is the folder of the default filters of services; empty if there is none.
	DefaultFiltersDir string
}

// Poll says how often the source is read.
type Poll struct {
	Interval   time.Duration // between the starts of two reads, at least 1 ms
	MaxBackoff time.Duration // the longest delay after failures, at least Interval
}

// Listen says where the route server listens, and how it stops.
type Listen struct {
	// Address is the main listener. SupportAddress is the listener for metrics; empty if there is to be none.
	Address        string
	SupportAddress string

	// WaitForHealthcheckInterval is how long everything is served after the signal to stop; ShutdownTimeout is how long
	// open requests may take after that, above zero.
	WaitForHealthcheckInterval time.Duration
	ShutdownTimeout            time.Duration

	// MaxConnections is how many connections the main listener holds, if the limit of open files allows as many.
	MaxConnections int
	// MaxStreams is how many clients may follow the table; 0 is none.
	MaxStreams int
	// SharedMaxAge is for how long HTTP caches may serve an answer without asking again, in whole seconds; 0 is not at all.
	SharedMaxAge time.Duration
	// ChangeBudget is how long changes that only add endpoints may wait; 0 is not at all.
	ChangeBudget time.Duration
	// ProblemNamespaces is for how many namespaces problems are counted; 0 is none.
	ProblemNamespaces int

	// EnableProfile serves profiles on the support listener. The rates are those of package runtime; zero leaves the
	// runtime's own.
	EnableProfile        bool
	BlockProfileRate     int
	MutexProfileFraction int
	MemProfileRate       int
}

// TLS says how the main listener is protected. If Enable is false, the other fields mean nothing.
type TLS struct {
	// Enable serves TLS. MTLS also requires and verifies client certificates; it implies Enable.
	Enable bool
	MTLS   bool
	// CertFiles and KeyFiles belong together by their position: equally long, and not empty with Enable.
	CertFiles []string
	KeyFiles  []string
	// CAFiles and AppendSystemCAs are the authorities for client certificates. With MTLS there is at least one.
	CAFiles         []string
	AppendSystemCAs bool
	// MinVersion is a constant of crypto/tls.
	MinVersion uint16
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

// Levels beside those of slog and poller.LevelTrace, for the names that Skipper has and slog has not.
const (
	LevelFatal = slog.LevelError + 4
	LevelPanic = slog.LevelError + 8
)

// Log says what is logged.
type Log struct {
	Level slog.Level
	JSON  bool
}

// Env is what the parser sees of the world.
type Env struct {
	// Environ are the environment variables, as os.Environ gives them.
	Environ []string
	// ReadFile reads the configuration file; os.ReadFile will do. It is called at most once. With nil, a configuration
	// file is an error.
	ReadFile func(name string) ([]byte, error)
	// Output is where help is printed; nil means nowhere.
	Output io.Writer
}
