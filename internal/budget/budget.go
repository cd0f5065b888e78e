// Package budget reduces the number of changes for proxies. A proxy that receives one changed route parses the whole table and
// rebuilds its matcher, so constant changes of endpoints keep every proxy busy. Most of these changes can wait: a route that
// already has endpoints does not suffer if one more arrives half a minute later.
//
// A [Budget] sits between a gate and a cache. A change is lazy if it only adds endpoints to routes that already have some. It
// waits, together with other lazy changes, until [Config.Limit] has passed since the first of them. Every other change is urgent:
// an endpoint was removed or is no longer ready, a route loses its last endpoint or gets its first, or a team changed an object.
// An urgent change is served at once, together with the lazy changes that wait.
//
// A waiting table has passed the gate, so the last-known-good file has it, and a restarted process serves it at once. While a
// table waits, the cache knows that the served table is not the newest content of the source (table.Read.Waiting). A client
// that received the newer one from another replica therefore keeps it: guarantee Monotonic.
package budget

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/table"
)

// Sink receives the tables to serve. It has the methods of gate.Sink, which Budget also implements.
type Sink interface {
	Restore(t *table.Table, read time.Time)
	Begin() (end func(t *table.Table, r table.Read))
	Publish(t *table.Table)
}

// Config configures a Budget.
type Config struct {
	Sink Sink
	// Limit is how long a lazy change may wait. It must be positive.
	Limit    time.Duration
	Logger   *slog.Logger          // nil means no log
	Registry prometheus.Registerer // nil means no metrics
}

// Budget is a gate.Sink that delays lazy changes. It is safe for concurrent use.
type Budget struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	news    chan struct{} // signals that a table began to wait

	mu      sync.Mutex
	served  *table.Table // the table that the sink serves; nil if there is none, or if no read has confirmed it
	waiting *table.Table // nil if no table waits
	due     time.Time    // when waiting must be served
}

// New checks the configuration. It starts no goroutine; see [Budget.Run].
func New(cfg Config) (*Budget, error) {
	if cfg.Sink == nil {
		return nil, errors.New("budget: no sink")
	}
	if cfg.Limit <= 0 {
		return nil, errors.New("budget: the limit must be positive")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Budget{cfg: cfg, log: cfg.Logger.With("component", "budget"), news: make(chan struct{}, 1)}
	b.metrics = newMetrics(cfg.Registry, b)
	return b, nil
}

// Restore serves a table from the last-known-good file. The first table of a read is then served at once, whatever it changes.
func (b *Budget) Restore(t *table.Table, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = nil, nil
	b.cfg.Sink.Restore(t, read)
}

// Publish serves an accepted table at once.
func (b *Budget) Publish(t *table.Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = t, nil
	b.cfg.Sink.Publish(t)
}

// Begin reports the start of a read. Call the returned function with its result.
func (b *Budget) Begin() (end func(t *table.Table, r table.Read)) {
	inner := b.cfg.Sink.Begin()
	return func(t *table.Table, r table.Read) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case t == nil:
			inner(nil, r)
		case r.Stale || b.served == nil:
			b.show(t)
			inner(t, r)
		case t.Equal(b.served): // Equal compares blocks, because a waiting table is not hashed
			b.show(t) // the waiting change was undone
			inner(t, r)
		case !b.lazy(t):
			b.metrics.urgent.Inc()
			b.show(t)
			inner(t, r)
		case !time.Now().Before(b.due): // the timer is late
			b.show(t)
			inner(t, r)
		default:
			b.wait(t)
			r.Waiting, r.Live = true, false
			inner(nil, r)
		}
	}
}

func (b *Budget) show(t *table.Table) { b.served, b.waiting = t, nil }

// lazy reports whether a table may wait. If no table waits yet, it sets the deadline.
func (b *Budget) lazy(t *table.Table) bool {
	if b.waiting != nil && b.waiting.Equal(t) {
		return true
	}
	if !OnlyAddsEndpoints(b.served.Routes(), t.Routes()) {
		return false
	}
	if b.waiting == nil {
		b.due = time.Now().Add(b.cfg.Limit)
	}
	return true
}

// wait makes a table wait until it is due.
func (b *Budget) wait(t *table.Table) {
	if b.waiting == nil || !b.waiting.Equal(t) {
		b.metrics.lazy.Inc()
	}
	b.waiting = t
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Run serves waiting tables when they are due, until ctx ends. A table that then still waits is served after the next start: the
// last-known-good file has it.
func (b *Budget) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		case <-timer.C:
		}
		if next := b.serveDue(); next > 0 {
			timer.Reset(next)
		}
	}
}

// serveDue serves a table that is due. It returns the time until the waiting table is due, or 0 if no table waits.
func (b *Budget) serveDue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		return 0
	}
	if left := time.Until(b.due); left > 0 {
		return left
	}
	b.log.Debug("lazy changes have waited for long enough", "limit", b.cfg.Limit)
	b.served, b.waiting = b.waiting, nil
	b.cfg.Sink.Publish(b.served)
	return 0
}

// Waiting returns the table that waits and its deadline, or nil if no table waits.
func (b *Budget) Waiting() (t *table.Table, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.due
}
