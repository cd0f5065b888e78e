package options

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/trial"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
)

// Defaults of the listeners. With manifests and without explicit addresses, the server binds only the loopback interface: that is
// a trial on somebody's machine, and other machines should not see it.
const (
	DefaultAddress         = ":9090"
	DefaultSupportAddress  = ":9911"
	DefaultMaxConnections  = 20_000
	DefaultMaxStreams      = 10_000
	DefaultShutdownTimeout = 30 * time.Second
	LoopbackAddress        = "127.0.0.1:9090"
	LoopbackSupportAddress = "127.0.0.1:9911"
)

// wholeSeconds parses --cache-max-age.
func wholeSeconds(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > time.Hour || d%time.Second != 0 {
		return 0, fmt.Errorf("%s: want whole seconds with their unit, such as 3s, from 0s to 1h", clip(s))
	}
	return d, nil
}

// Listen adds the flags of the listeners and of shutdown.
func (p *Parser) Listen(c *Listen, s *Source) {
	p.Flag("address", Text("HOST:PORT", &c.Address, DefaultAddress, address))
	p.Flag("support-listener", Address(&c.SupportAddress, DefaultSupportAddress))
	p.Flag("wait-for-healthcheck-interval", Duration(&c.WaitForHealthcheckInterval, 45*time.Second, 0, day))
	p.Flag("max-connections", Number(&c.MaxConnections, DefaultMaxConnections, 16, math.MaxInt32))
	p.Flag("max-streams", Number(&c.MaxStreams, DefaultMaxStreams, 0, math.MaxInt32))
	p.Flag("endpoint-debounce", Duration(&c.EndpointDebounce, 0, 0, time.Hour))
	p.Flag("cache-max-age", Parsed("duration", &c.SharedMaxAge, "0s", wholeSeconds))
	p.Flag("enable-profile", Bool(&c.EnableProfile, false))
	p.Flag("block-profile-rate", Number(&c.BlockProfileRate, 0, 0, math.MaxInt32))
	p.Flag("mutex-profile-fraction", Number(&c.MutexProfileFraction, 0, 0, math.MaxInt32))
	p.Flag("memory-profile-rate", Number(&c.MemProfileRate, 0, 0, math.MaxInt32))
	p.check(func() { p.checkListen(c, s) })
}

func (p *Parser) checkListen(c *Listen, s *Source) {
	if len(s.Manifests) > 0 && !p.Given("address") {
		c.Address = LoopbackAddress
		p.Derive("address", c.Address, "--manifests")
	}
	if len(s.Manifests) > 0 && !p.Given("support-listener") {
		c.SupportAddress = LoopbackSupportAddress
		p.Derive("support-listener", c.SupportAddress, "--manifests")
	}
	if c.SupportAddress == "" {
		p.warn("support-listener", "is empty: there are no metrics and no status")
		return
	}
	if _, port, err := net.SplitHostPort(c.Address); err == nil && port != "0" && c.Address == c.SupportAddress {
		p.failf("support-listener", "%s is also -address: want another port", clip(c.SupportAddress))
	}
}

// TLS adds the flags that protect the main listener.
func (p *Parser) TLS(c *httpserve.TLSConfig) {
	p.Flag("enable-tls", Bool(&c.Enable, false))
	p.Flag("enable-mtls", Bool(&c.RequireClientCert, false))
	p.Flag("tls-cert", List(&c.CertFiles))
	p.Flag("tls-key", List(&c.KeyFiles))
	c.MinVersion, _ = parseTLSVersion("1.2")
	p.Flag("tls-min-version", Parsed("version", &c.MinVersion, "1.2", parseTLSVersion))
	p.Flag("mtls-authn-ca", List(&c.CAFiles))
	p.Flag("mtls-authn-append-ca", Bool(&c.AppendSystemCAs, false))
	p.check(func() { p.checkTLS(c) })
}

