package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// peersFiles are the flags of --upstream that are for --peers, too.
var peersFiles = []string{"upstream-ca-file", "upstream-client-cert", "upstream-client-key"}

// Peers adds the flag of the other replicas. The parser must have the flags of a route server and of a relay.
func (p *Parser) Peers(c *RouteServer) {
	g := p.group(GroupUpstream)
	g.own("peers", checked("HOST:PORT", &c.Peers, "", func(s string) (err error) {
		if s != "" {
			_, err = peersURL(s, "http")
		}
		return err
	}), "The other replicas, as HOST:PORT or as a URL, such as routesrv-peers:9090 for a headless Service: each address of the "+
		"host is one replica. A replica that starts without a checkpoint compares its first table with theirs. The default "+
		"scheme is https if the main listener has TLS, else http. Empty: ask no replicas.")
	p.check(func() { p.checkPeers(c) })
}

// checkPeers makes the value a URL.
func (p *Parser) checkPeers(c *RouteServer) {
	switch {
	case c.Peers == "":
		return
	case len(c.Upstream.URLs) > 0:
		p.warn("peers", "has no effect with --upstream, whose table is served unchanged")
		c.Peers = ""
		return
	}
	scheme := "http"
	if c.TLS.Enable {
		scheme = "https"
	}
	if u, err := peersURL(c.Peers, scheme); err == nil { // else it was refused already
		c.Peers = u
	}
}

// peersURL makes a URL of HOST:PORT or a URL.
func peersURL(s, scheme string) (string, error) {
	const want = "want HOST:PORT or http(s)://HOST:PORT"
	text := s
	if !strings.Contains(s, "://") {
		text = scheme + "://" + s
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New(want) // it may have a password
	case u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" || u.Hostname() == "":
		return "", fmt.Errorf("%s: "+want, clip(u.Redacted()))
	case u.Port() == "":
		return "", fmt.Errorf("%s: "+want+", with the port that the replicas listen on", clip(s))
	}
	if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%s: want a port from 1 to 65535", clip(s))
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), nil
}
