package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
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
func (u *URLs) Define(g config.Section) { u.tls.Define(g) }

// Certificates implements [Certified].
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
		if !isURL(a) {
			rest = append(rest, a)
			continue
		}
		at, err := url.Parse(a)
		if err != nil || at.Host == "" {
			return nil, nil, fmt.Errorf("%q is not a URL such as http://routesrv:9911", a)
		}
		if at.RawQuery != "" || at.Fragment != "" {
			return nil, nil, fmt.Errorf("%q: want the URL of a support listener, without a query", a)
		}
		replicas = append(replicas, Replica{
			Name: at.Host, Support: &Listener{URL: strings.TrimSuffix(a, "/"), Transport: u.transport},
		})
	}
	switch {
	case len(replicas) == 0:
		return nil, nil, fmt.Errorf("want the URL of the support listener of a route server, such as http://routesrv:9911")
	case len(replicas) > maxURLs:
		return nil, nil, fmt.Errorf("%d URLs, limit %d", len(replicas), maxURLs)
	}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return replicas, nil }}}, rest, nil
}

// Complete implements [Places].
func (u *URLs) Complete(string) []string { return nil }

// Close implements [Places].
func (u *URLs) Close() {
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
}
