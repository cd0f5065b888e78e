// Command routesrv is a route server for fleets of ingress proxies: it reads Ingresses and RouteGroups once, compiles them into
// one eskip routing table, and serves that table to all proxies with ETag and 304.
//
// A first argument "routesrv" is skipped, also after --check-config, because manifests for Skipper's image pass the program name
// there. SIGHUP reads the source at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if it failed
// later; commands document their own exit statuses.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// version is set by the linker in a release build.
var version string

func main() { program.Main(run) }

// stateDir is the state folder of the base in deploy/kustomize.
const stateDir = "/var/lib/routesrv"

// run is the whole program. It returns the exit status when ctx ends.
func run(ctx context.Context, args, environ []string, std program.Stdio) int {
	env := program.Env(environ)
	root := serveCommand(env, std)
	root.AddCommand(compileCommand(env, std), webhookCommand(env, std))
	queries := cli.Program{
		Name: "routesrv", Places: query.NewURLs, Env: env,
		InPod: func() query.Places { return &query.Socket{Dial: httpserve.DialControl, Folder: stateDir} },
	}
	root.AddCommand(queries.Commands(std)...)
	return program.Execute(ctx, root, version, withoutName(args), std)
}

// withoutName returns the arguments without a first "routesrv". A user who checks the arguments of a manifest writes --check-config before them.
func withoutName(args []string) []string {
	for i, arg := range args {
		if arg == "routesrv" {
			return slices.Delete(slices.Clone(args), i, i+1)
		}
		if name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); name != "check-config" {
			break
		}
	}
	return args
}

// serveCommand returns the program without a command: it serves until the context ends. SIGHUP reads the source at once.
func serveCommand(env options.Env, std program.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "routesrv",
		Long: `Reads Ingresses and RouteGroups once for a whole fleet of proxies, compiles them into one routing
table, and serves it to every proxy under /routes. Proxies then run without -kubernetes, with
-routes-urls=http://routesrv/routes. The flags of Skipper's route server work unchanged, with one
dash or two.

SIGTERM drains and stops the server; a second one stops it at once. SIGHUP reads the source at once.`,
		Example: `  # Try it with a folder of manifests, on the loopback interface only
  routesrv --manifests ./manifests
  # Read a cluster from outside
  routesrv -kubernetes --kubeconfig ~/.kube/config
  # In a cluster, with a copy of the table that survives a restart
  routesrv -kubernetes -kubernetes-in-cluster -address=:9090 -support-listener=:9911 \
      -source-poll-timeout=3000 -wait-for-healthcheck-interval=65s --state-dir=/var/lib/routesrv
  # As a relay, which serves the table of other route servers to part of a large fleet
  routesrv --upstream=http://routesrv-a,http://routesrv-b --state-dir=/var/lib/routesrv`,
	}
	var cfg options.RouteServer
	flags := options.RouteServerFlags(cmd, &cfg)
	cmd.RunE = program.Serve(flags, env, &cfg.Log, &cfg.Server.StateDir, func(log *slog.Logger) (program.Service, error) {
		return newServer(&cfg, log, std.In)
	})
	return cmd
}

func webhookCommand(env options.Env, std program.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "webhook", Short: "Checks an Ingress or a RouteGroup before the API server stores it.", Args: cobra.NoArgs,
		Long: `Rejects an object that would lose routes through its own fault; all other faults become warnings, which
kubectl prints, in the words of /problems. It accepts all flags of the server, so that both can read
one configuration file: with other settings the webhook would judge another table.

A ValidatingWebhookConfiguration tells the API server about it: components/webhook has one that admits
objects while the webhook is down (failurePolicy: Ignore).`,
		Example: `  # In a cluster, with a certificate for the name of its Service
  routesrv webhook -kubernetes -kubernetes-in-cluster -config-file=/etc/routesrv/flags.yaml \
      -tls-cert=/tls/tls.crt -tls-key=/tls/tls.key`,
	}
	var cfg options.RouteServer
	flags := options.WebhookFlags(cmd, &cfg)
	cmd.RunE = program.Serve(flags, env, &cfg.Log, &cfg.Server.StateDir, func(log *slog.Logger) (program.Service, error) {
		return newWebhook(&cfg, log, std.In)
	})
	return cmd
}

// compileCommand prints the table of manifests, and on standard error one line for each problem with the object that has it.
func compileCommand(env options.Env, std program.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "compile [flags] PATH...", Short: "Prints the table of manifests.", DisableFlagsInUseLine: true,
		Long: `Compiles manifests into a routing table and prints it, without a server. It accepts all flags of the
server, so you can try the arguments or the configuration file of a Deployment unchanged.

The exit status is 0 if there is no problem of severity error or warning, 1 if there is one, and 2
after an error. With --against it is 0 if the objects take nothing, and 1 if they do or may.`,
		Example: `  # Compile this folder with the settings of production
  routesrv compile -config-file production.yaml ./manifests
  # Ask a route server which requests of others these objects would take
  routesrv compile --against http://127.0.0.1:9911 ./manifests`,
	}
	var cfg options.RouteServer
	flags := options.CompileFlags(cmd, &cfg)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := program.Resolved(cmd, flags, flags.Resolve(args, env)); err != nil {
			return err
		}
		if cfg.Against != "" {
			return program.StatusError(cli.Against(cmd.Context(), cfg.Against, cfg.Source.Manifests, cfg.Output, std))
		}
		return program.StatusError(printCompiled(cmd.Context(), cfg, std))
	}
	return cmd
}

func printCompiled(ctx context.Context, cfg options.RouteServer, std program.Stdio) (status int, err error) {
	result, err := cli.Compile(ctx, cfg, std)
	if err != nil {
		return 0, err
	}
	if err := printTable(std.Out, result.Routes, std.OutTerminal); err != nil {
		return 0, fmt.Errorf("print the table: %w", err)
	}
	for _, p := range result.Problems {
		if p.Reason == rules.NoEndpoints && cli.WithoutPods(result.Snapshot) {
			continue // manifests without pods
		}
		fmt.Fprintln(std.Err, shadowdiff.PrintableLines(p.Line()))
		if p.Severity > rules.Info {
			status = program.ExitFailed
		}
	}
	return status, nil
}

// printTable prints the table as proxies get it. On a terminal it escapes control characters, for which eskip has no escape.
func printTable(to io.Writer, routes table.List, terminal bool) error {
	out := bufio.NewWriter(to)
	for r := range routes.All() {
		text := r.Text
		if terminal {
			text = shadowdiff.Printable(text)
		}
		fmt.Fprintln(out, text)
	}
	return out.Flush()
}
