// Command dataplane-client runs beside an ingress proxy and serves it a routing table. The mode, which can change at run time,
// decides which table: either the table of the route servers, fetched, verified and kept, or one that the client computes itself.
//
//	dataplane-client [flags]   serve
//	dataplane-client get|held|accept
//	                           ask the process that runs in the same pod
//	dataplane-client version   print the version
//
// SIGHUP reads the mode file at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if
// it failed later.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/rollout"
)

// version is set by the linker in a release build.
var version string

// stateDir is the state folder of the components in deploy/kustomize.
const stateDir = "/var/lib/dataplane"

// program describes dataplane-client to package options.
func program() options.Program {
	return options.Program{Name: "dataplane-client", Version: version, Usage: "dataplane-client --help lists all flags\n"}
}

func main() { options.Main(run) }

// run is the whole program. It returns the exit status when ctx ends. SIGHUP reads the mode file.
func run(ctx context.Context, args, environ []string, std options.Stdio) int {
	env := options.Env{Environ: environ, ReadFile: options.ReadFile(ctx), Output: std.Out}
	asking := cli.Program{
		Name: "dataplane-client", Beside: true, Version: options.VersionText("dataplane-client", version), Env: env,
		Places: func() cli.Places { return &cli.Socket{Dial: httpserve.DialControl, Folder: stateDir} },
	}
	if len(args) > 0 && asking.Has(args[0]) {
		return asking.Run(ctx, args, std)
	}
	return options.Serve(ctx, program(), std, func() (*flags, []options.Warning, error) { return parse(args, env) },
		func(f *flags) (options.Log, string) { return f.log, f.sidecar.StateDir }, newSidecar)
}

// newSidecar wires a sidecar from its configuration.
func newSidecar(f *flags, log *slog.Logger, std options.Stdio) (options.Service, error) {
	cfg := f.sidecar
	cfg.Logger, cfg.Registry, cfg.Version = log, prometheus.NewRegistry(), options.VersionName(version)
	if len(cfg.Fetch.URLs) > 0 {
		cfg.Fetch.Memory = options.MemoryLimit()
		var err error
		if cfg.Fetch.Transport, err = options.NewTransport("", f.tls, log, cfg.Registry); err != nil {
			return nil, fmt.Errorf("--upstream-tls: %w", err)
		}
	}
	if f.source.Kubernetes || len(f.source.Manifests) > 0 {
		source, _, err := options.NewSource(f.source, std.In, log, cfg.Registry)
		if err != nil {
			return nil, err
		}
		cfg.Source = source
	}
	return sidecar.New(cfg)
}

// flags holds the configuration of a data-plane client.
type flags struct {
	sidecar sidecar.Config
	source  options.Source
	log     options.Log
	tls     options.TLSFiles
}

// parse reads flags, environment and configuration file. Its warnings and errors come from package config.
func parse(args []string, env options.Env) (*flags, []options.Warning, error) {
	f, poll := &flags{}, options.Poll{}
	p := newParser(f, &poll)
	p.Check(func() ([]options.Warning, error) { return f.check(p) })
	_, warnings, err := p.Parse(args, env)
	if err != nil {
		return nil, warnings, err
	}
	f.sidecar.Interval, f.sidecar.MaxBackoff = poll.Interval, poll.MaxBackoff
	return f, warnings, nil
}

// newParser returns a parser with all flags, which fills f and poll.
func newParser(f *flags, poll *options.Poll) *options.Parser {
	p := options.NewParser(options.Command{Name: "dataplane-client"})
	c := &f.sidecar
	f.modeFlags(p)
	f.fetchFlags(p)
	f.serveFlags(p)
	p.Source(&f.source)
	p.Poll(poll)
	p.Timing(&f.source, poll, &c.Fetch.FullEvery, &c.Fetch.Timeout, options.ShutdownTime(&c.ShutdownTimeout, sidecar.DefaultShutdownTimeout), options.Setting{
		Name: "fresh-limit", Value: options.Duration(&c.FreshLimit, sidecar.DefaultFreshLimit, time.Millisecond, most),
	})
	p.Compile(&c.Compile)
	p.Guard(&c.Guard, guard.DefaultMaxLoss, guard.DefaultHold)
	p.Flag("enable-profile", options.Bool(&c.EnableProfile, false))
	p.Flag("state-dir", options.Text("string", &c.StateDir, ""))
	p.Log(&f.log)
	p.CompileFrom(&c.Compile, &f.source, &f.log)
	return p
}

