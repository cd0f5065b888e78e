package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/tables"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
	"github.com/routesrv/routesrv/table"
)

// differ holds the state of one run of routesrv diff.
type differ struct {
	opts     diffOptions
	std      config.Stdio
	compiler *manifestCompiler
	reader   *tables.Reader
	sources  [2]tables.Source // A and B
}

// sideNames are the names of the two tables in messages.
var sideNames = [2]string{"A", "B"}

// runDiff compares two tables. The exit status is the one of diff(1): 0 if they mean the same, 1 if they differ, 2 on trouble.
// With --watch the last comparison decides it.
func runDiff(ctx context.Context, args []string, env config.Env, std config.Stdio) int {
	opts, places, warnings, err := parseDiff(args, env, std)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	compiler := &manifestCompiler{cfg: opts.server, std: std, paths: make(map[string]*compiledPath)}
	d := &differ{opts: opts, std: std, compiler: compiler}
	transport, err := opts.tls.Transport()
	if err != nil {
		return d.trouble(err)
	}
	d.reader = tables.New(tables.Config{Compile: compiler.compile, Stdin: std.In, Timeout: opts.timeout, Transport: transport})
	defer d.reader.Close()
	for i, place := range places {
		if d.sources[i], err = d.reader.Open(place); err != nil {
			return d.trouble(fmt.Errorf("%s: %w", sideNames[i], err))
		}
	}
	if opts.watch {
		return d.watch(ctx)
	}
	view, err := d.compare(ctx)
	if err != nil {
		return d.trouble(err)
	}
	if err := d.write(view); err != nil {
		return d.trouble(fmt.Errorf("print the comparison: %w", err))
	}
	return statusOf(view)
}

// statusOf returns the exit status for a comparison.
func statusOf(v *shadowdiff.View) int {
	if v.Report.Empty() {
		return config.ExitOK
	}
	return config.ExitFailed
}

// trouble prints an error, and each of two joined errors on its own line.
func (d *differ) trouble(err error) int {
	for _, err := range unjoined(err) {
		fmt.Fprintln(d.std.Err, "routesrv diff:", shadowdiff.Printable(err.Error()))
	}
	return config.ExitUnusable
}

