package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
)

// Upstream adds the flags of a relay. The parser must have the flags of a route server.
func (p *Parser) Upstream(c *RouteServer) {
	u := &c.Upstream
	p.Flag("upstream", URLs(&u.URLs))
	u.UpdateMode = dataplane.Auto
	p.Flag("update-mode", Choice((*string)(&u.UpdateMode), "auto", "stream", "poll"))
	p.Flag("max-table-bytes", Size(&u.MaxBytes, "0"))
	p.UpstreamTLS(&c.UpstreamTLS)
	p.check(func() { p.checkUpstream(c) })
}

// upstreamTLS is the flag of [TLSFiles].
const upstreamTLS = "upstream-tls"

// UpstreamTLS adds the flag with the files of connections to route servers.
func (p *Parser) UpstreamTLS(f *TLSFiles) {
	settings := []Setting{
		{"ca", Text("PATH", &f.CA, "")},
		{"cert", Text("PATH", &f.Cert, "")},
		{"key", Text("PATH", &f.Key, "")},
	}
	p.Flag(upstreamTLS, Settings(nil, nil, settings...))
	p.check(func() {
		if (f.Cert == "") != (f.Key == "") {
			p.failf(upstreamTLS, "client certificate: want both cert and key, or neither")
		}
	})
}

// checkUpstream reports contradictions as errors, and warns about flags without effect.
func (p *Parser) checkUpstream(c *RouteServer) {
	u := &c.Upstream
	if len(u.URLs) == 0 {
		for _, o := range p.flags {
			switch {
			case o.group.Name != "Upstream" || o.Name == "peers" || !p.given(o.Name):
			case o.Name != upstreamTLS:
				p.warn(o.Name, "has no effect without --upstream")
			case len(c.Peers) == 0:
				p.warn(o.Name, "has no effect without --upstream or --peers")
			}
		}
		return
	}
	switch {
	case c.Source.Kubernetes:
		p.failf("upstream", "cannot be combined with -kubernetes: the table is compiled here or comes from another route "+
			"server, not both")
	case len(c.Source.Manifests) > 0:
		p.failf("upstream", "cannot be combined with --manifests: the table is compiled here or comes from another route "+
			"server, not both")
	}
	if !p.guardSet["max-loss"] {
		c.Guard.MaxLoss = 0 // a relay has its own default: it passes losses
	}
	if !p.guardSet["hold"] {
		c.Guard.Hold = guard.DefaultHold // of a whole table
	}
	for _, o := range p.flags {
		if o.group.Objects && o.Name != "kubernetes" && o.Name != "manifests" && p.given(o.Name) {
			p.warn(o.Name, "has no effect with --upstream, whose table is served unchanged")
		}
	}
}

// maxPeers is the maximum number of names.
const maxPeers = 16

// Peers adds the flag of the other replicas. The parser must have the flags of a route server and of a relay.
func (p *Parser) Peers(c *RouteServer) {
	p.Flag("peers", Parsed("HOST:PORT", &c.Peers, "", func(s string) (list []string, err error) {
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			if _, err := peersURL(one, "http"); err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		if len(list) > maxPeers {
			return nil, fmt.Errorf("want at most %d, separated by commas", maxPeers)
		}
		return list, nil
	}))
	p.check(func() { p.checkPeers(c) })
}

// checkPeers converts the values to URLs.
func (p *Parser) checkPeers(c *RouteServer) {
	scheme := "http"
	if c.TLS.Enable {
		scheme = "https"
	}
	for i, one := range c.Peers {
		if u, err := peersURL(one, scheme); err == nil { // otherwise it has already been refused
			c.Peers[i] = u
		}
	}
	if len(c.Peers) > 0 {
		p.Derive("peers", strings.Join(c.Peers, ","), p.from("peers"))
	}
}

// peersURL converts HOST:PORT or a URL to a URL.
func peersURL(s, scheme string) (string, error) {
	const want = "want HOST:PORT or http(s)://HOST:PORT"
	text := s
	if !strings.Contains(s, "://") {
		text = scheme + "://" + s
	}
	u, err := plainURL(text, want)
	switch {
	case err != nil:
		return "", err
	case strings.Trim(u.Path, "/") != "":
		return "", fmt.Errorf("%s: "+want, clip(u.Redacted()))
	case u.Port() == "":
		return "", fmt.Errorf("%s: "+want+", with the port that the replicas listen on", clip(s))
	}
	if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%s: want a port from 1 to 65535", clip(s))
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), nil
}