func (p *Parser) checkTLS(c *httpserve.TLSConfig) {
	asked := "enable-tls"
	if c.RequireClientCert {
		asked, c.Enable = "enable-mtls", true
		p.Derive("enable-tls", "true", "-enable-mtls")
	}
	for _, files := range []struct {
		flag  string
		names []string
	}{{"tls-cert", c.CertFiles}, {"tls-key", c.KeyFiles}, {"mtls-authn-ca", c.CAFiles}} {
		for i, name := range files.names {
			if strings.TrimSpace(name) == "" {
				p.failf(files.flag, "element %d is empty: want names of files with commas between them", i+1)
			}
		}
	}
	switch {
	case len(c.CertFiles) != len(c.KeyFiles):
		p.failf("tls-key", "%d keys for %d certificates of -tls-cert: want one for each", len(c.KeyFiles), len(c.CertFiles))
	case c.Enable && len(c.CertFiles) == 0:
		p.failf(asked, "needs -tls-cert and -tls-key")
	case !c.Enable && len(c.CertFiles) > 0:
		p.warn("tls-cert", "the main listener is plain HTTP all the same, as in Skipper's route server: for TLS set "+
			"--enable-tls, or -enable-mtls to require client certificates, too")
	}
	switch {
	case c.RequireClientCert && len(c.CAFiles) == 0 && !c.AppendSystemCAs:
		p.failf("enable-mtls", "needs the authorities for client certificates: -mtls-authn-ca or -mtls-authn-append-ca")
	case !c.RequireClientCert && len(c.CAFiles) > 0:
		p.warn("mtls-authn-ca", "no client certificate is asked for without -enable-mtls")
	case !c.RequireClientCert && c.AppendSystemCAs:
		p.warn("mtls-authn-append-ca", "no client certificate is asked for without -enable-mtls")
	}
}

// tokenFilters are name prefixes of filters that call a token service.
var tokenFilters = []string{"oauthTokeninfo", "oauthTokenintrospection", "secureOauthTokenintrospection"}

// RequestFilters adds the flag with the filters for requests to the main listener.
func (p *Parser) RequestFilters(dst *[]*eskip.Filter) {
	const name = "route-server-filters"
	p.Flag(name, Parsed("filters", dst, "", parseFilters))
	p.check(func() {
		for _, f := range *dst {
			for _, prefix := range tokenFilters {
				if strings.HasPrefix(f.Name, prefix) {
					p.failf(name, "filter %s is not supported, as no token service is asked here: to know who asks, require client "+
						"certificates (-enable-mtls, -mtls-authn-ca and the filters mtlsAuthn() -> mtlsCN(\"NAME\")), or let only "+
						"the proxies in with a NetworkPolicy", printable(f.Name))
				}
			}
		}
	})
}

// Shards adds the flags that name the services of shared rate limits.
func (p *Parser) Shards(s *Shards) {
	for _, c := range []struct {
		store string
		dst   *Shard
	}{{"redis", &s.Redis}, {"valkey", &s.Valkey}} {
		prefix := "kubernetes-" + c.store + "-service-"
		p.Flag(prefix+"namespace", Text("string", &c.dst.Namespace, ""))
		p.Flag(prefix+"name", Text("string", &c.dst.Name, ""))
		p.Flag(prefix+"port", Number(&c.dst.Port, 6379, 1, 65535))
		p.check(func() {
			switch {
			case c.dst.Namespace != "" && c.dst.Name == "":
				p.warn(prefix+"namespace", "has no effect without -%sname", prefix)
			case c.dst.Namespace == "" && c.dst.Name != "":
				p.warn(prefix+"name", "has no effect without -%snamespace", prefix)
			}
		})
	}
}

// Log adds the flags of the log.
func (p *Parser) Log(l *Log) {
	l.Level = slog.LevelInfo
	p.Flag("application-log-level", Parsed("level", &l.Level, "INFO", parseLevel))
	p.Flag("application-log-json-enabled", Bool(&l.JSON, false))
}

// History adds the flag of the history of objects.
func (p *Parser) History(bytes *int64) {
	*bytes = 256 << 20
	p.Flag("history", Parsed("size", bytes, "256MiB", sizeFrom1MiB[int64]))
}

// defaultSample is the default of Tracing.Sample: 300 proxies that ask every 3 seconds produce one span per second.
const defaultSample = 0.01

// sampleVariable is the variable of the OpenTelemetry specification for the share to trace.
const sampleVariable = "OTEL_TRACES_SAMPLER_ARG"