func unjoined(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func (d *differ) write(v *shadowdiff.View) error {
	switch d.opts.output {
	case "json":
		return shadowdiff.WriteJSON(d.std.Out, v)
	case "html":
		return page.Write(d.std.Out, v)
	default:
		return shadowdiff.WriteText(d.std.Out, v, d.opts.text)
	}
}

// compare loads both tables at the same time, so that they come from the same state of a cluster as far as possible.
func (d *differ) compare(ctx context.Context) (*shadowdiff.View, error) {
	var loaded [2]*tables.Table
	var errs [2]error
	var wg sync.WaitGroup
	for i, s := range d.sources {
		wg.Go(func() {
			var err error
			if loaded[i], err = s.Load(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", sideNames[i], err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a, b := loaded[0], loaded[1]
	return &shadowdiff.View{
		A:      shadowdiff.Side{Name: d.sources[0].Name(), Revision: a.Revision, Read: a.Read},
		B:      shadowdiff.Side{Name: d.sources[1].Name(), Revision: b.Revision, Read: b.Read},
		Report: shadowdiff.Diff(a.Routes, b.Routes).Without(d.opts.ignore),
		At:     time.Now(), Owner: d.compiler.owners(),
	}, nil
}

// watch compares until it is interrupted. It prints a difference when it has lasted longer than skew explains, and again when it
// is resolved. It prints an error only when it differs from the previous one.
func (d *differ) watch(ctx context.Context) int {
	tracker := shadowdiff.NewTracker(shadowdiff.TrackerConfig{Interval: d.opts.interval})
	tick := time.NewTicker(d.opts.interval)
	defer tick.Stop()
	status, lastError := config.ExitUnusable, ""
	var last *shadowdiff.View
	for {
		view, err := d.compare(ctx)
		switch {
		case ctx.Err() != nil: // interrupted: the tables loaded meanwhile may be incomplete
		case err != nil:
			status = config.ExitUnusable
			if err.Error() != lastError {
				d.trouble(err)
			}
			lastError = err.Error()
		default:
			status, lastError = statusOf(view), ""
			o := tracker.Observe(view.Report, shadowdiff.Meta{
				RevisionA: view.A.Revision, RevisionB: view.B.Revision, ReadA: view.A.Read, ReadB: view.B.Read, Now: view.At,
			})
			view.Watch, last = &o, view
			if err := d.writeNews(&o); err != nil {
				return d.trouble(fmt.Errorf("print the news: %w", err))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if last != nil && d.opts.output == "text" {
				fmt.Fprintln(d.std.Out, last.Summary())
			}
			return status
		}
	}
}

// writeNews prints what is new in an observation compared with the previous ones.
func (d *differ) writeNews(o *shadowdiff.Observation) error {
	for _, event := range []struct {
		name string
		of   []shadowdiff.Tracked
	}{{"new", o.New}, {"gone", o.Gone}} {
		for _, t := range event.of {
			e := shadowdiff.Entry(t)
			if d.opts.output == "json" {
				if err := shadowdiff.WriteEntryJSON(d.std.Out, e, d.compiler.owners(), event.name, o.Now); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(d.std.Out, "%s %s: %s\n", o.Now.UTC().Format(time.RFC3339), event.name,
				shadowdiff.Printable(d.compiler.owners().Of(e.ID).String())); err != nil {
				return err
			}
			if err := shadowdiff.WriteEntry(d.std.Out, e, d.opts.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifestCompiler compiles manifests with the flags of the server. Both sides may use it concurrently.
type manifestCompiler struct {
	cfg config.RouteServer
	std config.Stdio

	mu    sync.Mutex // one compilation at a time
	paths map[string]*compiledPath
}

// compiledPath keeps the state that makes the next compilation of a path cheap.
type compiledPath struct {
	source   poller.Source
	compiler *compile.Compiler
	problems string // last printed
}

func (c *manifestCompiler) compile(ctx context.Context, path string) (table.List, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.of(path)
	if err != nil {
		return table.List{}, err
	}
	snapshot, err := p.source.Read(ctx, kube.ReadOptions{})
	if err != nil {
		return table.List{}, err
	}
	result := p.compiler.Compile(snapshot)
	var text strings.Builder
	for _, problem := range result.Problems {
		fmt.Fprintln(&text, shadowdiff.PrintableLines(path+": "+problem.String()))
	}
	if problems := text.String(); problems != p.problems {
		_, _ = io.WriteString(c.std.Err, problems) // the comparison matters more than a failed write of the problems
		p.problems = problems
	}
	return result.Routes, nil
}

// owners finds the objects of routes among the manifests that were compiled last; nil if there are none, where only tables are known.
func (c *manifestCompiler) owners() shadowdiff.OwnerFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	var snapshots []*kube.Snapshot
	var results []*compile.Result
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		if result := c.paths[path].compiler.Latest(); result != nil {
			snapshots, results = append(snapshots, result.Snapshot), append(results, result)
		}
	}
	if len(snapshots) == 0 {
		return nil
	}
	return explain.OwnerFunc(func(ref kube.Ref) (compile.Inspection, bool) {
		for _, result := range results {
			if in, ok := result.Inspect(ref); ok {
				return in, true
			}
		}
		return compile.Inspection{}, false
	}, snapshots...)
}

// of returns the state for a path and creates it on first use.
func (c *manifestCompiler) of(path string) (*compiledPath, error) {
	if p := c.paths[path]; p != nil {
		return p, nil
	}
	compiler, err := compile.New(c.cfg.Compile)
	if err != nil {
		return nil, err
	}
	from := c.cfg.Source
	from.Kubernetes, from.Manifests = false, []string{path}
	source, _, err := config.NewSource(from, nil, config.NewLogger(c.cfg.Log, c.std.Err), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	p := &compiledPath{source: source, compiler: compiler}
	c.paths[path] = p
	return p, nil
}
