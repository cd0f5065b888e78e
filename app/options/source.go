package options

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// selectable lists the kinds with a flag for a label selector. Secrets have none: a route server does not read them.
var selectable = []struct {
	name string
	kind kube.Kind
}{
	{"ingresses", kube.KindIngress},
	{"routegroups", kube.KindRouteGroup},
	{"services", kube.KindService},
	{"endpoints", kube.KindEndpoints},
	{"endpointslices", kube.KindEndpointSlice},
}

// Source adds the flags that determine where to read objects, and which ones.
func (p *Parser) Source(s *Source) {
	p.Flag("kubernetes", Bool(&s.Kubernetes, false))
	p.Flag("manifests", Repeated("PATH", func(path string) error {
		if path == "" {
			return errors.New("want the path of a file or folder")
		}
		s.Manifests = append(s.Manifests, path)
		return nil
	}))
	p.Flag("kubernetes-in-cluster", Bool(&s.InCluster, false))
	p.Flag("kubernetes-url", Text("URL", &s.URL, "", optionalURL))
	p.Flag("kubernetes-token-file", Text("string", &s.TokenFile, ""))
	p.Flag("kubeconfig", Text("string", &s.Kubeconfig, ""))
	p.Flag("kubeconfig-context", Text("string", &s.Context, ""))
	p.Flag("kubernetes-read", either(&s.Watch, "poll", "watch"))
	p.Flag("enable-kubernetes-endpointslices", Bool(&s.EndpointSlices, false))

	p.Flag("kubernetes-namespace", Text("string", &s.Namespace, ""))
	p.Flag(selectorFlag, Repeated("KIND:SELECTOR", s.selector))

	p.Flag("default-filters-dir", Text("string", &s.DefaultFiltersDir, ""))
	p.check(func() { p.checkSource(s) })
}

const selectorFlag = "kubernetes-label-selector"

// selector sets the selector of a kind.
func (s *Source) selector(text string) error {
	name, labels, _ := strings.Cut(text, ":")
	for _, k := range selectable {
		if k.name != name {
			continue
		}
		sel, err := parseSelector(labels)
		if len(sel) > 0 {
			if s.Selectors == nil {
				s.Selectors = make(map[kube.Kind]map[string]string)
			}
			s.Selectors[k.kind] = sel
		}
		return err
	}
	return fmt.Errorf("%s: want KIND:SELECTOR, with ingresses, routegroups, services, endpoints or endpointslices as KIND", clip(text))
}

// checkSource reports contradictions as errors, and warns about flags without effect.
func (p *Parser) checkSource(s *Source) {
	if len(s.Manifests) > 0 {
		p.checkManifests(s)
		return
	}
	switch {
	case s.InCluster && s.Kubeconfig != "":
		p.failf("kubeconfig", "cannot be combined with -kubernetes-in-cluster: both set the API address")
	case s.Kubeconfig != "" && s.URL != "":
		p.failf("kubeconfig", "cannot be combined with -kubernetes-url: both set the API address")
	case s.Kubeconfig != "" && s.TokenFile != "":
		p.failf("kubeconfig", "cannot be combined with -kubernetes-token-file: the kubeconfig has its own credentials")
	case s.Kubeconfig == "" && s.Context != "":
		p.failf("kubeconfig-context", "needs --kubeconfig")
	}
	if s.InCluster {
		for _, name := range []string{"kubernetes-url", "kubernetes-token-file"} {
			if p.given(name) {
				p.warn(name, "has no effect with -kubernetes-in-cluster")
			}
		}
	}
	if s.Kubernetes && !s.InCluster && s.Kubeconfig == "" && s.URL == "" && lookup(p.environ, "KUBECONFIG") != "" {
		p.warn("", "KUBECONFIG is set but not read: the API is expected at http://localhost:8001; for a kubeconfig use --kubeconfig")
	}
	p.checkSelectors(s)
}

// checkManifests warns about flags that only make sense for an API.
func (p *Parser) checkManifests(s *Source) {
	if s.Kubernetes {
		p.failf("manifests", "cannot be combined with -kubernetes: read the objects from files or from an API, not from both")
	}
	for _, name := range []string{
		"kubernetes-in-cluster", "kubernetes-url", "kubernetes-token-file",
		"kubeconfig", "kubeconfig-context", "kubernetes-read",
	} {
		if p.given(name) {
			p.warn(name, "has no effect with --manifests")
		}
	}
	p.checkSelectors(s)
}

func (p *Parser) checkSelectors(s *Source) {
	if s.EndpointSlices && s.Selectors[kube.KindEndpoints] != nil {
		p.warn(selectorFlag, "of endpoints has no effect with -enable-kubernetes-endpointslices: use endpointslices")
	}
	if !s.EndpointSlices && s.Selectors[kube.KindEndpointSlice] != nil {
		p.warn(selectorFlag, "of endpointslices has no effect without -enable-kubernetes-endpointslices")
	}
}

// requireSource reports an error if the configuration has no source.
func (p *Parser) requireSource(c *RouteServer) {
	if c.Source.Kubernetes || len(c.Source.Manifests) > 0 || len(c.Upstream.URLs) > 0 {
		return
	}
	files := "--manifests PATH"
	if p.cmd.MaxArgs != 0 {
		files = "name files or folders"
	}
	relay := ", or --upstream URL to serve the table of another route server"
	if p.cmd.MaxArgs != 0 {
		relay = ""
	}
	p.failf("", "-kubernetes flag required: set -kubernetes to read the objects from an API, or %s to read them from files%s",
		files, relay)
}

// Poll adds the flag that sets how often to read the source.
func (p *Parser) Poll(c *Poll) {
	p.Flag("source-poll-timeout", millis(&c.Interval, poller.DefaultInterval, day))
}

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
		for _, o := range p.Flags() {
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
	for _, o := range p.Flags() {
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
