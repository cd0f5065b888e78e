// Package query asks the replicas of route servers, wherever they are: behind URLs ([URLs]), in the same pod ([Socket]), or in clusters
// (package forward).
package query

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"

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
	// Post sends a command to the control socket, and returns its JSON answer; nil where only listeners are known.
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

// URLs are places given as arguments: the support listeners of the replicas of one route server.
type URLs struct{}

// NewURLs returns the places for one run.
func NewURLs() Places { return URLs{} }

// Define implements [Places].
func (URLs) Define(*options.Flags) {}

// Args implements [Places].
func (URLs) Args() string { return "URL..." }

// Clusters implements [Places]: arguments that begin with http:// or https:// are replicas of one route server.
func (URLs) Clusters(args []string) ([]Cluster, []string, error) {
	var rest []string
	var replicas []Replica
	for _, a := range args {
		if !IsURL(a) {
			rest = append(rest, a)
			continue
		}
		at, err := url.Parse(a)
		if err != nil || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
			return nil, nil, fmt.Errorf("%q: must be the URL of a support listener, such as http://routesrv:9911", a)
		}
		replicas = append(replicas, Replica{Name: at.Host, Support: &Listener{URL: strings.TrimSuffix(a, "/")}})
	}
	if len(replicas) == 0 {
		return nil, nil, errors.New("must be the URL of the support listener of a route server, such as http://routesrv:9911")
	}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return replicas, nil }}}, rest, nil
}

// Close implements [Places].
func (URLs) Close() {}

// Transport returns a transport like http.DefaultTransport that uses the files.
func Transport(files options.TLSFiles) (*http.Transport, error) {
	config, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key}})
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	return t, err
}

// Socket is the place of the process in the same pod: its control socket, which also accepts commands.
type Socket struct {
	// Folder is the usual state folder of the process.
	Folder string
	// Dial connects to the socket of a state folder.
	Dial func(ctx context.Context, folder string) (net.Conn, error)

	folder    string
	transport *http.Transport
}

// Define implements [Places].
func (s *Socket) Define(flags *options.Flags) {
	flags.Add("--state-dir", options.Text("PATH", &s.folder, s.Folder),
		"Folder of the last-known-good file, which a restarted process serves while its source is unreachable, and of decisions, history and control socket. Empty keeps nothing.")
}

// Args implements [Places].
func (s *Socket) Args() string { return "" }

// Clusters implements [Places].
func (s *Socket) Clusters(args []string) ([]Cluster, []string, error) {
	for _, a := range args {
		if IsURL(a) {
			return nil, nil, fmt.Errorf("%q: this command asks the process in its own pod, not a URL: use kubectl routesrv, or kubectl exec POD -- and the command without the URL", a)
		}
	}
	name, err := os.Hostname() // of the pod
	if err != nil {
		name = "this process"
	}
	s.transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, s.folder) }}
	l := &Listener{URL: "http://localhost", Transport: s.transport}
	r := Replica{Name: name, Support: l, Post: func(ctx context.Context, path string, form url.Values) ([]byte, error) {
		return Post(ctx, l, path, nil, strings.NewReader(form.Encode()))
	}}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }}}, args, nil
}

// Close implements [Places].
func (s *Socket) Close() {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
}

// IsURL reports whether an argument is a URL for HTTP.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}
