package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

// Flag groups that only dataplane-client has.
const (
	groupMode  config.Group = "Mode"
	groupFetch config.Group = "Route servers"
	groupServe config.Group = "Listeners"
)

const intro = `Runs beside an ingress proxy and serves it a routing table on the loopback interface. The mode decides whether it
fetches the table from route servers, or computes it from the cluster with the flags of routesrv:

    False  compute the table
    Pre    compute the table, also fetch the one of a route server, and compare both
    Exec   fetch the table; --fallback says when to compute one instead

Fetch the table from a route server, and keep a copy that survives a restart:
    dataplane-client --mode Exec --upstream http://routesrv.ingress --state-dir /var/lib/dataplane

Changes arrive over a stream, as deltas, and by polling where streams do not work; --update-mode poll uses no streams.

Move a fleet: mount a ConfigMap with the key "mode", and write False, Pre, Exec:25% or Exec into it:
    dataplane-client --mode-file /etc/dataplane/mode --cutover-check enforce --upstream http://routesrv.ingress \
        -kubernetes -kubernetes-in-cluster

The proxy then runs without -kubernetes, with -routes-urls=http://127.0.0.1:9005/routes.
`

// flags holds the configuration of a data-plane client.
type flags struct {
	sidecar sidecar.Config
	source  config.Source
	log     config.Log
	tls     config.TLSFiles
}

// parse reads flags, environment and configuration file. Its warnings and errors come from package config.
func parse(args []string, env config.Env) (*flags, []config.Warning, error) {
	f, poll := &flags{}, config.Poll{}
	p := newParser(f, &poll)
	_, warnings, err := p.Parse(args, env)
	if err != nil && !errors.Is(err, config.ErrChecked) {
		return nil, warnings, err
	}
	f.sidecar.Interval, f.sidecar.MaxBackoff = poll.Interval, poll.MaxBackoff
	more, wrong := f.check(p)
	warnings = append(warnings, more...)
	if wrong != nil {
		return nil, warnings, wrong
	}
	return f, warnings, err
}

// newParser returns a parser with all flags, which fills f and poll.
func newParser(f *flags, poll *config.Poll) *config.Parser {
	p := config.NewParser(config.Command{Name: "dataplane-client", Intro: intro})
	c := &f.sidecar
	f.modeFlags(p)
	f.fetchFlags(p)
	f.serveFlags(p)
	p.Source(&f.source)
	p.Poll(poll)
	p.Timing(&f.source, poll, &c.Fetch.FullEvery, &c.Fetch.Timeout, config.ShutdownTime(&c.ShutdownTimeout, sidecar.DefaultShutdownTimeout), config.Setting{
		Name: "fresh-limit", Value: config.Duration(&c.FreshLimit, sidecar.DefaultFreshLimit, time.Millisecond, most),
		Usage: "age of the last read of the cluster at which /fresh starts to answer 503.",
	})
	p.Compile(&c.Compile)
	p.Guard(&c.Guard, guard.DefaultHold)
	p.Profile(&c.EnableProfile)
	p.StateDir(&c.StateDir)
	p.Log(&f.log)
	p.CompileFrom(&c.Compile, &f.source, &f.log)
	return p
}

// check validates combinations of flags.
func (f *flags) check(p *config.Parser) (warnings []config.Warning, err error) {
	c := &f.sidecar
	if c.Pod == "" {
		if c.Pod, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("--pod-name is not set, and the name of the host is not known: %w", err)
		}
		p.Derive("pod-name", c.Pod, "host name")
	}
	if len(f.source.Manifests) == 0 && !f.source.Kubernetes && len(c.Fetch.URLs) == 0 {
		return nil, errors.New("no source for a table: set --upstream to fetch one, -kubernetes or --manifests to compute " +
			"one")
	}
	withTLS := c.SupportTLS != (sidecar.SupportTLS{})
	if withTLS && (c.SupportTLS.Cert == "" || c.SupportTLS.Key == "") {
		return nil, errors.New("--support-tls: set cert and key; client certificates need TLS")
	}
	if c.SupportAddress == "" && (withTLS || c.SupportLoopbackOnly) {
		warnings = append(warnings, config.Warning{Flag: "--support-listener", Text: "is turned off: --support-loopback-only and --support-tls " +
			"have no effect"})
	}
	if len(c.Fetch.URLs) > 0 && c.StateDir == "" {
		warnings = append(warnings, config.Warning{Flag: "--state-dir", Text: "is not set: the last table is kept only in " +
			"memory, and is lost if this process restarts while no route server answers"})
	}
	if c.Fallback.Policy != rollout.FallbackNever && len(c.Fetch.URLs) > 0 && !f.source.Kubernetes && len(f.source.Manifests) == 0 {
		warnings = append(warnings, config.Warning{Flag: "--fallback", Text: c.Fallback.Policy.String() + " has no effect without -kubernetes"})
	}
	return warnings, nil
}

// most is the longest time of a flag.
const most = 30 * 24 * time.Hour

