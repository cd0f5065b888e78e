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
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/sidecar"
)

// version is set by the linker in a release build.
var version string

// stateDir is the state folder of the components in deploy/kustomize.
const stateDir = "/var/lib/dataplane"

// program describes dataplane-client to package setup.
func program() config.Program {
	return config.Program{Name: "dataplane-client", Version: version, Usage: "dataplane-client --help lists all flags\n"}
}

func main() { config.Main(run) }

// run is the whole program. It returns the exit status when ctx ends. SIGHUP reads the mode file.
func run(ctx context.Context, args, environ []string, std config.Stdio) int {
	env := config.Env{Environ: environ, ReadFile: config.ReadFile(ctx), Output: std.Out}
	asking := cli.Program{
		Name: "dataplane-client", Beside: true, Version: config.VersionText("dataplane-client", version), Env: env,
		Places: func() cli.Places { return &cli.Socket{Dial: httpserve.DialControl, Folder: stateDir} },
	}
	if len(args) > 0 && asking.Has(args[0]) {
		return asking.Run(ctx, args, std)
	}
	return config.Serve(ctx, program(), std, func() (*flags, []config.Warning, error) { return parse(args, env) },
		func(f *flags) config.Log { return f.log }, newSidecar)
}

// newSidecar wires a sidecar from its configuration.
func newSidecar(f *flags, log *slog.Logger, std config.Stdio) (config.Service, error) {
	cfg := f.sidecar
	cfg.Logger, cfg.Registry, cfg.Version = log, prometheus.NewRegistry(), config.VersionName(version)
	if len(cfg.Fetch.URLs) > 0 {
		cfg.Fetch.Memory = config.MemoryLimit()
		var err error
		if cfg.Fetch.Transport, err = config.NewTransport("", f.tls, log, cfg.Registry); err != nil {
			return nil, fmt.Errorf("--upstream-tls: %w", err)
		}
	}
	if f.source.Kubernetes || len(f.source.Manifests) > 0 {
		source, _, err := config.NewSource(f.source, std.In, log, cfg.Registry)
		if err != nil {
			return nil, err
		}
		cfg.Source = source
	}
	return sidecar.New(cfg)
}
