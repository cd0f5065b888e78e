package main

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// runCompile compiles manifests with the flags of the server. It prints the table, and on standard error one line for each
// problem with the object that has it. The exit status is 0 if there are no problems, 1 if there are problems of severity warning
// or error, and 2 if there is no table. With --against it asks a route server instead.
func runCompile(ctx context.Context, args []string, env config.Env, std config.Stdio) int {
	cfg, warnings, err := config.ParseCompile(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	trouble := func(err error) int {
		fmt.Fprintln(std.Err, "routesrv compile:", shadowdiff.PrintableLines(err.Error()))
		return config.ExitUnusable
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
	status := config.ExitOK
	for _, p := range result.Problems {
		if p.Reason == rules.NoEndpoints && cli.WithoutPods(result.Snapshot) {
			continue // manifests without pods
		}
		fmt.Fprintln(std.Err, shadowdiff.PrintableLines(p.String()))
		if p.Severity > rules.Info {
			status = config.ExitFailed
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
