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
	Publish func(*table.Table)
	// PublishHeld serves a table while another one is held back. If it is not nil, a hold keeps the half that is to blame,
	// the intent or the backends, and the other one goes on; else it keeps the whole table that is served.
	PublishHeld func(*table.Table)
	Observer    poller.Observer
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
	poller  *poller.Poller
	ledger  *ledger

	compiler *compile.Compiler             // owned by Run
	lanes    map[poller.Lane]*compile.Lane // of compiler; owned by Run
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
		options: cfg.Compile, compiler: compiler,
		ledger: newLedger(cfg.Logger, cfg.Registerer),
	}
	loop := poller.Config{
		Source: cfg.Source, Compile: e.compile, Publish: cfg.Publish, PublishHeld: cfg.PublishHeld, Guard: g,
		Observer: cfg.Observer, Served: cfg.Served,
		Interval: cfg.Interval, MaxBackoff: cfg.MaxBackoff, ProbeInterval: cfg.ProbeInterval,
		Logger: cfg.Logger, Metrics: poller.NewMetrics(cfg.Registerer),
	}
	if cfg.PublishHeld != nil {
		loop.Halves = halves{e}
	}
	e.poller, err = poller.New(loop)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// compile gives the routes of a snapshot and takes its problems down. If it panics, which is left to the poller, what
// the compiler remembers cannot be trusted any more: the next snapshot is compiled without memory.
func (e *Engine) compile(s *kube.Snapshot) table.List {
	e.snapshot.Store(s) // first: addresses do not depend on what compiles
	return e.survive(func() table.List {
		result := e.compiler.Compile(s)
		e.ledger.record(result.Problems, time.Now())
		return result.Routes
	})
}

// survive forgets all that the compiler remembers if it panics.
func (e *Engine) survive(compiles func() table.List) table.List {
	done := false
	defer func() {
		if done {
			return
		}
		if fresh, err := compile.New(e.options); err == nil { // they were good enough for New
			e.compiler, e.lanes = fresh, nil
		}
	}()
	routes := compiles()
	done = true
	return routes
}

// halves is how an Engine makes tables of halves of different snapshots.
type halves struct{ e *Engine }

func (h halves) Compile(lane poller.Lane, i *kube.Intent, b *kube.Backends, base table.List) table.List {
	e := h.e
	return e.survive(func() table.List {
		if e.lanes[lane] == nil {
			if e.lanes == nil {
				e.lanes = make(map[poller.Lane]*compile.Lane)
			}
			e.lanes[lane] = e.compiler.NewLane(base)
		}
		return e.lanes[lane].Compile(i, b)
	})
}

func (h halves) Keep(before, now *kube.Backends) *kube.Backends {
	return compile.KeepLost(before, now, h.e.options.EndpointSlices)
}

func (h halves) Drop(lane poller.Lane) {
	if l := h.e.lanes[lane]; l != nil {
		h.e.compiler.Drop(l)
		delete(h.e.lanes, lane)
	}
}

// Run makes tables until ctx ends, and returns nil then.
func (e *Engine) Run(ctx context.Context) error { return e.poller.Run(ctx) }

// Recheck asks for an early read past all caches; it never blocks.
func (e *Engine) Recheck() { e.poller.Recheck() }

// Status gives the state of the loop.
func (e *Engine) Status() poller.Status { return e.poller.Status() }

// Guard gives the state of the guard.
func (e *Engine) Guard() guard.State { return e.poller.Guard() }

// Accept publishes the held table with the digest.
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
