package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

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
