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

// Compiler makes the routes of snapshots, for a [Poller], and of halves of snapshots, for a gate. Problems, Addresses and Look are
// safe for concurrent use; the others are for the goroutine that runs the Poller.
type Compiler struct {
	options  compile.Options // set by NewCompiler, read only
	ledger   *ledger
	snapshot atomic.Pointer[kube.Snapshot] // of the last Compile

	mu     sync.Mutex // guards what follows: Look is called by anybody
	memory *compile.Compiler
	lanes  map[gate.Lane]*compile.Lane // of memory
}

// NewCompiler checks the options. A nil logger means no log, a nil registerer that there are no metrics.
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

// CountNamespaces adds the series routesrv_namespace_problems for the namespaces with the most problems, at most n. It is to be
// called before the first Compile.
func (c *Compiler) CountNamespaces(n int, reg prometheus.Registerer) {
	c.ledger.spaces = newNamespaces(n, reg)
}

// Compile gives the routes of a snapshot and notes its problems. If it panics, which is left to the Poller, what the
// Compiler remembers cannot be trusted any more: it compiles the next snapshot without memory.
func (c *Compiler) Compile(s *kube.Snapshot) table.List {
	c.snapshot.Store(s) // first: addresses do not depend on what compiles
	return c.survive(func() table.List {
		result := c.memory.Compile(s)
		c.ledger.record(result.Problems, time.Now())
		return result.Routes
	})
}

// survive forgets all that the Compiler remembers if it panics.
func (c *Compiler) survive(compiles func() table.List) table.List {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := false
	defer func() {
		if done {
			return
		}
		if fresh, err := compile.New(c.options); err == nil { // they were good enough for NewCompiler
			c.memory, c.lanes = fresh, nil
		}
	}()
	routes := compiles()
	done = true
	return routes
}

// CompileHalves gives the routes of an intent with backends, without problems: see [gate.Halves].
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

// Keep gives the newest backends, with those before for services that have lost all endpoints: see [gate.Halves].
func (c *Compiler) Keep(before, now *kube.Backends) *kube.Backends {
	return compile.KeepLost(before, now, c.options.EndpointSlices)
}

// Drop forgets a lane: see [gate.Halves].
func (c *Compiler) Drop(lane gate.Lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lanes[lane]; l != nil {
		c.memory.Drop(l)
		delete(c.lanes, lane)
	}
}

// Look calls look with what the Compiler remembers of the latest read, which is only to be looked at, and not to be kept. It waits for
// a compilation that runs, and the next one waits for it.
func (c *Compiler) Look(look func(*compile.Compiler)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	look(c.memory)
}

// Problems gives what is wrong now, sorted by owner. The slice is the caller's.
func (c *Compiler) Problems() []Problem { return c.ledger.list() }

// Addresses gives the ready addresses of a service, sorted as strings, from the last successful read. It reports false
// before the first.
func (c *Compiler) Addresses(namespace, name string) ([]string, bool) {
	s := c.snapshot.Load()
	if s == nil {
		return nil, false
	}
	return compile.Addresses(s, c.options.EndpointSlices, namespace, name), true
}
