package options

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/trial"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/match"
)

// Defaults of the listeners. With manifests the server binds the loopback interface: that is a trial on a developer's machine.
const (
	LoopbackAddress        = "127.0.0.1:9090"
	LoopbackSupportAddress = "127.0.0.1:9911"
	DefaultWebhookAddress  = ":9443"
)

// RouteServer holds everything that the flags of a route server set.
type RouteServer struct {
	// Server has what flags set; the program adds the parts that run. On a relay, Server.Upstream has URLs, and Source is empty.
	Server server.Config
	Source Source // exactly one of Kubernetes, Manifests and the URLs of Server.Upstream is set
	// UpstreamTLS is for the requests to Server.Upstream and Peers.
	UpstreamTLS TLSFiles
	Log         Log
	// Peers are the URLs of the other replicas, http(s)://HOST:PORT, where each address of the host is one replica.
	Peers []string
	// Events turns on writing problems as Kubernetes Events. It is false without a Kubernetes API to write to.
	Events  bool
	Profile Profile
	// Against and Output belong to routesrv compile: the support listener to ask instead of printing the table, and the form.
	Against, Output string
}

// ProxyOptions sets what the flags say about the proxies.
func (c *RouteServer) ProxyOptions(to *match.Options) {
	o := c.Server.Compile
	to.ExtraFilters, to.ExtraPredicates, to.ForwardBackendURL = o.ExtraFilters, o.ExtraPredicates, o.ForwardBackendURL
}

// Log configures logging.
type Log struct {
	Level slog.Level
	JSON  bool
}

// Profile has the profiling rates, as in package runtime; zero keeps the runtime's default.
type Profile struct{ Block, Mutex, Memory int }

// RouteServerFlags declares the flags of the route server on a command. They fill c.
func RouteServerFlags(cmd *cobra.Command, c *RouteServer) *Flags {
	f := New(cmd)
	f.routeServer(c)
	f.Check(func() {
		f.requireSource(c, "--manifests PATH", ", or --upstream URL to serve the table of another route server")
	})
	return f
}

// Manifests declares the flags of the route server for manifests that a command compiles. Help does not list them.
func (f *Flags) Manifests(c *RouteServer) {
	f.hidden = true
	f.routeServer(c)
	f.hidden = false
}

func (f *Flags) routeServer(c *RouteServer) {
	f.general()
	f.source(&c.Source)
	s := &c.Server
	f.fetch(&s.Upstream, &c.UpstreamTLS, "Serve the table of another route server instead of reading objects, the preferred one first. "+
		"May be repeated. Losses pass unless --guard=max-loss is set.")
	f.peers(c)
	f.polling(&c.Source, &s.Interval, &s.MaxBackoff, &s.Upstream,
		Setting{"shutdown", Duration(&s.ShutdownTimeout, server.DefaultShutdownTimeout, tick, day), "for open requests, after draining."})
	f.selection(&c.Source)
	f.compile(&s.Compile, &c.Source, &c.Log.Level)
	f.guard(&s.Guard, guard.DefaultObjectLoss, guard.DefaultKeep, func() bool { return len(s.Upstream.URLs) > 0 })
	f.review(&s.Review)
	f.canary(&s.Canary)
	f.listen(c)
	f.tls(&s.TLS)
	f.requestFilters(&s.RequestFilters)
	f.shards(&s.Redis, "redis")
	f.shards(&s.Valkey, "valkey")
	f.log(&c.Log)
	f.Group("State folder", "what survives a restart")
	f.Add("--state-dir", Text("PATH", &s.StateDir, ""), "Folder of the last-known-good file, history and control socket.")
	f.events(c)
	f.ignoreSkipper()
	f.Check(func() {
		f.checkRelay(c)
		s.Selection, s.Upstream.MaxBytes = c.Source.Selection, int64(s.Guard.MaxBytes)
		c.Source.Namespaces = s.Review.KeepTakeovers.Routes > 0
	})
}

