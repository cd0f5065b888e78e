package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/pflag"
)

// TLS configures which servers to trust, and the client certificate of a command. The zero value trusts the system's authorities
// and presents no certificate.
type TLS struct {
	CACert     string // file of authorities, PEM, instead of the system's
	Cert, Key  string // files of the client certificate; set both or neither
	ServerName string // name that the server's certificate must have, instead of the host of the URL
}

// Usage texts of the flags, which several commands have.
const (
	CACertUsage     = "Authorities of the servers' certificates, PEM, instead of those of the system."
	CertUsage       = "Client certificate to show to servers that ask for one, PEM. Needs --key."
	KeyUsage        = "Key of the client certificate, PEM."
	ServerNameUsage = "Name that the certificates of the servers must have, instead of the host in the URL."
)

// Define adds the flags.
func (t *TLS) Define(set *pflag.FlagSet) {
	set.StringVar(&t.CACert, "cacert", "", CACertUsage)
	set.StringVar(&t.Cert, "cert", "", CertUsage)
	set.StringVar(&t.Key, "key", "", KeyUsage)
	set.StringVar(&t.ServerName, "server-name", "", ServerNameUsage)
}

// Set reports whether anything is set.
func (t TLS) Set() bool { return t != TLS{} }

// Config reads the files.
func (t TLS) Config() (*tls.Config, error) {
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("--cert and --key: want both or none of them")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CACert != "" {
		pem, err := readFile(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert: no certificate in %q", t.CACert)
		}
	}
	if t.Cert != "" {
		pair, err := t.pair()
		if err != nil {
			return nil, fmt.Errorf("--cert %q and --key %q: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Transport returns a transport like http.DefaultTransport with these certificates.
func (t TLS) Transport() (*http.Transport, error) {
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return transport, nil
}

// maxFile limits a file of certificates or keys, in bytes.
const maxFile = 16 << 20

func (t TLS) pair() (tls.Certificate, error) {
	cert, err := readFile(t.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(t.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// readFile reads a file of limited size. Package durable is for Unix only, but the plugin also runs on Windows.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return content, err
}