// Tracing says where to send traces.
type Tracing struct {
	// Endpoint is the URL, with path, that receives spans by OTLP over HTTP; empty turns traces off.
	Endpoint string
	// Sample is the share of reads and answers to trace even if they change nothing, from 0 to 1.
	Sample float64
	// Headers are added to each request; not nil if Endpoint is set.
	Headers http.Header
}

// Tracing adds the flags of traces.
func (p *Parser) Tracing(c *Tracing) {
	p.Flag("otlp-endpoint", Parsed("URL", &c.Endpoint, "", parseCollector))
	c.Sample = defaultSample
	p.check(func() {
		if c.Endpoint == "" {
			return
		}
		var err error
		if c.Headers, err = collectorHeaders(p.environ); err != nil {
			p.failf("otlp-endpoint", "%v", err)
		}
		if text := lookup(p.environ, sampleVariable); text != "" {
			if c.Sample, err = anyShare(text); err != nil {
				p.failf("otlp-endpoint", "the variable %s: %v", sampleVariable, err)
			}
		}
	})
}

// parseCollector checks the URL of a collector, and adds the path of OTLP if it has none.
func parseCollector(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := plainURL(s, "want http(s)://HOST:PORT, or with the path for traces; credentials are for OTEL_EXPORTER_OTLP_HEADERS")
	if err != nil {
		return "", err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// anyShare parses a share from 0 to 1.
func anyShare(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) { // written this way to refuse NaN
		return 0, fmt.Errorf("%s: want a share from 0 to 1, such as 0.01", clip(s))
	}
	return f, nil
}

// collectorHeaders reads the variables of the OpenTelemetry specification: name=value separated by commas, values
// percent-encoded. Errors contain no values, because they are credentials.
func collectorHeaders(environ []string) (http.Header, error) {
	const general, traces = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	from := traces
	if lookup(environ, from) == "" {
		from = general
	}
	headers := make(http.Header)
	for pair := range strings.SplitSeq(lookup(environ, from), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		text, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(text, "\r\n\x00") {
			return nil, fmt.Errorf("the variable %s is not name=value with commas between them, values percent-encoded", from)
		}
		headers.Add(name, text)
	}
	return headers, nil
}

// Events adds the flag of Kubernetes Events. The parser must have the flags of a route server and of a relay.
func (p *Parser) Events(c *RouteServer) {
	p.Flag("events", Bool(&c.Events, false))
	p.check(func() {
		switch {
		case !c.Events:
			return
		case len(c.Upstream.URLs) > 0:
			p.warn("events", "has no effect with --upstream: a relay does not know the objects")
		case !c.Source.Kubernetes:
			p.warn("events", "has no effect with --manifests: there is no API to write to")
		default:
			return
		}
		c.Events = false
		p.Derive("events", "false", "no API to write to")
	})
}

// Review says what a change must pass before it is published.
type Review struct {
	// TrialProxy is the support listener of the trial proxy; nil means that there is none. TrialTraffic is its listener for requests.
	TrialProxy, TrialTraffic *url.URL
	TrialTimeout             time.Duration
	KeepTakeovers            takeover.Policy
}

// Review adds the flags of what a change must pass.
func (p *Parser) Review(c *Review) {
	p.Flag("trial-proxy", Parsed("URL", &c.TrialProxy, "", ListenerURL))
	p.Flag("trial-timeout", Duration(&c.TrialTimeout, trial.DefaultTimeout, time.Second, time.Hour))
	p.Flag("keep-takeovers", Parsed("POLICY", &c.KeepTakeovers, "none", takeover.ParsePolicy))
	p.check(func() {
		if c.TrialProxy == nil {
			return
		}
		port, err := strconv.Atoi(c.TrialProxy.Port())
		if err != nil || port < 2 {
			p.failf("trial-proxy", "%s has no port: want one, such as http://127.0.0.1:9922", c.TrialProxy)
			return
		}
		traffic := *c.TrialProxy
		traffic.Host = net.JoinHostPort(c.TrialProxy.Hostname(), strconv.Itoa(port-1))
		c.TrialTraffic = &traffic
	})
}

// ListenerURL parses the URL of a listener; empty means none. The error is for whoever set a flag.
func ListenerURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: want the URL of a listener, such as http://127.0.0.1:9922", clip(s))
	}
	return u, nil
}