// general declares the flags that every program has. cobra adds the flags for help and the version.
func (f *Flags) general() {
	f.Group("General", "for every program")
	f.Add("-config-file", Text("PATH", &f.configFile, ""), "YAML file with settings: keys are names of flags without dashes.")
	f.Add("--check-config", Bool(&f.checkOnly, false), "Check the settings and exit with status 0, or with 2 and all faults.")
}

// requireSource reports an error if there is nothing to serve.
func (f *Flags) requireSource(c *RouteServer, files, relay string) {
	if c.Source.none() && len(c.Server.Upstream.URLs) == 0 {
		f.failf("", "-kubernetes flag required: set -kubernetes to read the objects from an API, or %s to read them from files%s", files, relay)
	}
}

// checkRelay reports contradictions as errors, and warns about flags without effect.
func (f *Flags) checkRelay(c *RouteServer) {
	if len(c.Server.Upstream.URLs) == 0 {
		if len(c.Peers) == 0 {
			f.noEffect("has no effect without --upstream or --peers", "update-mode", "upstream-tls")
		}
		return
	}
	if !c.Source.none() {
		f.failf("upstream", "cannot be combined with -kubernetes and --manifests: the table is compiled here or comes from another route server")
	}
	for _, one := range f.all {
		if one.group.objects && one.Name != "kubernetes" && one.Name != "manifests" && f.changed(one.Name) {
			f.warn(one.Name, "has no effect with --upstream, whose table is served unchanged")
		}
	}
}

// guard declares the flags of the guard. maxLoss and hold are defaults of its settings: kept objects delay no other team, so they are
// kept sooner and longer than tables. A relay holds whole tables, and passes losses unless it is told otherwise.
func (f *Flags) guard(c *guard.Config, maxLoss float64, hold time.Duration, relay func() bool) {
	c.MaxBackendLoss = guard.DefaultMaxBackendLoss
	f.Group("Guard", "which new tables are suspicious, and how long the guard holds back what they change")
	f.Add("--guard", Settings(nil, []Setting{
		{"max-loss", Parsed("share", &c.MaxLoss, strconv.FormatFloat(maxLoss, 'g', -1, 64), share), "share of the served pairs of host " +
			"and path, hosts, Ingresses or RouteGroups that may be lost within the window. If more of at least 20 objects are lost, or " +
			"more than half, everything lost within the window is kept; 1 disables these rules."},
		{"max-backend-loss", Parsed("share", &c.MaxBackendLoss, "0.5", share), "share of the pairs with endpoints that may lose all of " +
			"them. If more do, and at least 20, their services keep their last endpoints; 1 disables the rule."},
		{"window", Duration(&c.Window, guard.DefaultWindow, tick, day), "how long a loss counts, so that many small losses count as one."},
		{"hold", Duration(&c.Hold, hold, tick, day),
			"how long lost objects, or a whole table, are kept. Time never releases what an emptied table lost."},
		{"release", either(&c.Manual, "auto", "manual"), "auto (after hold, or by an acceptance) or manual (only by an acceptance); what " +
			"comes back is always released."},
		{"max-routes", Number(&c.MaxRoutes, 0, 0, most), "do not serve objects that make the table grow past this; 0 means no limit."},
		{"max-bytes", size(&c.MaxBytes, "0", 0), "the same in bytes, such as 512MiB; also the largest table that " +
			"--upstream may send, by default 512 MiB, or a quarter of the memory limit if that is less."},
	}...), "What counts as an accident, and what then happens.")
	c.Hold = 0 // until it is set
	f.Check(func() {
		if relay() {
			maxLoss, hold = 0, guard.DefaultHold
		}
		c.MaxLoss, c.Hold = cmp.Or(c.MaxLoss, maxLoss), cmp.Or(c.Hold, hold)
	})
}

