// Package poller runs the loop of the route server: read, compile, judge, publish.
//
// The loop reads its source at once and then at every interval. A read is complete or it is none: when one fails the
// table that is served stays, and the next attempt comes after a growing, jittered delay; the first success restores
// the rhythm. What was compiled is published only if it differs from what is served and the guard lets it pass. So:
// nothing that is incomplete is published, nothing is published twice, and nothing that looks like an accident is
// published without its time or an operator's word.
//
// A Poller joins functions that it is given; it knows neither HTTP nor Kubernetes. [Poller.Run] is the only goroutine
// that reads and publishes. The other methods may be called from anywhere.
package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// The messages that operators and tests of the reference wait for.
const (
	LogPollingStarted       = "starting polling"
	LogPollingStopped       = "polling stopped"
	LogRoutesFetchingFailed = "failed to fetch routes"
	LogRoutesEmpty          = "received empty routes; ignoring"
	LogRoutesInitialized    = "routes initialized"
	LogRoutesUpdated        = "routes updated"
	LogRoutesNoChange       = "routes did not change"
)

// Messages of our own.
const (
	LogTableHeld     = "suspicious table held back, the old one is served"
	LogTableReleased = "held table released"
	LogHoldEnded     = "hold ended, the source shows a table that is fine"
)

// Defaults of [Config].
const (
	DefaultInterval   = 3 * time.Second
	DefaultMaxBackoff = 15 * time.Second
	// recheckGap is the least time between the start of a read and one that was asked for by [Poller.Recheck]: clients
	// can ask for rechecks, and they must not make the source suffer.
	recheckGap = time.Second
)

// Source reads all objects, completely or not at all. Reads are made one after the other.
type Source interface {
	Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error)
}

// Observer is told about every read; the cache is one. Calls come from the loop, in order: PollStarted, then one of the
// others with its number, or none if the read failed.
type Observer interface {
	// PollStarted gives the read a number.
	PollStarted() uint64
	// PollCompleted says that the read showed the table that is served now.
	PollCompleted(seq, revision uint64, at time.Time)
	// PollHeld says that the read showed a table that is held back.
	PollHeld(seq, revision uint64, at time.Time)
}

// Config is what a Poller is made of.
type Config struct {
	// Source and Compile are required. Compile gives unique routes, sorted by id; the very same slice if nothing
	// changed.
	Source  Source
	Compile func(*kube.Snapshot) []table.Route
	// Publish serves a table from now on. Required.
	Publish func(*table.Table)
	// Guard is required.
	Guard *guard.Guard
	// Observer may be nil.
	Observer Observer

	// Interval between the starts of two reads. Default [DefaultInterval], at least 1 ms.
	Interval time.Duration
	// MaxBackoff is the longest delay after failures; the shortest is Interval. Default [DefaultMaxBackoff], or Interval
	// if that is longer.
	MaxBackoff time.Duration
	// Served is the table that is served already, such as one from a checkpoint; nil if there is none.
	Served *table.Table

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none
}

// Poller is the loop. Make one with [New].
type Poller struct {
	cfg     Config
	log     *slog.Logger
	recheck chan struct{}

	// owned by Run
	compiled  []table.Route // of the last read
	candidate *table.Table  // made of compiled

	// publishing is held while a table is judged and published, which can take a second; the loop and Accept do so.
	publishing sync.Mutex
	served     *table.Table // guarded by publishing

	mu     sync.Mutex
	status Status // guarded by mu
}

// Status is the state of the loop, for people and machines that ask.
type Status struct {
	// LastAttempt and LastSuccess are when the last read started, and when the last successful one ended. Zero: never.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the reads that failed since the last success; LastError is what the last of them said.
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	// FailedTotal counts all reads that failed, EmptyTotal all that gave no route.
	FailedTotal uint64 `json:"failed_total"`
	EmptyTotal  uint64 `json:"empty_total"`
	// Revision is that of the last successful read.
	Revision uint64 `json:"revision"`
	// NextAttempt is when the next read is due.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Started is when Run began, Initialized when it first published or confirmed a table, Updated when it last
	// published one. Zero: never.
	Started     time.Time `json:"started,omitzero"`
	Initialized time.Time `json:"initialized,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}

// New checks the configuration and fills in its defaults. It starts nothing.
func New(cfg Config) (*Poller, error) {
	switch {
	case cfg.Source == nil || cfg.Compile == nil || cfg.Publish == nil || cfg.Guard == nil:
		return nil, errors.New("poller: Source, Compile, Publish and Guard are required")
	case cfg.Interval < 0 || cfg.Interval > 0 && cfg.Interval < time.Millisecond:
		return nil, fmt.Errorf("poller: interval %v: want at least 1ms", cfg.Interval)
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = DefaultMaxBackoff
	}
	cfg.MaxBackoff = max(cfg.MaxBackoff, cfg.Interval)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	return &Poller{
		cfg: cfg, log: cfg.Logger.With("component", "poller"),
		recheck: make(chan struct{}, 1), served: cfg.Served,
	}, nil
}

// Run polls until ctx ends, and returns nil then. It is to be called once.
func (p *Poller) Run(ctx context.Context) error {
	p.log.Info(LogPollingStarted, "timeout", p.cfg.Interval)
	p.update(func(s *Status) { s.Started = time.Now() })
	defer p.log.Info(LogPollingStopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var consistent bool
	var started time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.recheck:
			consistent = true
			// A client holds a newer table: read past all caches, soon, but not at the pace of the clients.
			timer.Reset(max(0, recheckGap-time.Since(started)))
			continue
		case <-timer.C:
		}
		started = time.Now()
		failures := p.once(ctx, kube.ReadOptions{Consistent: consistent})
		if failures == 0 {
			consistent = false
		}
		next := max(0, p.delay(failures)-time.Since(started))
		p.update(func(s *Status) { s.NextAttempt = time.Now().Add(next) })
		timer.Reset(next)
	}
}

// delay is the time from the start of one read to the start of the next: the interval, and after failures up to twice
// as much for each, with jitter so that replicas do not come back together.
func (p *Poller) delay(failures int) time.Duration {
	if failures == 0 {
		return p.cfg.Interval
	}
	d := p.cfg.MaxBackoff
	if shift := failures - 1; shift < 16 {
		d = min(p.cfg.Interval<<shift, p.cfg.MaxBackoff)
	}
	return p.cfg.Interval/2 + time.Duration(rand.Int64N(int64(d)+1))
}

// Recheck asks for an early read that goes past all caches. It never blocks; requests that come before the read are one.
func (p *Poller) Recheck() {
	select {
	case p.recheck <- struct{}{}:
	default:
	}
}

// Status gives the state of the loop.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// update changes the status and the series that show it.
func (p *Poller) update(change func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	p.cfg.Metrics.show(&p.status)
}

// Accept publishes the held table with the digest, at once; the zero digest is whatever is held. The errors are those of
// the guard.
func (p *Poller) Accept(d table.Digest) (*table.Table, error) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	t, err := p.cfg.Guard.Accept(d, time.Now())
	if err != nil {
		return nil, err
	}
	p.log.Warn(LogTableReleased, "accepted", true, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String())
	p.publish(t)
	return t, nil
}
