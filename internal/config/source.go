package config

import (
	"errors"
	"fmt"
	"strings"

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
	{"configmaps", kube.KindConfigMap},
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
	return fmt.Errorf("%s: want KIND:SELECTOR, with ingresses, routegroups, services, endpoints, endpointslices or configmaps as KIND", clip(text))
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
	if s.Selectors[kube.KindConfigMap] != nil && !p.cmd.Skipper {
		p.failf(selectorFlag, "of configmaps: only a route server reads orders")
	}
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
