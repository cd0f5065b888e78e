// Command dataplane-client runs beside an ingress proxy and serves it a routing table: that of the route servers, fetched, verified and
// kept, or one that it computes itself. SIGHUP reads the mode file at once. The exit status is 0 after a normal end, 2 if the program
// could not start, and 1 if it failed later.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/app/sidecar"
)

// version is set by the linker in a release build.
var version string

// stateDir is the state folder of the components in deploy/kustomize.
const stateDir = "/var/lib/dataplane"

func main() { program.Main(run) }

// run is the whole program. It returns the exit status when ctx ends. SIGHUP reads the mode file.
func run(ctx context.Context, args, environ []string, std program.Stdio) int {
	env := program.Env(environ)
	root := &cobra.Command{
		Use: "dataplane-client",
		Long: `Runs beside an ingress proxy and serves it a routing table on the loopback interface. The mode decides
whether it fetches the table from route servers, or computes it from the cluster with the flags of
routesrv:

    False  compute the table
    Pre    compute the table, also fetch the one of a route server, and compare both
    Exec   fetch the table; --fallback says when to compute one instead

The proxy then runs without -kubernetes, with -routes-urls=http://127.0.0.1:9005/routes.`,
		Example: `  # Fetch the table from a route server, and keep a copy that survives a restart
  dataplane-client --mode Exec --upstream http://routesrv.ingress.svc --state-dir /var/lib/dataplane
  # Move a fleet: mount a ConfigMap with the key "mode", and write False, Pre, Exec:25% or Exec into it
  dataplane-client --mode-file /etc/dataplane/mode --cutover-check enforce \
      --upstream http://routesrv.ingress.svc -kubernetes -kubernetes-in-cluster`,
	}
	var cfg options.Sidecar
	flags := options.SidecarFlags(root, &cfg)
	root.RunE = program.Serve(flags, env, &cfg.Log, &cfg.Sidecar.StateDir, func(log *slog.Logger) (program.Service, error) {
		return newSidecar(&cfg, log, std.In)
	})
	queries := cli.Program{
		Name: "dataplane-client", Beside: true, Env: env,
		Places: func() query.Places { return &query.Socket{Dial: httpserve.DialControl, Folder: stateDir} },
	}
	root.AddCommand(queries.Commands(std)...)
	return program.Execute(ctx, root, version, args, std)
}

// newSidecar wires a sidecar from its configuration.
func newSidecar(c *options.Sidecar, log *slog.Logger, stdin io.Reader) (program.Service, error) {
	cfg := c.Sidecar
	cfg.Logger, cfg.Registry, cfg.Version = log, prometheus.NewRegistry(), program.VersionName(version)
	if len(cfg.Fetch.URLs) > 0 {
		cfg.Fetch.Memory = program.MemoryLimit()
		var err error
		if cfg.Fetch.Transport, err = program.NewTransport("", c.UpstreamTLS, log, cfg.Registry); err != nil {
			return nil, fmt.Errorf("--upstream-tls: %w", err)
		}
	}
	if c.Source.Kubernetes || len(c.Source.Manifests) > 0 {
		source, _, err := program.NewSource(c.Source, stdin, log, cfg.Registry)
		if err != nil {
			return nil, err
		}
		cfg.Source = source
	}
	return sidecar.New(cfg)
}
