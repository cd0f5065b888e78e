// Command routesrv is a route server for fleets of ingress proxies: it reads Ingresses and RouteGroups once, compiles them into
// one eskip routing table, and serves that table to all proxies with ETag and 304.
//
//	routesrv [flags]                 serve
//	routesrv compile [flags] PATH... print the table of manifests
//	routesrv webhook [flags]         check an Ingress or a RouteGroup before the API server stores it
//	routesrv status|clients|problems|explain|match|diff|held|accept [flags] ...
//	                                 ask running route servers, or about tables and manifests
//	routesrv completion SHELL        print the completion script of a shell
//	routesrv version                 print the version
//
// A first argument "routesrv" is skipped, also after --check-config, because manifests for Skipper's image pass the program name
// there. SIGHUP reads the source at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if it failed later; compile
// and the commands that ask document their own exit statuses.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// version is set by the linker in a release build.
var version string

// program describes routesrv to package options.
func program() options.Program { return options.Program{Name: "routesrv", Version: version} }

func main() { options.Main(run) }

// stateDir is the state folder of the base in deploy/kustomize.
const stateDir = "/var/lib/routesrv"

// asking returns the commands that ask running route servers by URL, and the process in the same pod.
func asking(env options.Env) cli.Program {
	return cli.Program{
		Name: "routesrv", Places: cli.NewURLs, InPod: func() cli.Places { return &cli.Socket{Dial: httpserve.DialControl, Folder: stateDir} },
		Version: options.VersionText("routesrv", version), Env: env, Others: commands(),
	}
}

// commands returns the commands of this program alone.
func commands() []cli.OtherCommand {
	return []cli.OtherCommand{
		{Name: "compile", Summary: "Prints the table of manifests.", Run: runCompile, Flags: options.Flags},
		{Name: "webhook", Summary: "Answers API servers before they store an Ingress or a RouteGroup.", Run: runWebhook, Flags: options.Flags},
	}
}

// run is the whole program. It returns the exit status when ctx ends.
func run(ctx context.Context, args, environ []string, std options.Stdio) int {
	args = withoutName(args)
	env := options.Env{Environ: environ, ReadFile: options.ReadFile(ctx), Output: std.Out}
	if len(args) == 0 {
		return runServe(ctx, args, env, std)
	}
	for _, c := range commands() {
		if c.Name == args[0] {
			return c.Run(ctx, args[1:], env, std)
		}
	}
	asks := asking(env)
	if _, mistyped := asks.Nearest(args[0]); asks.Has(args[0]) || mistyped && !strings.HasPrefix(args[0], "-") {
		return asks.Run(ctx, args, std)
	}
	return runServe(ctx, args, env, std)
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

// runCompile compiles manifests with the flags of the server. It prints the table, and on standard error one line for each
// problem with the object that has it. The exit status is 0 if there are no problems, 1 if there are problems of severity warning
// or error, and 2 if there is no table. With --against it asks a route server instead.
func runCompile(ctx context.Context, args []string, env options.Env, std options.Stdio) int {
	cfg, warnings, err := options.ParseCompile(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	trouble := func(err error) int {
		fmt.Fprintln(std.Err, "routesrv compile:", shadowdiff.PrintableLines(err.Error()))
		return options.ExitUnusable
	}
	if cfg.Against != "" {
		status, err := cli.Against(ctx, cfg.Against, cfg.Source.Manifests, cfg.Output, std)
		if err != nil {
			return trouble(err)
		}
		return status
	}
	result, err := cli.Compile(ctx, cfg.RouteServer, std)
	if err != nil {
		return trouble(err)
	}
	if err := printTable(std.Out, result.Routes, std.OutTerminal); err != nil {
		return trouble(fmt.Errorf("print the table: %w", err))
	}
	status := options.ExitOK
	for _, p := range result.Problems {
		if p.Reason == rules.NoEndpoints && cli.WithoutPods(result.Snapshot) {
			continue // manifests without pods
		}
		fmt.Fprintln(std.Err, shadowdiff.PrintableLines(p.Line()))
		if p.Severity > rules.Info {
			status = options.ExitFailed
		}
	}
	return status
}

// printTable prints the table as proxies get it. On a terminal it escapes what could affect that: texts of objects may have control
// characters, for which eskip has no escape.
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
