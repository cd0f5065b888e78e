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
}

// Source adds the flags that determine where to read objects, and which ones.
func (p *Parser) Source(s *Source) {
	g := p.Group(GroupSource)
	g.Skipper("kubernetes", Bool(&s.Kubernetes, false), "Read the objects from the Kubernetes API. A source is "+
		"required: this, --manifests, or another route server.")
	g.Own("manifests", Repeated("PATH", func(path string) error {
		if path == "" {
			return errors.New("want the path of a file or folder")
		}
		s.Manifests = append(s.Manifests, path)
		return nil
	}), "Read the objects from a file, or from all YAML and JSON files of a folder, instead of an API; - is standard input. "+
		"May be repeated. Unless you set addresses, the server then listens only on the loopback interface.")
	g.Skipper("kubernetes-in-cluster", Bool(&s.InCluster, false), "Use the API as a pod does: address from the environment, "+
		"token and CA from the ServiceAccount.")
	g.Skipper("kubernetes-url", Text("URL", &s.URL, "", optionalURL), "Address of the API outside a cluster. Empty means "+
		"http://localhost:8001, where kubectl proxy listens.")
	g.Skipper("kubernetes-token-file", Text("string", &s.TokenFile, ""), "File with the bearer token for -kubernetes-url. It is read "+
		"again when the token is rotated.")
	g.Own("kubeconfig", Text("string", &s.Kubeconfig, ""), "Kubeconfig file for the connection to the API. The variable KUBECONFIG is "+
		"ignored, so that the shell that starts the server does not decide which cluster feeds the proxies.")
	g.Own("kubeconfig-context", Text("string", &s.Context, ""), "Context in --kubeconfig; empty means its current one.")
	g.Own("kubernetes-read", readBy(&s.Watch), "How to read the API. poll lists every kind at each -source-poll-timeout. watch "+
		"lists them and then receives every change: changes are served at once, and polls cost next to nothing. It needs "+
		"the permission to watch.")
	g.Skipper("enable-kubernetes-endpointslices", Bool(&s.EndpointSlices, false), "Read EndpointSlices instead of "+
		"Endpoints. Only EndpointSlices have zones, so tables under /routes/ZONE need this flag.")

	g = p.Group(GroupSelection)
	g.Skipper("kubernetes-namespace", Text("string", &s.Namespace, ""), "Read only this namespace; empty means all.")
	g.Own(selectorFlag, Repeated("KIND:SELECTOR", s.selector), "Labels that objects of a kind must have, such as ingresses:team=web,tier: "+
		"name=value, or name alone for any value, separated by commas; all must match. May be repeated, for ingresses, routegroups, services, endpoints "+
		"and endpointslices.")

	g = p.Group(GroupProcessing)
	g.Skipper("default-filters-dir", Text("string", &s.DefaultFiltersDir, ""), "Folder with the default filters of services, in files "+
		"named SERVICE.NAMESPACE. Every read of the source reads it again.")
	p.check(func() { p.checkSource(s) })
}

// readBy accepts poll or watch.
func readBy(watch *bool) *Value {
	return Parsed("poll|watch", watch, "poll", func(t string) (bool, error) {
		switch t {
		case "poll":
			return false, nil
		case "watch":
			return true, nil
		}
		return false, fmt.Errorf("%s: want poll or watch", clip(t))
	})
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
func (p *Parser) requireSource(s *Source) {
	if s.Kubernetes || len(s.Manifests) > 0 {
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
	g := p.Group(GroupPolling)
	g.Skipper("source-poll-timeout", millis(&c.Interval, poller.DefaultInterval, day), "Time between two reads of the "+
		"source, in milliseconds.")
}
