// Package budget gives proxies fewer changes. A proxy that gets one changed route parses the whole table and builds its matcher
// anew, so a cluster in which endpoints come and go all the time keeps every proxy busy. Most of these changes can wait: a route that
// has endpoints already serves as well with one more of them half a minute later.
//
// A [Budget] stands between a gate and a cache. A change is lazy if all it does is to add endpoints to routes that have some; it
// waits, together with other lazy changes, until [Config.Limit] has passed since the first of them. Every other change is urgent: an
// endpoint that was removed or is not ready any more, a route that loses its last endpoint or gets its first, and whatever teams
// change. An urgent change is served at once and takes along what waits.
//
// What waits has passed the gate, so the last-good file has it, and a restart serves it at once. While something waits, the cache
// knows that the table it serves is not the newest content of the source (table.Read.Waiting), so a client that got the newer one from
// another replica keeps it: guarantee Monotonic.
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

// Sink is where tables are served: the methods of gate.Sink, which a Budget has, too.
type Sink interface {
	Restore(t *table.Table, read time.Time)
	Begin() (end func(t *table.Table, r table.Read))
	Publish(t *table.Table)
}

// Config says what a Budget is made of.
type Config struct {
	Sink Sink
	// Limit is how long a lazy change may wait. It has to be positive.
	Limit    time.Duration
	Logger   *slog.Logger          // nil means no log
	Registry prometheus.Registerer // nil means no metrics
}

// Budget is a gate.Sink that has lazy changes wait. It is safe for concurrent use.
type Budget struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	news    chan struct{} // something began to wait

	mu      sync.Mutex
	served  *table.Table // what the sink serves; nil if it serves nothing, or what no read has shown
	waiting *table.Table // nil if nothing waits
	due     time.Time    // when waiting is served at the latest
}

// New checks the configuration. It starts nothing; see [Budget.Run].
func New(cfg Config) (*Budget, error) {
	if cfg.Sink == nil {
		return nil, errors.New("budget: no sink")
	}
	if cfg.Limit <= 0 {
		return nil, errors.New("budget: the limit has to be positive")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Budget{cfg: cfg, log: cfg.Logger.With("component", "budget"), news: make(chan struct{}, 1)}
	b.metrics = newMetrics(cfg.Registry, b)
	return b, nil
}

// Restore serves a table of the last-good file. The next table that a read shows is served at once, whatever it changes.
func (b *Budget) Restore(t *table.Table, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = nil, nil
	b.cfg.Sink.Restore(t, read)
}

// Publish serves a table that somebody accepted, at once.
func (b *Budget) Publish(t *table.Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = t, nil
	b.cfg.Sink.Publish(t)
}

// Begin says that a read begins; the function that it returns says how it ended.
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
		case t.Equal(b.served): // by blocks: a table that waits is not hashed
			b.show(t) // what waited has gone again
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

// lazy reports whether a table may wait. If nothing waits yet, what does from now on is due after the limit.
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

// wait has a table wait until it is due.
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

// Run serves what has waited for long enough, until ctx ends. What waits then is served by whoever starts next: the last-good file has it.
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

// serveDue serves what is due, and returns in how long the rest is; 0 if nothing waits.
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

// Waiting returns the table that waits, and when it is served at the latest; nil if none does.
func (b *Budget) Waiting() (t *table.Table, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.due
}
