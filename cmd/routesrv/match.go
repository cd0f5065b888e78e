package main

import (
	"context"
	"fmt"
	"time"

	_ "time/tzdata" // time zones for Before, After and Between: the image has no zone files

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/tables"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
)

// runMatch finds the route of a request. The exit status is 0 if a route matches, 1 if no route matches or the match is
// undecided, and 2 on trouble.
func runMatch(ctx context.Context, args []string, env config.Env, std config.Stdio) int {
	opts, warnings, err := parseMatch(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	trouble := func(err error) int {
		fmt.Fprintln(std.Err, "routesrv match:", shadowdiff.Printable(err.Error()))
		return config.ExitUnusable
	}
	compiler := &manifestCompiler{cfg: opts.server, std: std, paths: make(map[string]*compiledPath)}
	transport, err := opts.tls.Transport()
	if err != nil {
		return trouble(err)
	}
	reader := tables.New(tables.Config{Compile: compiler.compile, Stdin: std.In, Timeout: opts.timeout, Transport: transport})
	defer reader.Close()
	source, err := reader.Open(opts.place)
	if err != nil {
		return trouble(err)
	}
	loaded, err := source.Load(ctx)
	if err != nil {
		return trouble(err)
	}
	if opts.request.Time.IsZero() {
		opts.request.Time, opts.request.Slack = time.Now().UTC(), report.ClockSlack
	}
	table, refusals := match.New(loaded.Routes, opts.proxy)
	v := report.View{
		Request: opts.request, URL: opts.url, Table: source.Name(), Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(opts.request),
		Owner: compiler.owners(),
	}
	write := v.WriteText
	if opts.output == "json" {
		write = v.WriteJSON
	}
	if err := write(std.Out); err != nil {
		return trouble(fmt.Errorf("print the result: %w", err))
	}
	if v.Matched() {
		return config.ExitOK
	}
	return config.ExitFailed
}
