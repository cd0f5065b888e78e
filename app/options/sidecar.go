package options

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/rollout"
)

// Sidecar holds everything that the flags of dataplane-client set.
type Sidecar struct {
	// Sidecar has what flags set; the program adds the parts that run.
	Sidecar     sidecar.Config
	Source      Source
	UpstreamTLS TLSFiles
	Log         Log
}

// SidecarFlags declares the flags of dataplane-client on a command. They fill c.
func SidecarFlags(cmd *cobra.Command, c *Sidecar) *Flags {
	f := New(cmd)
	s := &c.Sidecar
	f.general()
	f.source(&c.Source)
	f.mode(s)
	f.fetch(&s.Fetch, &c.UpstreamTLS, "URL of a route server, the preferred one first. May be repeated.")
	f.Add("--zone", Text("ZONE", &s.Fetch.Zone, ""), "Zone of the table; empty means the full table.")
	f.Add("--zone-file", Text("PATH", &s.Fetch.ZoneFile, ""), "File with the zone, instead of --zone.")
	f.Add("--proxy-metrics-url", Text("URL", &s.ProxyMetricsURL, sidecar.DefaultProxyMetricsURL),
		"Metrics of the proxy, which show with which tables it runs; empty: none.")
	f.polling(&c.Source, &s.Interval, &s.MaxBackoff, &s.Fetch,
		Setting{"shutdown", Duration(&s.ShutdownTimeout, sidecar.DefaultShutdownTimeout, tick, day), "for open requests, after draining."},
		Setting{"fresh-limit", Duration(&s.FreshLimit, sidecar.DefaultFreshLimit, tick, 30*day),
			"age of the last read of the cluster at which /fresh answers 503."})
	f.selection(&c.Source)
	f.compile(&s.Compile, &c.Source, &c.Log.Level)
	f.guard(&s.Guard, guard.DefaultMaxLoss, guard.DefaultHold, func() bool { return false })
	f.sidecarListeners(s)
	f.log(&c.Log)
	f.Group("State folder", "what survives a restart")
	f.Add("--state-dir", Text("PATH", &s.StateDir, ""), "Folder of the last-known-good file and the control socket.")
	f.Check(func() { f.checkSidecar(c) })
	return f
}

func (f *Flags) mode(s *sidecar.Config) {
	f.Group("Mode", "which table the data plane serves")
	f.Add("--mode", Parsed("MODE", &s.Setting, rollout.Setting{}.String(), rollout.ParseSetting),
		"Mode at the start: False, Pre, Exec, Exec:25% (a share of the fleet), Exec:3 (the proxies of three nodes), or Exec! and Exec:25%! (past the "+
			"cutover check).")
	f.Add("--mode-file", Text("PATH", &s.ModeFile, ""), "File with the mode, read every second and at SIGHUP. It overrides --mode.")
	f.Add("--pod-name", Text("NAME", &s.Pod, ""), "Name of the pod, for fallbacks and /clients; empty means the host name.")
	f.Add("--pod-namespace", Text("NAME", &s.PodNamespace, ""), "Namespace of the pod, for the same.")
	f.Add("--node-name", Text("NAME", &s.Node, ""), "Node of the pod, for shares such as Exec:25%; by default the pod's name counts.")
	cutover, fallback := &s.Cutover, &s.Fallback
	cutover.Policy, fallback.Policy = rollout.CutoverReport, rollout.FallbackBoot
	f.Add("--cutover-check", Settings(Choice((*string)(&cutover.Policy), "report", "enforce", "off"),
		Setting{"clean-for", Duration(&cutover.CleanFor, rollout.DefaultCleanFor, 0, 30*day), "how long the tables must be equal, apart from skew."},
		Setting{"comparisons", Number(&cutover.MinComparisons, rollout.DefaultMinComparisons, 0, most), "minimum number in that time."},
	), "What to do with the comparisons of mode Pre: report, enforce (refuse Exec, but not Exec!, while they differ) or off. Settings may "+
		"follow, as in enforce,clean-for=1h.")
	f.Add("--fallback", Settings(Choice((*string)(&fallback.Policy), "boot", "never", "always"),
		Setting{"after", Duration(&fallback.After, rollout.DefaultFallbackAfter, time.Second, 30*day), "time without an answer before a fallback."},
		Setting{"max-age", Duration(&fallback.MaxAge, rollout.DefaultFallbackMaxAge, time.Second, 30*day), "maximum age of the table with always."},
		Setting{"window", Duration(&fallback.Window, rollout.DefaultFallbackWindow, time.Second, 30*day),
			"time over which a fleet spreads its fallbacks."},
	), "When to compute a table in mode Exec while no route server answers: boot (without any table), always (also if the table is too old) "+
		"or never. Settings may follow, as in always,max-age=2h.")
}

func (f *Flags) sidecarListeners(s *sidecar.Config) {
	f.Group("Listeners and shutdown", "where the data plane listens, and how it stops")
	f.Add("-address", Address(&s.Address, sidecar.DefaultAddress), "Listener for the proxy: /routes, /health, /fresh.")
	f.Add("-support-listener", Address(&s.SupportAddress, sidecar.DefaultSupportAddress),
		"Listener for operators and metrics; empty: none.")
	f.Add("--support-loopback-only", Bool(&s.SupportLoopbackOnly, false),
		"Answer /status, /problems, /shadow, /guard/held and profiles only over the socket in --state-dir.")
	f.Add("--routes-file", Text("PATH", &s.RoutesFile, ""), "File for each served table, for a proxy with -routes-file that runs as the same user.")
	f.Add("-wait-for-healthcheck-interval", Duration(&s.Drain, 0, 0, 30*day), "How long to keep serving after the signal to stop.")
	f.Add("-enable-profile", Bool(&s.EnableProfile, false), "Serve profiles under /debug/pprof on the support listener.")
}

// checkSidecar validates combinations of flags.
func (f *Flags) checkSidecar(c *Sidecar) {
	s := &c.Sidecar
	s.Fetch.Interval, s.Fetch.MaxBytes = s.Interval, int64(s.Guard.MaxBytes)
	if s.Pod == "" {
		var err error
		if s.Pod, err = os.Hostname(); err != nil {
			f.failf("", "--pod-name is not set, and the name of the host is not known: %w", err)
			return
		}
	}
	fetches := len(s.Fetch.URLs) > 0
	if c.Source.none() && !fetches {
		f.failf("", "no source for a table: set --upstream to fetch one, -kubernetes or --manifests to compute one")
	}
	if s.SupportAddress == "" && s.SupportLoopbackOnly {
		f.warn("support-listener", "is turned off: --support-loopback-only has no effect")
	}
	if fetches && s.StateDir == "" {
		f.warn("state-dir", "is not set: the last table is kept only in memory, and is lost if this process restarts while no route server "+
			"answers")
	}
	if fetches && c.Source.none() && s.Fallback.Policy != rollout.FallbackNever {
		f.warn("fallback", "%s has no effect without -kubernetes", s.Fallback.Policy)
	}
}