// check validates combinations of flags.
func (f *flags) check(p *options.Parser) (warnings []options.Warning, err error) {
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
		warnings = append(warnings, options.Warning{Flag: "--support-listener", Text: "is turned off: --support-loopback-only and --support-tls " +
			"have no effect"})
	}
	if len(c.Fetch.URLs) > 0 && c.StateDir == "" {
		warnings = append(warnings, options.Warning{Flag: "--state-dir", Text: "is not set: the last table is kept only in " +
			"memory, and is lost if this process restarts while no route server answers"})
	}
	if c.Fallback.Policy != rollout.FallbackNever && len(c.Fetch.URLs) > 0 && !f.source.Kubernetes && len(f.source.Manifests) == 0 {
		warnings = append(warnings, options.Warning{Flag: "--fallback", Text: string(c.Fallback.Policy) + " has no effect without -kubernetes"})
	}
	return warnings, nil
}

// most is the longest time of a flag.
const most = 30 * 24 * time.Hour

func (f *flags) modeFlags(p *options.Parser) {
	c, cutover, fallback := &f.sidecar, &f.sidecar.Cutover, &f.sidecar.Fallback
	cutover.Policy, fallback.Policy = rollout.CutoverReport, rollout.FallbackBoot
	p.Flag("mode", options.Parsed("MODE", &c.Setting, rollout.Setting{}.String(), rollout.ParseSetting))
	p.Flag("mode-file", options.Text("PATH", &c.ModeFile, ""))
	p.Flag("pod-name", options.Text("NAME", &c.Pod, ""))
	p.Flag("pod-namespace", options.Text("NAME", &c.PodNamespace, ""))
	p.Flag("node-name", options.Text("NAME", &c.Node, ""))

	settings := []options.Setting{
		{Name: "clean-for", Value: options.Duration(&cutover.CleanFor, rollout.DefaultCleanFor, 0, most)},
		{Name: "comparisons", Value: options.Number(&cutover.MinComparisons, rollout.DefaultMinComparisons, 0, math.MaxInt32)},
	}
	p.Flag("cutover-check", options.Settings(options.Choice((*string)(&cutover.Policy), "report", "enforce", "off"), nil, settings...))
	settings = []options.Setting{
		{Name: "after", Value: options.Duration(&fallback.After, rollout.DefaultFallbackAfter, time.Second, most)},
		{Name: "max-age", Value: options.Duration(&fallback.MaxAge, rollout.DefaultFallbackMaxAge, time.Second, most)},
		{Name: "window", Value: options.Duration(&fallback.Window, rollout.DefaultFallbackWindow, time.Second, most)},
	}
	p.Flag("fallback", options.Settings(options.Choice((*string)(&fallback.Policy), "boot", "never", "always"), nil, settings...))
}

func (f *flags) fetchFlags(p *options.Parser) {
	c := &f.sidecar.Fetch
	c.UpdateMode = dataplane.Auto
	p.Flag("upstream", options.URLs(&c.URLs))
	p.Flag("zone", options.Text("ZONE", &c.Zone, ""))
	p.Flag("zone-file", options.Text("PATH", &c.ZoneFile, ""))
	p.Flag("update-mode", options.Choice((*string)(&c.UpdateMode), "auto", "stream", "poll"))
	p.Flag("fetch-interval", options.Duration(&c.Interval, dataplane.DefaultInterval, time.Millisecond, most))
	p.Flag("max-table-bytes", options.Size(&c.MaxBytes, "0"))
	p.Flag("proxy-metrics-url", options.Text("URL", &f.sidecar.ProxyMetricsURL, sidecar.DefaultProxyMetricsURL))
	p.UpstreamTLS(&f.tls)
}

func (f *flags) serveFlags(p *options.Parser) {
	c := &f.sidecar
	p.Flag("address", options.Address(&c.Address, sidecar.DefaultAddress))
	p.Flag("support-listener", options.Address(&c.SupportAddress, sidecar.DefaultSupportAddress))
	p.Flag("support-loopback-only", options.Bool(&c.SupportLoopbackOnly, false))
	settings := []options.Setting{
		{Name: "cert", Value: options.Text("PATH", &c.SupportTLS.Cert, "")},
		{Name: "key", Value: options.Text("PATH", &c.SupportTLS.Key, "")},
		{Name: "client-ca", Value: options.Text("PATH", &c.SupportTLS.ClientCA, "")},
	}
	p.Flag("support-tls", options.Settings(nil, nil, settings...))
	p.Flag("routes-file", options.Text("PATH", &c.RoutesFile, ""))
	p.Flag("endpoint-debounce", options.Duration(&c.EndpointDebounce, 0, 0, time.Hour))
	p.Flag("drain", options.Duration(&c.Drain, 0, 0, most))
}
