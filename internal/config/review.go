package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/trial"
)

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
