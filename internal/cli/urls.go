package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

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
func (u *URLs) Define(flags *config.Parser) { u.tls.Define(flags) }

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

// Certified is implemented by places that have these flags.
type Certified interface{ Certificates() TLS }

// Define adds the flags.
func (t *TLS) Define(flags *config.Parser) {
	flags.Ask("cacert", config.Text("FILE", &t.CACert, ""))
	flags.Ask("cert", config.Text("FILE", &t.Cert, ""))
	flags.Ask("key", config.Text("FILE", &t.Key, ""))
	flags.Ask("server-name", config.Text("NAME", &t.ServerName, ""))
}

// Set reports whether anything is set.
func (t TLS) Set() bool { return t != TLS{} }

// Config reads the files.
func (t TLS) Config() (*tls.Config, error) {
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("--cert and --key: want both or none of them")
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