// review declares the flags of the checks that a change must pass.
func (f *Flags) review(c *server.Review) {
	f.Add("--trial-proxy", Parsed("URL", &c.TrialProxy, "", parseURL), "Support listener of a real proxy that loads new filters and "+
		"predicates before the fleet does (components/trial). It takes requests at the port below. A change waits at most "+
		short(trial.DefaultTimeout)+" for a proxy that does not answer.")
	f.Add("--keep-takeovers", Parsed("POLICY", &c.KeepTakeovers, "none", takeover.ParsePolicy), "Keep an object at its served version "+
		"while its newest one takes requests from routes of other namespaces, or may do so (namespace), or of at least N (namespace:N), "+
		"until an operator accepts it. The webhook rejects such objects.")
	f.Check(func() {
		if c.TrialProxy == nil {
			return
		}
		port, err := strconv.Atoi(c.TrialProxy.Port())
		if err != nil || port < 2 {
			f.failf("trial-proxy", "%s has no port: must be a URL such as http://127.0.0.1:9922", c.TrialProxy)
			return
		}
		traffic := *c.TrialProxy
		traffic.Host = net.JoinHostPort(c.TrialProxy.Hostname(), strconv.Itoa(port-1))
		c.TrialTraffic = &traffic
	})
}

// canary declares the flags of the canary.
func (f *Flags) canary(c *server.CanaryConfig) {
	f.Add("--canary", Duration(&c.Soak, 0, 0, day), "How long each change of an object is served at /canary/routes alone before it is served at "+
		"/routes (components/canary). 0: both serve the same table.")
	f.Add("--canary-query", Text("PROMQL", &c.Query, ""), "PromQL expression that is asked every 10 s. While it returns any series, nothing is "+
		"promoted, and what soaks when it begins to is halted.")
	f.Add("--prometheus", Parsed("URL", &c.Prometheus, "", parseURL), "The Prometheus that answers --canary-query.")
	f.Check(func() {
		switch {
		case (c.Query == "") != (c.Prometheus == nil):
			f.failf("canary-query", "must be set together with --prometheus")
		case c.Query != "" && c.Soak == 0:
			f.failf("canary-query", "needs --canary")
		}
	})
}

// listen declares the flags of the listeners and of shutdown.
func (f *Flags) listen(c *RouteServer) {
	s := &c.Server
	f.Group("Listeners and shutdown", "where the server listens, and how it stops")
	f.Add("-address", Text("HOST:PORT", &s.Address, server.DefaultAddress, address), "Main listener.")
	f.Add("-support-listener", Address(&s.SupportAddress, server.DefaultSupportAddress),
		"Listener for metrics and status; empty: none.")
	f.Add("-wait-for-healthcheck-interval", Duration(&s.WaitForHealthcheckInterval, 45*time.Second, 0, day),
		"How long to keep serving after the signal to stop; with --manifests not at all, unless it is set.")
	f.Add("--max-connections", Number(&s.MaxConnections, server.DefaultMaxConnections, 16, most), "Connections of the main listener, at "+
		"most the limit of open files minus 128. A full listener closes the connection that was idle for longest.")
	f.Add("--max-streams", Number(&s.MaxStreams, server.DefaultMaxStreams, 0, most),
		"Most streams on /routes/watch; 0 turns them off.")
	f.Add("-enable-profile", Bool(&s.EnableProfile, false), "Serve profiles under /debug/pprof on the support listener.")
	f.Add("-block-profile-rate", Number(&c.Profile.Block, 0, 0, most), "Rate of the blocking profile, in nanoseconds per sample; 0 is off.")
	f.Add("-mutex-profile-fraction", Number(&c.Profile.Mutex, 0, 0, most), "The mutex profile samples one of this many events; 0 is off.")
	f.Add("-memory-profile-rate", Number(&c.Profile.Memory, 0, 0, most), "Rate of the memory profile, in bytes per sample.")
	f.Check(func() {
		if len(c.Source.Manifests) > 0 && !f.Given("address") {
			s.Address = LoopbackAddress
		}
		if len(c.Source.Manifests) > 0 && !f.Given("support-listener") {
			s.SupportAddress = LoopbackSupportAddress
		}
		if len(c.Source.Manifests) > 0 && !f.Given("wait-for-healthcheck-interval") {
			s.WaitForHealthcheckInterval = 0
		}
	})
}

