package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/setup"
	"github.com/routesrv/routesrv/kube"
)

// runCompile prints the table of manifests, with the flags of the server, and its problems on the standard error, one a
// line with the object that has it. The exit status is 0 if there is none, 1 if there are problems of severity warning or
// error, 2 if there is no table.
func runCompile(ctx context.Context, args []string, env config.Env, std setup.Stdio) int {
	cfg, warnings, err := config.ParseCompile(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	result, err := compileOnce(ctx, cfg, std)
	if err != nil {
		fmt.Fprintln(std.Err, "routesrv compile:", err)
		return setup.ExitUnusable
	}
	out := bufio.NewWriter(std.Out)
	for r := range result.Routes.All() {
		fmt.Fprintln(out, r.Text)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(std.Err, "routesrv compile: print the table:", err)
		return setup.ExitUnusable
	}
	status := setup.ExitOK
	for _, p := range result.Problems {
		if p.Reason == compile.NoEndpoints && !result.endpoints {
			continue // manifests without pods
		}
		fmt.Fprintln(std.Err, p)
		if p.Severity > compile.Info {
			status = setup.ExitFailed
		}
	}
	return status
}

// compiled is what one read gives.
type compiled struct {
	*compile.Result
	endpoints bool // there are some; manifests rarely have any
}

// compileOnce reads the source once and compiles what it gives.
func compileOnce(ctx context.Context, cfg *config.RouteServer, std setup.Stdio) (*compiled, error) {
	compiler, err := compile.New(cfg.Compile)
	if err != nil {
		return nil, err
	}
	cfg.Source.Watch = false // one read is no reason to watch
	source, _, err := setup.Source(cfg.Source, std.In, setup.Logger(cfg.Log, std.Err), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	snapshot, err := source.Read(ctx, kube.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return &compiled{compiler.Compile(snapshot), len(snapshot.Endpoints)+len(snapshot.EndpointSlices) > 0}, nil
}
