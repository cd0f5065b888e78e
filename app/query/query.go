// Package query asks the replicas of route servers, wherever they are: behind URLs ([URLs]), in the same pod ([Socket]), or in clusters
// (package forward).
//
// [Ask] asks clusters concurrently, each with its own time limit: one that does not answer is named in its [Reply], and delays the others
// no longer than that limit.
package query

import (
	"context"
	"net"
	"net/http"
	"net/url"

	"github.com/routesrv/routesrv/app/options"
)

// Cluster is a route server with all its replicas.
type Cluster struct {
	// Name is the name of the context; a command that asks the only cluster may leave it empty.
	Name string
	// Find returns the replicas. It is called again after a replica failed, never concurrently.
	Find func(ctx context.Context) ([]Replica, error)
}

// Replica is one process of a route server.
type Replica struct {
	Name string
	// Fault is why this replica cannot be queried, such as a pending pod; otherwise empty.
	Fault string
	// Support is its support listener.
	Support *Listener
	// Host is the name of its main listener, to which Dial connects; Dial is nil if only the support listener is known.
	Host string
	Dial func(ctx context.Context, network, host string) (net.Conn, error)
	// Post sends a command to the control socket of the replica, and returns its JSON answer; by is replaced where the API server knows the user better.
	// It is nil where only listeners are known.
	Post func(ctx context.Context, path string, form url.Values) ([]byte, error)
}

// Listener is the address of one listener.
type Listener struct {
	URL       string            // without path, such as http://localhost:9911
	Transport http.RoundTripper // nil means http.DefaultTransport
}

// Places are the route servers that a command asks.
type Places interface {
	// Define adds the flags that choose the route servers.
	Define(*options.Flags)
	// Args is the part of the arguments in help that names the places, such as "URL..."; empty if only flags choose them.
	Args() string
	// Clusters removes its own arguments from args, and returns the route servers and the other arguments. It does not connect.
	Clusters(args []string) (clusters []Cluster, rest []string, err error)
	// Close ends all connections.
	Close()
}
