package config

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/trial"
)

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
