package cluster

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/kube"
)

// Defaults of [Config].
const (
	DefaultURL      = "http://localhost:8001"
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 1 << 30
)

// serviceAccountDir is where Kubernetes mounts the service account of a pod.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

var (
	// ErrNotInCluster is returned by New when Config.InCluster is set and the environment names no API server.
	ErrNotInCluster = errors.New("kubernetes API server URL could not be constructed from env vars")
	// ErrInvalidCA is returned by New when the file with the certificate authority holds no usable certificate.
	ErrInvalidCA = errors.New("invalid CA")
)

// Config configures which cluster to read, and which of its objects. The first of REST, InCluster and Kubeconfig that is
// set determines how to connect to the API; without any of them, URL is its address.
type Config struct {
	// REST is a complete client configuration. It is copied.
	REST *rest.Config

	// InCluster uses the address, certificate authority and token of the pod (KUBERNETES_SERVICE_HOST,
	// KUBERNETES_SERVICE_PORT and the mounted service account). URL, TokenFile and CAFile are then ignored.
	InCluster bool

	// Kubeconfig is the path of a kubeconfig file. Context is the context in it, default its current context.
	Kubeconfig string
	Context    string

	// URL is the address of the API, default DefaultURL. TokenFile holds a bearer token and is read again about once a
	// minute. CAFile holds the certificate authorities, PEM; the default is the system's.
	URL       string
	TokenFile string
	CAFile    string

	// Selection selects the objects to list. The API server evaluates the selectors.
	kube.Selection

	// EndpointSlices reads EndpointSlices instead of Endpoints.
	EndpointSlices bool

	// Namespaces also reads the namespaces, unless only one namespace is read.
	Namespaces bool

	// Filters adds default filters to each snapshot. It is not called concurrently. It may be nil.
	Filters func(*kube.Snapshot) *kube.Snapshot

	// Timeout limits each request, from connecting to the last byte of the body; default DefaultTimeout.
	Timeout time.Duration

	// MaxBytes limits the body of one answer, both as sent and decompressed; default DefaultMaxBytes.
	MaxBytes int64

	// Logger logs events for operators; nil discards them.
	Logger *slog.Logger

	// Metrics receives the measurements; nil discards them.
	Metrics *Metrics
}

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	c.Timeout, c.MaxBytes = cmp.Or(c.Timeout, DefaultTimeout), cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, NewMetrics(nil))
	if c.Filters == nil {
		c.Filters = func(s *kube.Snapshot) *kube.Snapshot { return s }
	}
	return c
}

// connect returns an HTTP client and the base URL of the API. The client is either for lists, which run one after the
// other, or for streams that stay open side by side.
func (c *Config) connect(lists bool) (*http.Client, *url.URL, error) {
	rc, err := c.Access()
	if err != nil {
		return nil, nil, err
	}
	rc.QPS = -1 // one request per kind and read needs no limit; the default of 5 would stretch a read over seconds
	rc.UserAgent = "routesrv"
	rc.DisableCompression = true // this package requests gzip and decompresses itself, to compare the compressed bytes
	rc.Timeout = 0               // each request has a deadline
	if lists {
		// Sequential requests gain nothing from HTTP/2. Over HTTP/2 an API server sends a compressed list in frames
		// of 4 KB, and each frame costs the transport time and memory.
		rc.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}

	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("API URL %q: %w", rc.Host, err)
	}
	shared, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("API client: %w", err)
	}
	client := *shared // a copy: shared may be http.DefaultClient
	// An API server does not redirect, and client-go would send the token to whatever address the answer names.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client, base, nil
}

// Access returns the client configuration of the API, for clients that do more than read. It reads the files that the
// configuration names, and makes no request.
func (c Config) Access() (*rest.Config, error) {
	switch {
	case c.REST != nil:
		return rest.CopyConfig(c.REST), nil
	case c.InCluster:
		return inCluster(serviceAccountDir)
	case c.Kubeconfig != "":
		return c.fromKubeconfig()
	}
	rc := &rest.Config{Host: cmp.Or(c.URL, DefaultURL)}
	return rc, addFiles(rc, c.TokenFile, c.CAFile)
}

// inCluster is rest.InClusterConfig with the errors that operators know; in addition, an unusable certificate
// authority is an error.
func inCluster(dir string) (*rest.Config, error) {
	// Kubernetes tells a pod the address of the API through the environment; these variables are not settings of this
	// program.
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT") //nolint:forbidigo // see above
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	// As in the reference, a pod ignores proxy settings of its environment for the API of its cluster.
	rc := &rest.Config{Host: "https://" + net.JoinHostPort(host, port), Proxy: http.ProxyURL(nil)}
	return rc, addFiles(rc, filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt"))
}

// Limits of the files with the connection settings of the API, in bytes.
const (
	maxTokenFile      = 1 << 20
	maxCAFile         = 16 << 20 // a system's certificate authorities take about 200 KiB
	maxKubeconfigFile = 16 << 20
)

// checkFile checks a file before client-go reads it. Client-go would block forever on a FIFO without a writer.
func checkFile(path string, limit int64) error {
	f, _, err := durable.Open(path, limit)
	if err != nil {
		return err
	}
	return f.Close()
}

// addFiles adds the named files after checking their contents: an unusable file must fail at the start, not at the
// first request.
func addFiles(rc *rest.Config, tokenFile, caFile string) error {
	if tokenFile != "" {
		token, err := durable.ReadFile(tokenFile, maxTokenFile)
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		if rc.BearerToken = strings.TrimSpace(string(token)); rc.BearerToken == "" {
			return fmt.Errorf("token: %q is empty", tokenFile)
		}
		rc.BearerTokenFile = tokenFile
	}
	if caFile != "" {
		pem, err := durable.ReadFile(caFile, maxCAFile)
		if err != nil {
			return fmt.Errorf("CA: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("%w: no certificate in %q", ErrInvalidCA, caFile)
		}
		rc.TLSClientConfig.CAFile = caFile
	}
	return nil
}