// tls declares the flags that protect the main listener.
func (f *Flags) tls(c *httpserve.TLSConfig) {
	f.Group("TLS and protection", "who may use the main listener")
	f.Add("--enable-tls", Bool(&c.Enable, false), "Serve TLS on the main listener, with -tls-cert and -tls-key, without client certificates.")
	f.Add("-enable-mtls", Bool(&c.RequireClientCert, false), "The same, and require client certificates, also for /health.")
	f.Add("-tls-cert", List(&c.CertFiles), "Files with the certificates, PEM, separated by commas.")
	f.Add("-tls-key", List(&c.KeyFiles), "Files with their keys, in the same order.")
	c.MinVersion, _ = parseTLSVersion("1.2")
	f.Add("-tls-min-version", Parsed("version", &c.MinVersion, "1.2", parseTLSVersion), "Minimum version of TLS: 1.0, 1.1, 1.2 or 1.3.")
	f.Add("-mtls-authn-ca", List(&c.CAFiles), "Files with the CAs of client certificates, PEM, separated by commas.")
	f.Add("-mtls-authn-append-ca", Bool(&c.AppendSystemCAs, false), "Accept the CAs of the system, too.")
	f.Check(func() { f.checkTLS(c) })
}

func (f *Flags) checkTLS(c *httpserve.TLSConfig) {
	requested := "enable-tls"
	if c.RequireClientCert {
		requested, c.Enable = "enable-mtls", true
	}
	switch {
	case len(c.CertFiles) != len(c.KeyFiles):
		f.failf("tls-key", "%d keys for %d certificates of -tls-cert: must be one for each", len(c.KeyFiles), len(c.CertFiles))
	case c.Enable && len(c.CertFiles) == 0:
		f.failf(requested, "needs -tls-cert and -tls-key")
	case !c.Enable && len(c.CertFiles) > 0:
		f.warn("tls-cert", "the main listener is plain HTTP all the same, as in Skipper's route server: for TLS set "+
			"--enable-tls, or -enable-mtls to require client certificates, too")
	}
	switch {
	case c.RequireClientCert && len(c.CAFiles) == 0 && !c.AppendSystemCAs:
		f.failf("enable-mtls", "needs the authorities for client certificates: -mtls-authn-ca or -mtls-authn-append-ca")
	case !c.RequireClientCert:
		f.noEffect("has no effect without -enable-mtls: no client certificate is requested", "mtls-authn-ca", "mtls-authn-append-ca")
	}
}

// requestFilters declares the flag with the filters for requests to the main listener. Filters that call a token service are rejected.
func (f *Flags) requestFilters(dst *[]*eskip.Filter) {
	const name = "route-server-filters"
	f.Add("-"+name, Parsed("FILTERS", dst, "", parseFilters), "Filters for requests to the main listener but /health.")
	f.Check(func() {
		for _, one := range *dst {
			for _, prefix := range []string{"oauthTokeninfo", "oauthTokenintrospection", "secureOauthTokenintrospection"} {
				if strings.HasPrefix(one.Name, prefix) {
					f.failf(name, "filter %s is not supported, as no token service is asked here: to authenticate clients, require client "+
						"certificates (-enable-mtls, -mtls-authn-ca and the filters mtlsAuthn() -> mtlsCN(\"NAME\")), or let only "+
						"the proxies in with a NetworkPolicy", printable(one.Name))
				}
			}
		}
	})
}

// shards declares the flags that name the service of shared rate limits.
func (f *Flags) shards(s *server.Shard, store string) {
	f.objects("Shards", "addresses of the stores for rate limits that proxies share")
	prefix := "kubernetes-" + store + "-service-"
	f.Add("-"+prefix+"namespace", Text("NAME", &s.Namespace, ""), "Namespace of the service with the addresses under /swarm/"+store+"/shards.")
	f.Add("-"+prefix+"name", Text("NAME", &s.Name, ""), "Name of that service.")
	f.Add("-"+prefix+"port", Number(&s.Port, 6379, 1, 65535), "Port of its addresses.")
}

