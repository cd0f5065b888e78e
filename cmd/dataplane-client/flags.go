package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

// Flag groups that only dataplane-client has.
const (
	groupMode     config.Group = "Mode"
	groupCutover  config.Group = "Cutover check"
	groupFallback config.Group = "Fallback"
	groupFetch    config.Group = "Route servers"
	groupServe    config.Group = "Listeners"
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
	f := &flags{}
	p := config.NewParser(config.Command{Name: "dataplane-client", Intro: intro})
	p.CheckOutput()
	var poll config.Poll
	c := &f.sidecar
	f.modeFlags(p)
	f.cutoverFlags(p)
	f.fallbackFlags(p)
	f.fetchFlags(p)
	f.serveFlags(p)
	p.Source(&f.source)
	p.Poll(&poll)
	p.Compile(&c.Compile)
	p.Guard(&c.Guard, guard.DefaultHold)
	p.Profile(&c.EnableProfile)
	p.StateDir(&c.StateDir)
	p.Log(&f.log)
	p.CompileFrom(&c.Compile, &f.source, &f.log)
	_, warnings, err := p.Parse(args, env)
	if err != nil && !errors.Is(err, config.ErrChecked) {
		return nil, warnings, err
	}
	c.Interval, c.MaxBackoff = poll.Interval, poll.MaxBackoff
	more, wrong := f.check(p)
	warnings = append(warnings, more...)
	if wrong != nil {
		return nil, warnings, wrong
	}
	return f, warnings, err
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
	if _, err := c.ShareBy.Member(c.Node, c.Pod); err != nil {
		return nil, fmt.Errorf("--share-by %s: %w: set --node-name, such as from spec.nodeName of the downward API", c.ShareBy, err)
	}
	if len(f.source.Manifests) == 0 && !f.source.Kubernetes && len(c.Fetch.URLs) == 0 {
		return nil, errors.New("no source for a table: set --upstream to fetch one, -kubernetes or --manifests to compute " +
			"one")
	}
	withTLS := c.SupportTLS != (sidecar.SupportTLS{})
	if withTLS && (c.SupportTLS.Cert == "" || c.SupportTLS.Key == "") {
		return nil, errors.New("--support-tls-cert, --support-tls-key and --support-client-ca: set certificate and key; client certificates need TLS")
	}
	if c.SupportAddress == "" && (withTLS || c.SupportLoopbackOnly) {
		warnings = append(warnings, config.Warning{Flag: "--support-listener", Text: "is turned off: --support-loopback-only and --support-tls-cert " +
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

func (f *flags) modeFlags(p *config.Parser) {
	c := &f.sidecar
	p.Flag(groupMode, "mode", parsed("MODE", &c.Setting, rollout.Setting{}.String(), rollout.ParseSetting), "Mode at the start: "+
		rollout.SettingForms+"; upper or lower case.")
	p.Flag(groupMode, "mode-file", text("PATH", &c.ModeFile, ""), "File with the mode, such as a key of a mounted ConfigMap. "+
		"It is read every second, and at once on SIGHUP. A mode in the file overrides --mode; any other content changes "+
		"nothing.")
	p.Flag(groupMode, "pod-name", text("NAME", &c.Pod, ""), "Name of the pod. It decides when this data plane may fall back and, "+
		"where --share-by says so, whether it belongs to the share of Exec:25%. Empty means the host name. "+
		"With the next two flags it also names this client in /clients of the route servers.")
	p.Flag(groupMode, "pod-namespace", text("NAME", &c.PodNamespace, ""), "Namespace of the pod.")
	p.Flag(groupMode, "node-name", text("NAME", &c.Node, ""), "Node of the pod.")
	p.Flag(groupMode, "share-by", parsed("NAME", &c.ShareBy, rollout.ShareByAuto.String(), rollout.ParseShareBy), "Name that decides "+
		"whether this data plane belongs to the share of Exec:25%: node (--node-name: the share survives a rollout, which renames "+
		"the pods of a Deployment), pod (--pod-name: for a StatefulSet, whose pods keep their names but not their nodes), or auto (node if "+
		"--node-name is set, else pod).")
}

func (f *flags) cutoverFlags(p *config.Parser) {
	g := &f.sidecar.Cutover
	p.Flag(groupCutover, "cutover-check", parsed("POLICY", &g.Policy, "report", rollout.ParseCutoverPolicy), "What to do with the comparisons "+
		"of mode Pre: report (say whether a cutover is advisable), enforce (also refuse a switch to Exec while it is not, "+
		"unless the mode has an exclamation mark: Exec!) or off. A start in Exec is not a switch.")
	p.Flag(groupCutover, "cutover-clean-for", duration(&g.CleanFor, rollout.DefaultCleanFor, 0), "How long the tables must have been "+
		"equal, apart from skew.")
	p.Flag(groupCutover, "cutover-min-comparisons", number(&g.MinComparisons, rollout.DefaultMinComparisons), "Minimum number of "+
		"comparisons in that time.")
}

func (f *flags) fallbackFlags(p *config.Parser) {
	c := &f.sidecar.Fallback
	p.Flag(groupFallback, "fallback", parsed("POLICY", &c.Policy, "boot", rollout.ParseFallbackPolicy), "When to compute a "+
		"table in mode Exec while no route server answers: boot (if there is no table at all), always (also if the table is "+
		"too old) or never. A fallback reads at a tenth of the rate, and ends when a route server answers again.")
	p.Flag(groupFallback, "fallback-after", duration(&c.After, rollout.DefaultFallbackAfter, time.Second), "Time without an "+
		"answer from any route server before a fallback.")
	p.Flag(groupFallback, "fallback-max-age", duration(&c.MaxAge, rollout.DefaultFallbackMaxAge, time.Second), "Maximum age of the "+
		"table with --fallback always.")
	p.Flag(groupFallback, "fallback-window", duration(&c.Window, rollout.DefaultFallbackWindow, time.Second), "Time over which a "+
		"fleet spreads its fallbacks: the name of a data plane decides its slot.")
}

// urlFlag can be repeated.
const urlFlag = "upstream"

func (f *flags) fetchFlags(p *config.Parser) {
	c := &f.sidecar.Fetch
	p.Flag(groupFetch, urlFlag, &value{kind: "URL", repeat: true, set: func(s string) error {
		for u := range strings.SplitSeq(s, ",") {
			if u = strings.TrimSpace(u); u != "" {
				c.URLs = append(c.URLs, u)
			}
		}
		return nil
	}}, "URL of a route server, the preferred one first. May be repeated, or be a list separated by commas.")
	p.Flag(groupFetch, "zone", text("ZONE", &c.Zone, ""), "Zone of the table; empty means the full table.")
	p.Flag(groupFetch, "zone-file", text("PATH", &c.ZoneFile, ""), "File with the zone, for example from the downward API, "+
		"instead of --zone.")
	p.Flag(groupFetch, "update-mode", parsed("MODE", &c.UpdateMode, dataplane.Auto.String(), dataplane.ParseUpdateMode), "How to get new "+
		"tables: stream (the route server sends changes when they happen), poll (ask for them), or auto (stream, and poll "+
		"while streams do not work; it tries a stream again after half a minute, and later up to every five minutes). Changes "+
		"arrive as deltas either way, where the route server has them.")
	p.Flag(groupFetch, "full-fetch-interval", duration(&c.FullEvery, dataplane.DefaultFullEvery, time.Minute), "How often to fetch "+
		"a full table in spite of deltas; a random part of up to half is subtracted.")
	p.Flag(groupFetch, "fetch-interval", duration(&c.Interval, dataplane.DefaultInterval, time.Millisecond), "Time between two "+
		"polls; a tenth of it is random.")
	p.Flag(groupFetch, "fetch-timeout", duration(&c.Timeout, dataplane.DefaultTimeout, time.Millisecond), "Time limit of a "+
		"request, to the last byte of the answer.")
	p.Flag(groupFetch, "max-table-bytes", size(&c.MaxBytes, 0), "Largest table to accept. 0 means four times the last table "+
		"and at least 64 MiB, or 512 MiB before the first table, and at most a quarter of the memory limit (of the cgroup, or "+
		"GOMEMLIMIT).")
	p.Flag(groupFetch, "proxy-metrics-url", text("URL", &f.sidecar.ProxyMetricsURL, sidecar.DefaultProxyMetricsURL), "URL of the metrics "+
		"of the proxy. Every ten seconds a few sums of them are reported to the route server in use, for /clients: requests, errors, "+
		"routes, refused routes and the time when it applied a table. Empty turns that off; so does a proxy without metrics.")
	p.Flag(groupFetch, "upstream-ca-file", text("PATH", &f.tls.CA, ""), "CAs of the route servers, PEM, instead of those of "+
		"the system. Read again when the file changes.")
	p.Flag(groupFetch, "upstream-client-cert", text("PATH", &f.tls.Cert, ""), "Certificate to present to route servers, PEM. "+
		"Read again when the file changes.")
	p.Flag(groupFetch, "upstream-client-key", text("PATH", &f.tls.Key, ""), "Private key of that certificate, PEM.")
}

func (f *flags) serveFlags(p *config.Parser) {
	c := &f.sidecar
	p.Flag(groupServe, "address", address(&c.Address, sidecar.DefaultAddress), "Listener for the proxy: /routes, /health, /fresh.")
	p.Flag(groupServe, "support-listener", address(&c.SupportAddress, sidecar.DefaultSupportAddress), "Listener for operators, "+
		"probes and metrics: /livez, /health, /fresh, /status, /problems, /shadow, /guard/held, /metrics; empty turns it off.")
	p.Flag(groupServe, "support-loopback-only", boolean(&c.SupportLoopbackOnly), "Answer /status, /problems, /shadow, /guard/held and profiles "+
		"only to commands in the container, such as dataplane-client get /status, over the socket in --state-dir. /livez, /health, /fresh "+
		"and /metrics stay open. Without this flag the pages also answer other machines, but never the addresses of this pod, which the proxy shares.")
	p.Flag(groupServe, "support-tls-cert", text("PATH", &c.SupportTLS.Cert, ""), "Certificate of the support listener, PEM: it then "+
		"serves TLS. Read again when the file changes.")
	p.Flag(groupServe, "support-tls-key", text("PATH", &c.SupportTLS.Key, ""), "Private key of that certificate, PEM.")
	p.Flag(groupServe, "support-client-ca", text("PATH", &c.SupportTLS.ClientCA, ""), "CAs of the clients of the support listener, PEM. With it "+
		"only /livez, /health and /fresh answer without a client certificate. Read again when the file changes.")
	p.Flag(groupServe, "routes-file", text("PATH", &c.RoutesFile, ""), "File to write the served table to, for a proxy "+
		"with -routes-file. The proxy must run as the same user.")
	p.Flag(groupServe, "endpoint-debounce", duration(&c.EndpointDebounce, 0, 0), "How long a change may wait that only adds endpoints to routes "+
		"which have some. It waits for similar changes, or for the next change of another kind, and reaches the proxy with them: each "+
		"changed table costs the proxy as much as its first. Removed endpoints and changed objects never wait. 0 serves every change at "+
		"once. --routes-file gets every change at once.")
	p.Flag(groupServe, "fresh-limit", duration(&c.FreshLimit, sidecar.DefaultFreshLimit, time.Millisecond), "Age of the last "+
		"read of the cluster at which /fresh starts to answer 503.")
	p.Flag(groupServe, "drain", duration(&c.Drain, 0, 0), "How long to keep serving after the signal to stop: the proxy may "+
		"need a table while it drains.")
	p.Flag(groupServe, "shutdown-timeout", duration(&c.ShutdownTimeout, sidecar.DefaultShutdownTimeout, time.Millisecond), "Time for open "+
		"requests after that.")
}

// value is a flag whose setter is a function.
type value struct {
	kind, def string
	set       func(string) error
	repeat    bool
}

// Set, String and Type implement pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string     { return v.def }
func (v *value) Type() string       { return v.kind }

// IsBoolFlag reports whether the flag may be given without a value.
func (v *value) IsBoolFlag() bool { return v.kind == "bool" }

// IsRepeated reports whether a repeated flag adds its values, instead of keeping only the last one.
func (v *value) IsRepeated() bool { return v.repeat }

// boolean is a flag that may be given without a value.
func boolean(dst *bool) *value {
	return &value{kind: "bool", def: "false", set: func(s string) (err error) { *dst, err = strconv.ParseBool(s); return err }}
}

func text(kind string, dst *string, def string) *value {
	*dst = def
	return &value{kind: kind, def: def, set: func(s string) error { *dst = s; return nil }}
}

func parsed[T any](kind string, dst *T, shown string, parse func(string) (T, error)) *value {
	return &value{kind: kind, def: shown, set: func(s string) (err error) { *dst, err = parse(s); return err }}
}

func duration(dst *time.Duration, def, least time.Duration) *value {
	*dst = def
	return &value{kind: "duration", def: short(def), set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > 30*24*time.Hour {
			return fmt.Errorf("%q: want a time with its unit, such as 45s, from %s to 720h", s, short(least))
		}
		*dst = d
		return nil
	}}
}

// short formats a duration without zero units: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func number(dst *int, def int) *value {
	*dst = def
	return &value{kind: "int", def: strconv.Itoa(def), set: func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want a whole number, at least 0", s)
		}
		*dst = n
		return nil
	}}
}

func size(dst *int64, def int64) *value {
	*dst = def
	return &value{kind: "int", def: strconv.FormatInt(def, 10), set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want a number of bytes", s)
		}
		*dst = n
		return nil
	}}
}

func address(dst *string, def string) *value {
	*dst = def
	return &value{kind: "HOST:PORT", def: def, set: func(s string) error {
		if _, port, err := net.SplitHostPort(s); s != "" && (err != nil || port == "") {
			return fmt.Errorf("%q: want HOST:PORT", s)
		}
		*dst = s
		return nil
	}}
}
