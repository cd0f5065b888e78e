package query

import (
	"context"
	"crypto/tls"
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

// maxURLs is how many replicas can be named.
const maxURLs = 200

// URLs are places given as arguments: the support listeners of the replicas of one route server.
type URLs struct {
	tls       TLS
	transport *http.Transport
}

// NewURLs returns the places for one run.
func NewURLs() Places { return &URLs{} }

// Define implements [Places].
func (u *URLs) Define(flags *options.Flags) { u.tls.Define(flags) }

// Certificates implements [Places].
func (u *URLs) Certificates() TLS { return u.tls }

// Args implements [Places].
func (u *URLs) Args() string { return "URL..." }

// Clusters implements [Places]: arguments that begin with http:// or https:// are replicas of one route server.
func (u *URLs) Clusters(args []string) ([]Cluster, []string, error) {
	var rest []string
	var replicas []Replica
	var err error
	if u.transport, err = u.tls.Transport(); err != nil {
		return nil, nil, err
	}
	for _, a := range args {
		if !IsURL(a) {
			rest = append(rest, a)
			continue
		}
		at, err := url.Parse(a)
		if err != nil || at.Host == "" {
			return nil, nil, fmt.Errorf("%q is not a URL such as http://routesrv:9911", a)
		}
		if at.RawQuery != "" || at.Fragment != "" {
			return nil, nil, fmt.Errorf("%q: must be the URL of a support listener, without a query", a)
		}
		replicas = append(replicas, Replica{
			Name: at.Host, Support: &Listener{URL: strings.TrimSuffix(a, "/"), Transport: u.transport},
		})
	}
	switch {
	case len(replicas) == 0:
		return nil, nil, errors.New("must be the URL of the support listener of a route server, such as http://routesrv:9911")
	case len(replicas) > maxURLs:
		return nil, nil, fmt.Errorf("%d URLs, limit %d", len(replicas), maxURLs)
	}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return replicas, nil }}}, rest, nil
}

// Close implements [Places].
func (u *URLs) Close() {
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
}

// TLS configures which servers to trust, and the client certificate of a command. The zero value trusts the system's authorities
// and presents no certificate.
type TLS struct {
	CACert     string // file of authorities, PEM, instead of the system's
	Cert, Key  string // files of the client certificate; set both or neither
	ServerName string // name that the server's certificate must have, instead of the host of the URL
}

// Define adds the flags.
func (t *TLS) Define(flags *options.Flags) {
	flags.Add("--cacert", options.Text("FILE", &t.CACert, ""),
		"Authorities of the servers' certificates, PEM, instead of those of the system.")
	flags.Add("--cert", options.Text("FILE", &t.Cert, ""),
		"Client certificate to show to servers that ask for one, PEM. Needs --key.")
	flags.Add("--key", options.Text("FILE", &t.Key, ""), "Key of the client certificate, PEM.")
	flags.Add("--server-name", options.Text("NAME", &t.ServerName, ""),
		"Name that the certificates of the servers must have, instead of the host in the URL.")
}

// Set reports whether anything is set.
func (t TLS) Set() bool { return t != TLS{} }

// Config reads the files.
func (t TLS) Config() (*tls.Config, error) {
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("set both --cert and --key, or neither")
	}
	c, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: t.CACert, CertFile: t.Cert, KeyFile: t.Key, ServerName: t.ServerName}})
	if c == nil && err == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c, err
}

// Transport returns a transport like http.DefaultTransport with these certificates.
func (t TLS) Transport() (*http.Transport, error) {
	c, err := t.Config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = c
	return transport, nil
}

// Socket is the place of the process in the same pod: its control socket, which answers what the support listener answers, and
// accepts held tables.
type Socket struct {
	// Folder is the usual state folder of the process.
	Folder string
	// Dial connects to the socket of a state folder.
	Dial func(ctx context.Context, folder string) (net.Conn, error)

	folder    string
	transport *http.Transport
}

// Certificates implements [Places].
func (s *Socket) Certificates() TLS { return TLS{} }

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
		if u, err := url.Parse(a); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
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
		p, err := Do(ctx, l, http.MethodPost, path, nil, "application/json", strings.NewReader(form.Encode()))
		switch {
		case err != nil:
			return nil, err
		case p.Status != http.StatusOK:
			return nil, p.Refusal(path)
		}
		return p.Body, nil
	}}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }}}, args, nil
}

// Close implements [Places].
func (s *Socket) Close() {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
}

// PostCommand returns the command that sends a command to the control socket in a pod.
func PostCommand(program, path string, form url.Values) []string {
	return []string{program, "post", path, form.Encode()}
}

// IsURL reports whether an argument is a URL for HTTP.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}