func (f *flags) modeFlags(p *config.Parser) {
	c, cutover, fallback := &f.sidecar, &f.sidecar.Cutover, &f.sidecar.Fallback
	g := p.Group(groupMode)
	g.Own("mode", config.Parsed("MODE", &c.Setting, rollout.Setting{}.String(), rollout.ParseSetting), "Mode at the start: "+
		rollout.SettingForms+"; upper or lower case.")
	g.Own("mode-file", config.Text("PATH", &c.ModeFile, ""), "File with the mode, such as a key of a mounted ConfigMap. "+
		"It is read every second, and at once on SIGHUP. A mode in the file overrides --mode; any other content changes nothing.")
	g.Own("pod-name", config.Text("NAME", &c.Pod, ""), "Name of the pod. It decides when this data plane may fall back. Empty means the host name. "+
		"With the next two flags it also names this client in /clients of the route servers.")
	g.Own("pod-namespace", config.Text("NAME", &c.PodNamespace, ""), "Namespace of the pod.")
	g.Own("node-name", config.Text("NAME", &c.Node, ""), "Node of the pod. It decides whether this data plane belongs to the share of Exec:25%: the share "+
		"survives a rollout, which renames the pods of a Deployment. Empty means that --pod-name decides, as for a StatefulSet, whose pods keep their names.")

	settings := []config.Setting{
		{Name: "clean-for", Value: config.Duration(&cutover.CleanFor, rollout.DefaultCleanFor, 0, most), Usage: "how long the tables must have been equal, apart from skew."},
		{Name: "comparisons", Value: config.Number(&cutover.MinComparisons, rollout.DefaultMinComparisons, 0, math.MaxInt32), Usage: "minimum number of comparisons in that time."},
	}
	g.Own("cutover-check", config.Settings(config.Parsed("POLICY", &cutover.Policy, "report", rollout.ParseCutoverPolicy), nil, settings...), config.Describe(
		"What to do with the comparisons of mode Pre: report (say whether a cutover is advisable), enforce (also refuse a switch to Exec while it is not, "+
			"unless the mode has an exclamation mark: Exec!) or off. A start in Exec is not a switch. Settings may follow, as in enforce,clean-for=1h.", settings...))
	settings = []config.Setting{
		{Name: "after", Value: config.Duration(&fallback.After, rollout.DefaultFallbackAfter, time.Second, most), Usage: "time without an answer from any route server before a fallback."},
		{Name: "max-age", Value: config.Duration(&fallback.MaxAge, rollout.DefaultFallbackMaxAge, time.Second, most), Usage: "maximum age of the table with always."},
		{Name: "window", Value: config.Duration(&fallback.Window, rollout.DefaultFallbackWindow, time.Second, most), Usage: "time over which a fleet spreads its fallbacks: " +
			"the name of a data plane decides its slot."},
	}
	g.Own("fallback", config.Settings(config.Parsed("POLICY", &fallback.Policy, "boot", rollout.ParseFallbackPolicy), nil, settings...), config.Describe(
		"When to compute a table in mode Exec while no route server answers: boot (if there is no table at all), always (also if the table is too old) or never. "+
			"A fallback reads at a tenth of the rate, and ends when a route server answers again. Settings may follow, as in always,max-age=2h.", settings...))
}

func (f *flags) fetchFlags(p *config.Parser) {
	c := &f.sidecar.Fetch
	g := p.Group(groupFetch)
	g.Own("upstream", config.URLs(&c.URLs), "URL of a route server, the preferred one first. May be repeated, or be a list separated by commas.")
	g.Own("zone", config.Text("ZONE", &c.Zone, ""), "Zone of the table; empty means the full table.")
	g.Own("zone-file", config.Text("PATH", &c.ZoneFile, ""), "File with the zone, for example from the downward API, instead of --zone.")
	p.UpdateMode(groupFetch, &c.UpdateMode)
	g.Own("fetch-interval", config.Duration(&c.Interval, dataplane.DefaultInterval, time.Millisecond, most), "Time between two polls; a tenth of it is random.")
	p.MaxTable(groupFetch, &c.MaxBytes)
	g.Own("proxy-metrics-url", config.Text("URL", &f.sidecar.ProxyMetricsURL, sidecar.DefaultProxyMetricsURL), "URL of the metrics "+
		"of the proxy. Every ten seconds a few sums of them are reported to the route server in use, for /clients: requests, errors, "+
		"routes, refused routes and the time when it applied a table. Empty turns that off; so does a proxy without metrics.")
	p.UpstreamTLS(groupFetch, &f.tls)
}

func (f *flags) serveFlags(p *config.Parser) {
	c := &f.sidecar
	g := p.Group(groupServe)
	g.Skipper("address", config.Address(&c.Address, sidecar.DefaultAddress), "Listener for the proxy: /routes, /health, /fresh.")
	g.Skipper("support-listener", config.Address(&c.SupportAddress, sidecar.DefaultSupportAddress), "Listener for operators, "+
		"probes and metrics: /livez, /health, /fresh, /status, /problems, /shadow, /guard/held, /metrics; empty turns it off.")
	g.Own("support-loopback-only", config.Bool(&c.SupportLoopbackOnly, false), "Answer /status, /problems, /shadow, /guard/held and profiles "+
		"only to commands in the container, such as dataplane-client get /status, over the socket in --state-dir. /livez, /health, /fresh "+
		"and /metrics stay open. Without this flag the pages also answer other machines, but never the addresses of this pod, which the proxy shares.")
	settings := []config.Setting{
		{Name: "cert", Value: config.Text("PATH", &c.SupportTLS.Cert, ""), Usage: "certificate."},
		{Name: "key", Value: config.Text("PATH", &c.SupportTLS.Key, ""), Usage: "its private key."},
		{Name: "client-ca", Value: config.Text("PATH", &c.SupportTLS.ClientCA, ""), Usage: "CAs of clients. With it only /livez, /health and /fresh answer without a client certificate."},
	}
	g.Own("support-tls", config.Settings(nil, nil, settings...), config.Describe("Files for TLS of the support listener, PEM, read again when they change.", settings...))
	g.Own("routes-file", config.Text("PATH", &c.RoutesFile, ""), "File to write the served table to, for a proxy "+
		"with -routes-file. The proxy must run as the same user. It gets every change at once.")
	p.Debounce(groupServe, &c.EndpointDebounce)
	g.Own("drain", config.Duration(&c.Drain, 0, 0, most), "How long to keep serving after the signal to stop: the proxy may need a table while it drains.")
}
