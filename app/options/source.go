package options

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/source/cluster"
)

// Source is where objects are read from.
type Source struct {
	// Kubernetes reads the API server that the embedded Config reaches. Its Selection is for Manifests, too.
	Kubernetes bool
	cluster.Config
	// Manifests are files and folders to read instead.
	Manifests []string
	// Watch follows an API server with watches instead of listing everything for every read.
	Watch bool
	// DefaultFiltersDir is the folder with the default filters of services; empty means none.
	DefaultFiltersDir string
}

// none reports whether there is nothing to read.
func (s *Source) none() bool { return !s.Kubernetes && len(s.Manifests) == 0 }

// selectable lists the kinds with a flag for a label selector. Secrets have none: a route server does not read them.
var selectable = map[string]kube.Kind{
	"ingresses": kube.KindIngress, "routegroups": kube.KindRouteGroup, "services": kube.KindService,
	"endpoints": kube.KindEndpoints, "endpointslices": kube.KindEndpointSlice,
}

const selectorFlag = "kubernetes-label-selector"

// apiFlags are the flags that reach an API server.
var apiFlags = []string{"kubernetes-in-cluster", "kubernetes-url", "kubernetes-token-file", "kubeconfig", "kubernetes-read"}

// source declares the flags that determine where to read objects.
func (f *Flags) source(s *Source) {
	f.objects("Source", "where objects are read: an API server or files")
	f.Add("-kubernetes", Bool(&s.Kubernetes, false),
		"Read the objects from the Kubernetes API. A server needs this, --manifests or --upstream.")
	f.Add("--manifests", Repeated("PATH", func(path string) error {
		if path == "" {
			return errors.New("must be the path of a file or folder")
		}
		s.Manifests = append(s.Manifests, path)
		return nil
	}), "Read the objects from a file or folder of YAML and JSON; - is standard input. May be repeated. The server then listens on "+
		"127.0.0.1, unless you set addresses.")
	f.Add("-kubernetes-in-cluster", Bool(&s.InCluster, false), "Take address, token and CA of the API from the pod.")
	f.Add("-kubernetes-url", Text("URL", &s.URL, "", checkURL),
		"Address of the API outside a cluster; empty means http://localhost:8001, where kubectl proxy listens.")
	f.Add("-kubernetes-token-file", Text("PATH", &s.TokenFile, ""),
		"File with the bearer token for -kubernetes-url; it is read again when it changes.")
	f.Add("--kubeconfig", Text("PATH", &s.Kubeconfig, ""),
		"Kubeconfig file for the API, whose current context is used. The variable KUBECONFIG is ignored.")
	f.Add("--kubernetes-read", either(&s.Watch, "poll", "watch"), "How to read: poll lists every kind at each -source-poll-timeout; "+
		"watch lists once and then receives every change, and needs the right to watch.")
	f.Add("-enable-kubernetes-endpointslices", Bool(&s.EndpointSlices, false),
		"Read EndpointSlices instead of Endpoints. Zones (/routes/ZONE) need it.")
	f.Check(func() { f.checkSource(s) })
}

// selection declares the flags that determine which objects are read; compile declares the flags about classes.
func (f *Flags) selection(s *Source) {
	f.objects("Selection", "which objects are served")
	f.Add("-kubernetes-namespace", Text("NAME", &s.Namespace, ""), "Read only this namespace; empty means all.")
	f.Add("--"+selectorFlag, Repeated("KIND:SELECTOR", func(text string) error {
		name, labels, _ := strings.Cut(text, ":")
		kind, ok := selectable[name]
		if !ok {
			return fmt.Errorf("%s: must be KIND:SELECTOR, with ingresses, routegroups, services, endpoints or endpointslices as KIND", clip(text))
		}
		sel, err := parseSelector(labels)
		if len(sel) > 0 {
			if s.Selectors == nil {
				s.Selectors = make(map[kube.Kind]map[string]string)
			}
			s.Selectors[kind] = sel
		}
		return err
	}), "Labels that objects of a kind must have, such as ingresses:team=web,tier. May be repeated, for ingresses, routegroups, services, "+
		"endpoints and endpointslices.")
}

