package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// DefaultRequestTimeout is the default time limit of a request to the API.
const DefaultRequestTimeout = 30 * time.Second

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
	g := p.group(GroupSource)
	g.skipper("kubernetes", boolean(&s.Kubernetes, false), "Read the objects from the Kubernetes API. A source is "+
		"required: this, --manifests, or another route server.")
	g.own("manifests", repeated("PATH", func(path string) error {
		if path == "" {
			return errors.New("want the path of a file or folder")
		}
		s.Manifests = append(s.Manifests, path)
		return nil
	}), "Read the objects from a file, or from all YAML and JSON files of a folder, instead of an API; - is standard input. "+
		"May be repeated. Unless you set addresses, the server then listens only on the loopback interface.")
	g.skipper("kubernetes-in-cluster", boolean(&s.InCluster, false), "Use the API as a pod does: address from the environment, "+
		"token and CA from the ServiceAccount.")
	g.skipper("kubernetes-url", checked("URL", &s.URL, "", optionalURL), "Address of the API outside a cluster. Empty means "+
		"http://localhost:8001, where kubectl proxy listens.")
	g.skipper("kubernetes-token-file", text(&s.TokenFile, ""), "File with the bearer token for -kubernetes-url. It is read "+
		"again when the token is rotated.")
	g.own("kubeconfig", text(&s.Kubeconfig, ""), "Kubeconfig file for the connection to the API. The variable KUBECONFIG is "+
		"ignored, so that the shell that starts the server does not decide which cluster feeds the proxies.")
	g.own("kubeconfig-context", text(&s.Context, ""), "Context in --kubeconfig; empty means its current one.")
	g.own("kubernetes-request-timeout", duration(&s.RequestTimeout, DefaultRequestTimeout, time.Millisecond, time.Hour),
		"Time limit of each request to the API, to the last byte of the answer. A watch only has to be accepted in this time.")
	g.own("kubernetes-read", readBy(&s.Watch), "How to read the API. poll lists every kind at each -source-poll-timeout. watch "+
		"lists them and then receives every change: changes are served at once, and polls cost next to nothing. It needs "+
		"the permission to watch.")
	g.skipper("enable-kubernetes-endpointslices", boolean(&s.EndpointSlices, false), "Read EndpointSlices instead of "+
		"Endpoints. Only EndpointSlices have zones, so tables under /routes/ZONE need this flag.")

	g = p.group(GroupSelection)
	g.skipper("kubernetes-namespace", text(&s.Namespace, ""), "Read only this namespace; empty means all.")
	for _, k := range selectable {
		g.own(selectorFlag(k.name), selector(s, k.kind), "Label selector for "+k.name+": name=value, or name alone for any "+
			"value, separated by commas; all must match.")
	}

	g = p.group(GroupProcessing)
	g.skipper("default-filters-dir", text(&s.DefaultFiltersDir, ""), "Folder with the default filters of services, in files "+
		"named SERVICE.NAMESPACE. Every read of the source reads it again.")
	p.check(func() { p.checkSource(s) })
}

// readBy accepts poll or watch.
func readBy(watch *bool) *value {
	return parsed("poll|watch", watch, "poll", func(t string) (bool, error) {
		switch t {
		case "poll":
			return false, nil
		case "watch":
			return true, nil
		}
		return false, fmt.Errorf("%s: want poll or watch", clip(t))
	})
}

func selectorFlag(kinds string) string { return "kubernetes-" + kinds + "-label-selector" }

func selector(s *Source, kind kube.Kind) *value {
	return &value{kind: "list", comma: true, set: func(t string) error {
		sel, err := parseSelector(t)
		if err != nil {
			return err
		}
		delete(s.Selectors, kind)
		if len(sel) > 0 {
			if s.Selectors == nil {
				s.Selectors = make(map[kube.Kind]map[string]string)
			}
			s.Selectors[kind] = sel
		}
		return nil
	}}
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
		"kubeconfig", "kubeconfig-context", "kubernetes-request-timeout",
		"kubernetes-read",
	} {
		if p.given(name) {
			p.warn(name, "has no effect with --manifests")
		}
	}
	p.checkSelectors(s)
}

func (p *Parser) checkSelectors(s *Source) {
	if s.EndpointSlices && s.Selectors[kube.KindEndpoints] != nil {
		p.warn(selectorFlag("endpoints"), "has no effect with -enable-kubernetes-endpointslices: use --%s",
			selectorFlag("endpointslices"))
	}
	if !s.EndpointSlices && s.Selectors[kube.KindEndpointSlice] != nil {
		p.warn(selectorFlag("endpointslices"), "has no effect without -enable-kubernetes-endpointslices")
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

// Poll adds the flags that set how often to read the source.
func (p *Parser) Poll(c *Poll) {
	g := p.group(GroupPolling)
	g.skipper("source-poll-timeout", millis(&c.Interval, poller.DefaultInterval, 24*time.Hour), "Time between two reads of the "+
		"source, in milliseconds.")
	g.own("poll-max-backoff", duration(&c.MaxBackoff, poller.DefaultMaxBackoff, time.Millisecond, 24*time.Hour), "Longest delay after "+
		"consecutive failed reads. It is never shorter than -source-poll-timeout.")
	p.check(func() {
		if c.MaxBackoff >= c.Interval {
			return
		}
		if p.isSet("poll-max-backoff") {
			p.warn("poll-max-backoff", "%s is shorter than -source-poll-timeout, which is used instead", c.MaxBackoff)
		}
		c.MaxBackoff = c.Interval
		p.Derive("poll-max-backoff", short(c.Interval), "-source-poll-timeout")
	})
}