// log declares the flags of the log.
func (f *Flags) log(l *Log) {
	l.Level = slog.LevelInfo
	f.Group("Logging", "lines go to standard error")
	f.Add("-application-log-level", Parsed("level", &l.Level, "INFO", parseLevel),
		"TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC.")
	f.Add("-application-log-json-enabled", Bool(&l.JSON, false), "Log JSON, one object on each line.")
}

// events declares the flag of Kubernetes Events.
func (f *Flags) events(c *RouteServer) {
	f.Group("Events", "problems as Kubernetes Events, where application teams look")
	f.Add("--events", Bool(&c.Events, false), "Write problems as Kubernetes Events. Needs the rights of components/events.")
	f.Check(func() {
		if !c.Source.Kubernetes || len(c.Server.Upstream.URLs) > 0 {
			f.noEffect("has no effect without -kubernetes: there is no API to write to", "events")
			c.Events = false
		}
	})
}

// peers declares the flag of the other replicas, whose values become URLs.
func (f *Flags) peers(c *RouteServer) {
	f.Add("--peers", Parsed("HOST:PORT", &c.Peers, "", func(s string) (list []string, err error) {
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			if _, err := peersURL(one, "http"); err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}), "The other replicas, as HOST:PORT or URL, such as routesrv-peers:9090 of a headless Service. A starting replica compares its first "+
		"table with theirs, and /clients shows their clients.")
	f.Check(func() {
		scheme := "http"
		if c.Server.TLS.Enable || c.Server.TLS.RequireClientCert {
			scheme = "https"
		}
		for i, one := range c.Peers {
			c.Peers[i], _ = peersURL(one, scheme) // it is valid
		}
	})
}

// peersURL converts HOST:PORT or a URL to a URL.
func peersURL(s, scheme string) (string, error) {
	if !strings.Contains(s, "://") {
		s = scheme + "://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("must be HOST:PORT or http(s)://HOST:PORT") // the text may have a password
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	plain := url.URL{Scheme: u.Scheme, Host: u.Host}
	if err != nil || port == 0 || u.Scheme != "http" && u.Scheme != "https" || plain.String() != strings.TrimSuffix(s, "/") {
		return "", fmt.Errorf("%s: must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on", clip(u.Redacted()))
	}
	return plain.String(), nil
}

// CompileFlags declares the flags of the command that prints a table, whose positional arguments are manifests.
func CompileFlags(cmd *cobra.Command, c *RouteServer) *Flags {
	f := New(cmd)
	f.CommandGroup("Against a cluster")
	f.Add("--against", Text("URL", &c.Against, ""), "Support listener of a route server. Instead of the table, print which requests of other "+
		"owners the Ingresses and RouteGroups would take if they were in its cluster.")
	c.Output = "text"
	f.Add("-o,--output", Choice(&c.Output, "text", "json"), "Form of what --against prints.")
	f.Check(func() {
		const files = "has no effect: the manifests are read"
		if len(f.args) > 0 && c.Source.Kubernetes {
			f.warn("kubernetes", files)
			c.Source.Kubernetes = false
		}
		c.Source.Manifests = append(c.Source.Manifests, f.args...)
		if len(c.Server.Upstream.URLs) > 0 {
			f.warn("upstream", files)
			c.Server.Upstream.URLs = nil
		}
	})
	f.routeServer(c)
	f.Check(func() { f.requireSource(c, "name files or folders", "") })
	return f
}

// WebhookFlags declares the flags of the webhook: the route server's, with a certificate.
func WebhookFlags(cmd *cobra.Command, c *RouteServer) *Flags {
	f := New(cmd)
	f.Check(func() { // before the settings are checked
		if len(c.Server.TLS.CertFiles) == 0 {
			f.failf("tls-cert", "API servers talk to webhooks by TLS only: set -tls-cert and -tls-key")
		} else {
			c.Server.TLS.Enable = true
		}
		if !f.Given("address") {
			c.Server.Address = DefaultWebhookAddress
		}
		if len(c.Server.Upstream.URLs) > 0 {
			f.failf("upstream", "a webhook reads the objects itself: set -kubernetes instead")
		}
	})
	f.routeServer(c)
	f.Check(func() { f.requireSource(c, "--manifests PATH", "") })
	return f
}
