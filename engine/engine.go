// Package engine joins the parts that make a table of a cluster: a source, the compiler, the guard and the loop. It is
// what the route server runs, and what a data plane runs that computes its own table; both hand in where the tables go.
//
// An Engine adds two things of its own: it remembers the last snapshot, for look-ups of addresses, and it keeps the
// ledger of problems: which there are, since when, and that each is logged when it comes and when it goes and not on
// every poll.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/table"
)

// Config is what an Engine is made of. Source and Publish are required.
type Config struct {
	Source  poller.Source
	Compile compile.Options
	Guard   guard.Config

	// Publish serves a table from now on; Observer is told about every read and may be nil.
	Publish  func(*table.Table)
	Observer poller.Observer
	// Served is a table that is served already; nil if there is none.
	Served *table.Table

	// Interval, MaxBackoff and ProbeInterval as for poller.Config.
	Interval      time.Duration
	MaxBackoff    time.Duration
	ProbeInterval time.Duration

	Logger     *slog.Logger          // nil means no log
	Registerer prometheus.Registerer // nil means no metrics
}

// Engine makes tables. Its methods are safe for concurrent use; Run is to be called once.
type Engine struct {
	options compile.Options // set by New, read only
	guard   *guard.Guard
	poller  *poller.Poller
	ledger  *ledger

	compiler *compile.Compiler // owned by Run
	snapshot atomic.Pointer[kube.Snapshot]
}

// New checks the configuration. It starts nothing and does no I/O.
func New(cfg Config) (*Engine, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	compiler, err := compile.New(cfg.Compile)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	g, err := guard.New(cfg.Guard)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	e := &Engine{
		options: cfg.Compile, guard: g, compiler: compiler,
		ledger: newLedger(cfg.Logger, cfg.Registerer),
	}
	e.poller, err = poller.New(poller.Config{
		Source: cfg.Source, Compile: e.compile, Publish: cfg.Publish, Guard: g,
		Observer: cfg.Observer, Served: cfg.Served,
		Interval: cfg.Interval, MaxBackoff: cfg.MaxBackoff, ProbeInterval: cfg.ProbeInterval,
		Logger: cfg.Logger, Metrics: poller.NewMetrics(cfg.Registerer),
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// compile gives the routes of a snapshot and takes its problems down. If it panics, which is left to the poller, what
// the compiler remembers cannot be trusted any more: the next snapshot is compiled without memory.
func (e *Engine) compile(s *kube.Snapshot) table.List {
	e.snapshot.Store(s) // first: addresses do not depend on what compiles
	done := false
	defer func() {
		if done {
			return
		}
		if fresh, err := compile.New(e.options); err == nil { // they were good enough for New
			e.compiler = fresh
		}
	}()
	result := e.compiler.Compile(s)
	e.ledger.record(result.Problems, time.Now())
	done = true
	return result.Routes
}

// Run makes tables until ctx ends, and returns nil then.
func (e *Engine) Run(ctx context.Context) error { return e.poller.Run(ctx) }

// Recheck asks for an early read past all caches; it never blocks.
func (e *Engine) Recheck() { e.poller.Recheck() }

// Status gives the state of the loop.
func (e *Engine) Status() poller.Status { return e.poller.Status() }

// Guard gives the state of the guard.
func (e *Engine) Guard() guard.State { return e.guard.State() }

// Accept publishes the held table with the digest; the zero digest is whatever is held.
func (e *Engine) Accept(d table.Digest) (*table.Table, error) { return e.poller.Accept(d) }

// Problems gives what is wrong now, sorted by owner. The slice is the caller's.
func (e *Engine) Problems() []Problem { return e.ledger.list() }

// Addresses gives the ready addresses of a service, sorted as strings, from the last successful read. It reports false
// before the first.
func (e *Engine) Addresses(namespace, name string) ([]string, bool) {
	s := e.snapshot.Load()
	if s == nil {
		return nil, false
	}
	return compile.Addresses(s, e.options.EndpointSlices, namespace, name), true
}
