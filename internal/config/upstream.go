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
	g := p.Group(GroupUpstream)
	g.Own("upstream", URLs(&u.URLs), "Serve the table of another route server unchanged, instead of reading objects. The preferred one comes first; may be "+
		"repeated, or be a list separated by commas. The relay fetches the full table and makes the tables of all zones from "+
		"it. -source-poll-timeout sets how often it asks, and --state-dir keeps the last table. The "+
		"guard passes losses, because the other server has judged them, unless --guard=max-loss is set.")
	p.UpdateMode(GroupUpstream, &u.UpdateMode)
	p.MaxTable(GroupUpstream, &u.MaxBytes)
	p.UpstreamTLS(GroupUpstream, &c.UpstreamTLS)
	p.check(func() { p.checkUpstream(c) })
}

// UpdateMode adds the flag that says how to get new tables.
func (p *Parser) UpdateMode(g Group, dst *dataplane.UpdateMode) {
	p.Group(g).Own("update-mode", Parsed("MODE", dst, dataplane.Auto.String(), dataplane.ParseUpdateMode), "How to get new tables from --upstream: "+
		"stream (the route server sends changes when they happen), poll (ask for them), or auto (stream, and poll while streams do not work; it tries a "+
		"stream again after half a minute, and later up to every five minutes). Changes arrive as deltas either way, where the route server has them.")
}

// MaxTable adds the flag that limits the tables of route servers.
func (p *Parser) MaxTable(g Group, dst *int64) {
	p.Group(g).Own("max-table-bytes", Size(dst, "0"), "Largest table to accept from --upstream, such as 512MiB. 0 means four times "+
		"the last table and at least 64 MiB, or 512 MiB before the first table, and at most a quarter of the memory limit (of "+
		"the cgroup, or GOMEMLIMIT).")
}

// upstreamTLS is the flag of [TLSFiles].
const upstreamTLS = "upstream-tls"

// UpstreamTLS adds the flag with the files of connections to route servers.
func (p *Parser) UpstreamTLS(g Group, f *TLSFiles) {
	settings := []Setting{
		{"ca", Text("PATH", &f.CA, ""), "CAs to trust instead of those of the system."},
		{"cert", Text("PATH", &f.Cert, ""), "certificate to present."},
		{"key", Text("PATH", &f.Key, ""), "private key of that certificate."},
	}
	p.Group(g).Own(upstreamTLS, Settings(nil, nil, settings...), Describe("Files for TLS to other route servers, PEM, read again when they change.", settings...))
	p.check(func() {
		if (f.Cert == "") != (f.Key == "") {
			p.failf(upstreamTLS, "client certificate: want both cert and key, or neither")
		}
	})
}

// groupsOfObjects are the groups of flags about objects, which a relay does not see.
var groupsOfObjects = []Group{
	GroupSelection, GroupGenerated, GroupConversion, GroupAnnotations, GroupEastWest, GroupProcessing, GroupShards,
}

// checkUpstream reports contradictions as errors, and warns about flags without effect.
func (p *Parser) checkUpstream(c *RouteServer) {
	u := &c.Upstream
	if len(u.URLs) == 0 {
		for _, o := range p.flags {
			switch {
			case o.group != GroupUpstream || o.name == "peers" || !p.given(o.name):
			case o.name != upstreamTLS:
				p.warn(o.name, "has no effect without --upstream")
			case len(c.Peers) == 0:
				p.warn(o.name, "has no effect without --upstream or --peers")
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
		ofObjects := o.group == GroupSource && o.name != "kubernetes" && o.name != "manifests"
		for _, g := range groupsOfObjects {
			ofObjects = ofObjects || o.group == g
		}
		if ofObjects && p.given(o.name) {
			p.warn(o.name, "has no effect with --upstream, whose table is served unchanged")
		}
	}
}

// maxPeers is the maximum number of names.
const maxPeers = 16

// Peers adds the flag of the other replicas. The parser must have the flags of a route server and of a relay.
func (p *Parser) Peers(c *RouteServer) {
	g := p.Group(GroupUpstream)
	g.Own("peers", Parsed("HOST:PORT", &c.Peers, "", func(s string) (list []string, err error) {
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
	}), "The other replicas, as HOST:PORT or as a URL, such as routesrv-peers:9090 for a headless Service: each address of the host "+
		"is one replica. A list with commas can also have the Services of relays. A replica that starts without a last-known-good file compares its "+
		"first table with theirs, and /clients shows their clients, which it gets from the port of --support-listener. The default "+
		"scheme is https if the main listener has TLS, else http. Empty: ask no replicas.")
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
