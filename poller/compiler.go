package poller

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Compiler compiles snapshots for a [Poller], and snapshots with kept objects for a publisher. Problems, Addresses and Look are safe for
// concurrent use; only the goroutine that runs the Poller may call the others.
type Compiler struct {
	options  rules.Options // set by NewCompiler, read only
	ledger   *ledger
	snapshot atomic.Pointer[kube.Snapshot] // of the last Compile

	mu     sync.Mutex // guards the field below: any goroutine may call Look
	memory *compile.Compiler
}

// NewCompiler checks the options. A nil logger means no log, a nil registerer no metrics.
func NewCompiler(o rules.Options, log *slog.Logger, reg prometheus.Registerer) (*Compiler, error) {
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
			c.memory = fresh
		}
	}()
	routes := compiles()
	done = true
	return routes
}

// CompileBeside returns the routes of another snapshot than the latest one, without problems: see [publish.Builder].
func (c *Compiler) CompileBeside(s *kube.Snapshot) table.List {
	return c.survive(func() table.List { return c.memory.CompileBeside(s) })
}

// RoutesOf returns the routes of an object of one of the last snapshots: see [publish.Builder].
func (c *Compiler) RoutesOf(o kube.Object) []table.Route {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.RoutesOf(o)
}

// ServicesOf returns the services that an object of one of the last snapshots referenced: see [publish.Builder].
func (c *Compiler) ServicesOf(o kube.Object) []kube.ServiceKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.ServicesOf(o)
}

// LostServices returns the services that had endpoints and have lost them: see [publish.Builder].
func (c *Compiler) LostServices(before, now *kube.Backends) []kube.ServiceKey {
	return rules.LostServices(before, now, c.options.EndpointSlices)
}

// Forget frees what CompileBeside keeps for its next call.
func (c *Compiler) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.Forget()
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
	return rules.Addresses(s, c.options.EndpointSlices, namespace, name), true
}
