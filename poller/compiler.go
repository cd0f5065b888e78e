package poller

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Compiler compiles snapshots for a [Poller], and snapshots with kept objects for a publisher: it is a [publish.Builder]. Problems,
// Addresses and Latest are safe for concurrent use; only the goroutine that runs the Poller may call the others.
type Compiler struct {
	*compile.Compiler
	ledger *ledger
}

// NewCompiler checks the options. A nil logger means no log, a nil registerer no metrics.
func NewCompiler(o rules.Options, log *slog.Logger, reg prometheus.Registerer) (*Compiler, error) {
	compiler, err := compile.New(o)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Compiler{Compiler: compiler, ledger: newLedger(log, reg)}, nil
}

// Compile returns the routes of a snapshot and records its problems. It passes a panic on to the Poller.
func (c *Compiler) Compile(s *kube.Snapshot) table.List {
	result := c.Compiler.Compile(s)
	c.ledger.record(result.Problems, time.Now())
	return result.Routes
}

// Problems returns the current problems, sorted by owner. The caller owns the slice.
func (c *Compiler) Problems() []Problem { return c.ledger.list() }

// Addresses returns the ready addresses of a service, sorted as strings, from the last successful read. ok is false before the
// first read.
func (c *Compiler) Addresses(namespace, name string) (addresses []string, ok bool) {
	if latest := c.Latest(); latest != nil {
		return latest.Addresses(namespace, name), true
	}
	return nil, false
}
