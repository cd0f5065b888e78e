package cli

import (
	"crypto/tls"
	"errors"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/internal/config"
)

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
func (t *TLS) Define(g config.Section) {
	g.Ask("cacert", "", config.Text("FILE", &t.CACert, ""), "Authorities of the servers' certificates, PEM, instead of those of the system.")
	g.Ask("cert", "", config.Text("FILE", &t.Cert, ""), "Client certificate to show to servers that ask for one, PEM. Needs --key.")
	g.Ask("key", "", config.Text("FILE", &t.Key, ""), "Key of the client certificate, PEM.")
	g.Ask("server-name", "", config.Text("NAME", &t.ServerName, ""), "Name that the certificates of the servers must have, instead of the host in the URL.")
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