// checkSource reports contradictions as errors, and warns about flags without effect.
func (f *Flags) checkSource(s *Source) {
	switch files := len(s.Manifests) > 0; {
	case files && s.Kubernetes:
		f.failf("manifests", "cannot be combined with -kubernetes: read the objects from files or from an API, not from both")
	case files:
		f.noEffect("has no effect with --manifests", apiFlags...)
	case s.Kubeconfig != "" && (s.InCluster || s.URL != "" || s.TokenFile != ""):
		f.failf("kubeconfig", "cannot be combined with -kubernetes-in-cluster, -kubernetes-url and -kubernetes-token-file: it has all of them")
	case s.InCluster:
		f.noEffect("has no effect with -kubernetes-in-cluster", "kubernetes-url", "kubernetes-token-file")
	case s.Kubernetes && s.Kubeconfig == "" && s.URL == "" && f.lookup("KUBECONFIG") != "":
		f.warn("", "KUBECONFIG is set but not read: the API is expected at http://localhost:8001; for a kubeconfig use --kubeconfig")
	}
	if s.EndpointSlices && s.Selectors[kube.KindEndpoints] != nil {
		f.warn(selectorFlag, "of endpoints has no effect with -enable-kubernetes-endpointslices: use endpointslices")
	}
	if !s.EndpointSlices && s.Selectors[kube.KindEndpointSlice] != nil {
		f.warn(selectorFlag, "of endpointslices has no effect without -enable-kubernetes-endpointslices")
	}
}

// noEffect warns about flags that were set to a value other than the default.
func (f *Flags) noEffect(text string, names ...string) {
	for _, name := range names {
		if f.changed(name) {
			f.warn(name, "%s", text)
		}
	}
}

// polling declares the flags of intervals and time limits. more are the settings of the program.
func (f *Flags) polling(s *Source, interval, maxBackoff *time.Duration, fetch *dataplane.Config, more ...Setting) {
	f.Group("Polling", "how often the source is read, and time limits")
	f.Add("-source-poll-timeout", millis(interval, poller.DefaultInterval, day),
		"Time between two reads of the source, or of the route servers while streams do not work, in milliseconds.")
	f.Add("--timing", Settings(nil, append([]Setting{
		{"request-timeout", Duration(&s.Timeout, cluster.DefaultTimeout, tick, time.Hour),
			"for a request to the API, to the last byte, or until a watch is accepted."},
		{"max-backoff", Duration(maxBackoff, poller.DefaultMaxBackoff, tick, day), "longest delay after failed reads, at least the interval."},
		{"fetch-timeout", Duration(&fetch.Timeout, dataplane.DefaultTimeout, tick, time.Hour),
			"for a request to --upstream, to the last byte, or to the beginning of a stream."},
	}, more...)...), "Time limits and intervals.")
	f.Check(func() { *maxBackoff = max(*maxBackoff, *interval) })
}

// TLSFiles configure which route servers to trust, and the certificate of this client. The zero value means the system's, and none.
type TLSFiles struct {
	CA        string // authorities, PEM, instead of the system's
	Cert, Key string // of the client; set both or neither
}

// fetch declares the flags of a client of route servers.
func (f *Flags) fetch(c *dataplane.Config, files *TLSFiles, upstream string) {
	f.Group("Upstream", "other route servers: the upstream of a relay or of a data plane, and the other replicas")
	f.Add("--upstream", URLs(&c.URLs), upstream)
	c.UpdateMode = dataplane.Auto
	f.Add("--update-mode", Choice((*string)(&c.UpdateMode), "auto", "stream", "poll"),
		"How to get tables: stream, poll, or auto (stream, and poll while streams do not work).")
	f.TLS("upstream-tls", files, "Files for TLS to other route servers, PEM, read again when they change.")
}

// TLS declares a flag of files for TLS.
func (f *Flags) TLS(name string, files *TLSFiles, usage string) {
	f.Add("--"+name, Settings(nil,
		Setting{"ca", Text("PATH", &files.CA, ""), "CAs to trust instead of the system's."},
		Setting{"cert", Text("PATH", &files.Cert, ""), "certificate to present."},
		Setting{"key", Text("PATH", &files.Key, ""), "its private key."},
	), usage)
	f.Check(func() {
		if (files.Cert == "") != (files.Key == "") {
			f.failf(name, "client certificate: set both cert and key, or neither")
		}
	})
}
