package poller

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Compiler compiles snapshots for a [Poller], and halves of snapshots for a gate. Problems, Addresses and Look are safe for
// concurrent use; only the goroutine that runs the Poller may call the others.
type Compiler struct {
	options  compile.Options // set by NewCompiler, read only
	ledger   *ledger
	snapshot atomic.Pointer[kube.Snapshot] // of the last Compile

	mu     sync.Mutex // guards the fields below: any goroutine may call Look
	memory *compile.Compiler
	lanes  map[gate.Lane]*compile.Lane // lanes of memory
}

// NewCompiler checks the options. A nil logger means no log, a nil registerer no metrics.
func NewCompiler(o compile.Options, log *slog.Logger, reg prometheus.Registerer) (*Compiler, error) {
	memory, err := compile.New(o)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Compiler{options: o, memory: memory, ledger: newLedger(log, reg)}, nil
}

// CountNamespaces adds the series routesrv_namespace_problems for at most n namespaces, those with the most problems. Call it
// before the first Compile.
func (c *Compiler) CountNamespaces(n int, reg prometheus.Registerer) {
	c.ledger.spaces = newNamespaces(n, reg)
}

// Compile returns the routes of a snapshot and records its problems. It passes a panic on to the Poller; the Compiler then drops
// its cached state, which can no longer be trusted, and compiles the next snapshot from scratch.
func (c *Compiler) Compile(s *kube.Snapshot) table.List {
	c.snapshot.Store(s) // first: addresses do not depend on the compilation
	return c.survive(func() table.List {
		result := c.memory.Compile(s)
		c.ledger.record(result.Problems, time.Now())
		return result.Routes
	})
}

// survive drops all cached state of the Compiler if compiles panics.
func (c *Compiler) survive(compiles func() table.List) table.List {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := false
	defer func() {
		if done {
			return
		}
		if fresh, err := compile.New(c.options); err == nil { // NewCompiler has already checked the options
			c.memory, c.lanes = fresh, nil
		}
	}()
	routes := compiles()
	done = true
	return routes
}

// CompileHalves returns the routes of an intent with backends, without problems: see [gate.Halves].
func (c *Compiler) CompileHalves(lane gate.Lane, i *kube.Intent, b *kube.Backends, base table.List) table.List {
	return c.survive(func() table.List {
		if c.lanes[lane] == nil {
			if c.lanes == nil {
				c.lanes = make(map[gate.Lane]*compile.Lane)
			}
			c.lanes[lane] = c.memory.NewLane(base)
		}
		return c.lanes[lane].Compile(i, b)
	})
}

// Keep returns the newest backends, except that services that have lost all endpoints keep their previous ones: see
// [gate.Halves].
func (c *Compiler) Keep(before, now *kube.Backends) *kube.Backends {
	return compile.KeepLost(before, now, c.options.EndpointSlices)
}

// Drop frees a lane: see [gate.Halves].
func (c *Compiler) Drop(lane gate.Lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lanes[lane]; l != nil {
		c.memory.Drop(l)
		delete(c.lanes, lane)
	}
}

// Look calls look with the compiler's state of the latest read. look must not change or keep it. Look waits for a running
// compilation, and the next compilation waits for Look.
func (c *Compiler) Look(look func(*compile.Compiler)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	look(c.memory)
}

// Problems returns the current problems, sorted by owner. The caller owns the slice.
func (c *Compiler) Problems() []Problem { return c.ledger.list() }

// Addresses returns the ready addresses of a service, sorted as strings, from the last successful read. ok is false before the
// first read.
func (c *Compiler) Addresses(namespace, name string) ([]string, bool) {
	s := c.snapshot.Load()
	if s == nil {
		return nil, false
	}
	return compile.Addresses(s, c.options.EndpointSlices, namespace, name), true
}
