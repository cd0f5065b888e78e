package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Defaults that are not those of the packages that the values are for.
const (
	DefaultRequestTimeout    = 30 * time.Second
	DefaultReconcileInterval = 10 * time.Minute
)

// selectable are the kinds with a flag for a label selector. There is none for Secrets: a route server does not read them.
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

// Source adds the flags that say where objects are read, and which.
func (p *Parser) Source(s *Source) {
	g := p.group(GroupSource)
	g.skipper("kubernetes", boolean(&s.Kubernetes, false), "Read the objects from the Kubernetes API. This, --manifests "+
		"or --upstream is required.")
	g.own("manifests", repeated("PATH", func(path string) error {
		if path == "" {
			return errors.New("want the path of a file or folder")
		}
		s.Manifests = append(s.Manifests, path)
		return nil
	}), "Read the objects from a file, or from all YAML and JSON files of a folder, instead of an API; - is the standard "+
		"input. May be repeated. "+
		"Without explicit addresses the server then listens on the loopback interface only.")
	g.skipper("kubernetes-in-cluster", boolean(&s.InCluster, false), "Find the API as a pod does: address from the "+
		"environment, token and certificate authority from the service account.")
	g.skipper("kubernetes-url", checked("URL", &s.URL, "", optionalURL), "Address of the API outside a cluster. Empty means "+
		"http://localhost:8001, where kubectl proxy listens.")
	g.skipper("kubernetes-token-file", text(&s.TokenFile, ""), "File with the bearer token for -kubernetes-url. It is read "+
		"again when the token is rotated.")
	g.own("kubeconfig", text(&s.Kubeconfig, ""), "Kubeconfig file that says how the API is reached. The variable KUBECONFIG "+
		"is not read, so that the shell that starts the server does not decide which cluster feeds the proxies.")
	g.own("kubeconfig-context", text(&s.Context, ""), "Context in --kubeconfig; empty means its current one.")
	g.own("kubernetes-request-timeout", duration(&s.RequestTimeout, DefaultRequestTimeout, time.Millisecond, time.Hour),
		"Limit of each request to the API, to the last byte of the answer. Of a watch it limits how long the objects that "+
			"are there already may take.")
	g.own("kubernetes-read", readBy(&s.Watch), "How the API is read. poll lists every kind at each -source-poll-timeout. "+
		"watch lists them once and is told every change: changes come through at once, and polls cost next to nothing. It "+
		"needs the permission to watch.")
	g.own("kubernetes-reconcile-interval", duration(&s.ReconcileInterval, DefaultReconcileInterval, time.Second, 24*time.Hour),
		"With --kubernetes-read=watch: time between two complete lists that must show what the watches have shown.")
	g.skipper("enable-kubernetes-endpointslices", boolean(&s.EndpointSlices, false), "Read EndpointSlices instead of "+
		"Endpoints. Only they have zones, and only with them there are tables under /routes/ZONE.")

	g = p.group(GroupSelection)
	g.skipper("kubernetes-namespace", text(&s.Namespace, ""), "Read this namespace only; empty means all.")
	for _, k := range selectable {
		g.own(selectorFlag(k.name), selector(s, k.kind), "Label selector for "+k.name+": name=value, or name alone for any "+
			"value, with commas between them; all have to hold.")
	}

	g = p.group(GroupProcessing)
	g.skipper("default-filters-dir", text(&s.DefaultFiltersDir, ""), "Folder with the default filters of services, in files "+
		"named SERVICE.NAMESPACE. It is read again for every read of the source.")
	p.check(func() { p.checkSource(s) })
}

// readBy takes poll or watch.
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

// checkSource refuses what contradicts itself and warns about what has no effect.
func (p *Parser) checkSource(s *Source) {
	if len(s.Manifests) > 0 {
		p.checkManifests(s)
		return
	}
	switch {
	case s.InCluster && s.Kubeconfig != "":
		p.failf("kubeconfig", "excludes -kubernetes-in-cluster: both say how the API is reached")
	case s.Kubeconfig != "" && s.URL != "":
		p.failf("kubeconfig", "excludes -kubernetes-url: both say how the API is reached")
	case s.Kubeconfig != "" && s.TokenFile != "":
		p.failf("kubeconfig", "excludes -kubernetes-token-file: the kubeconfig has credentials of its own")
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
	if !s.Watch && p.given("kubernetes-reconcile-interval") {
		p.warn("kubernetes-reconcile-interval", "has no effect without --kubernetes-read=watch")
	}
	p.checkSelectors(s)
}

// checkManifests warns about flags that only make sense for an API.
func (p *Parser) checkManifests(s *Source) {
	if s.Kubernetes {
		p.failf("manifests", "excludes -kubernetes: objects are read from files or from an API, not from both")
	}
	for _, name := range []string{
		"kubernetes-in-cluster", "kubernetes-url", "kubernetes-token-file",
		"kubeconfig", "kubeconfig-context", "kubernetes-request-timeout",
		"kubernetes-read", "kubernetes-reconcile-interval",
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

// requireSource refuses a configuration without any source.
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

// Poll adds the flags that say how often the source is read.
func (p *Parser) Poll(c *Poll) {
	g := p.group(GroupPolling)
	g.skipper("source-poll-timeout", millis(&c.Interval, poller.DefaultInterval, 24*time.Hour), "Time between two reads of the "+
		"source, in milliseconds.")
	g.own("poll-max-backoff", duration(&c.MaxBackoff, poller.DefaultMaxBackoff, time.Millisecond, 24*time.Hour), "Longest delay "+
		"after reads that failed in a row. It is never shorter than -source-poll-timeout.")
	p.check(func() {
		if c.MaxBackoff >= c.Interval {
			return
		}
		if p.isSet("poll-max-backoff") {
			p.warn("poll-max-backoff", "%s is shorter than -source-poll-timeout, which counts", c.MaxBackoff)
		}
		c.MaxBackoff = c.Interval
		p.Derive("poll-max-backoff", short(c.Interval), "-source-poll-timeout")
	})
}
