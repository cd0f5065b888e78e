// Package poller runs the loop of the route server: read, compile, judge, publish.
//
// The loop reads its source at once and then at every interval, and in between when the source says that it has something
// new ([Follower]). A read is complete or it is none: when one fails the
// table that is served stays, and the next attempt comes after a growing, jittered delay; the first success restores
// the rhythm. What was compiled is published only if it differs from what is served and the guard lets it pass. So:
// nothing that is incomplete is published, nothing is published twice, and nothing that looks like an accident is
// published without its time or an operator's word.
//
// While a table is held back, a Poller with [Halves] serves what is not to blame of each read: the intent that was served
// with the newest backends, or the newest intent with the last endpoints of services that lost all of them. Such a table
// carries the revision of its read, like any other. Which intent was served is not known after a restart; until a read is
// published, or shows the table of the checkpoint, a hold keeps that whole table.
//
// A read that panics, in the source, the compiler or whoever publishes, is a read that failed: the old table stays, the
// stack is logged, and the next read tries again. An input that nobody thought of must not take the table from the fleet,
// and a process that dies of it would meet it again when it is back.
//
// A Poller joins functions that it is given; it knows neither HTTP nor Kubernetes. [Poller.Run] is the only goroutine
// that reads; it publishes, as [Poller.Accept] does. The methods other than Run may be called from anywhere.
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
	LogTableHeld     = "suspicious table held back"
	LogTableReleased = "held table released"
	LogHoldEnded     = "hold ended, the source shows a table that is fine"

	LogFollowingFailed = "the source cannot follow its objects"
)

// Defaults of [Config].
const (
	DefaultInterval   = 3 * time.Second
	DefaultMaxBackoff = 15 * time.Second
	// recheckGap is the least time between the start of a read and one that was asked for by [Poller.Recheck]: clients
	// can ask for rechecks, and they must not make the source suffer. A source that fails is not read early at all.
	recheckGap = time.Second
)

// Source reads all objects, completely or not at all. Reads are made one after the other.
type Source interface {
	Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error)
}

// Follower is what a Source may be besides: one that follows its objects by itself and tells when there is something to
// read.
type Follower interface {
	// Run follows until ctx ends and all that it started has ended, and returns nil then. An error means that it cannot
	// follow. A Poller runs it as long as it runs itself.
	Run(ctx context.Context) error
	// Changed gives a value when there is something new to read, gathered for a moment. It may be nil.
	Changed() <-chan struct{}
}

// Prober is what a Source may be besides: one that can find out at little cost whether a read is worth its own.
type Prober interface {
	// Probe asks for as little as possible of what made the last Read fail. An error means that a read would fail, too;
	// it is like that of the read.
	Probe(ctx context.Context) error
}

// Observer is told about every read; the cache is one. Calls come from the loop, in order: PollStarted, then PollEnded
// with its number, or nothing if the read failed.
type Observer interface {
	// PollStarted gives the read a number.
	PollStarted() uint64
	// PollEnded says what the read was. Unless it is Held, it showed the table that is served now.
	PollEnded(seq uint64, r table.Read)
}

// Config is what a Poller is made of.
type Config struct {
	// Source and Compile are required. Compile gives the routes, which share with those before what did not change. If it
	// panics, it is called again for the next read.
	Source  Source
	Compile func(*kube.Snapshot) table.List
	// Publish serves a table from now on. Required.
	Publish func(*table.Table)
	// Halves lets endpoints live while an intent is held back, and the other way round. nil means that a hold keeps the
	// whole table that is served.
	Halves Halves
	// PublishHeld is Publish for a table that is served while another one is held back. nil means Publish.
	PublishHeld func(*table.Table)
	// Guard is required.
	Guard *guard.Guard
	// Observer may be nil.
	Observer Observer

	// Interval between the starts of two reads. Default [DefaultInterval], at least 1 ms.
	Interval time.Duration
	// MaxBackoff is the longest delay from the end of a read that failed to the next one; the shortest is Interval.
	// Default [DefaultMaxBackoff], or Interval if that is longer.
	MaxBackoff time.Duration
	// ProbeInterval is the time between two probes while reads fail, if the source is a [Prober]: a read follows as soon as
	// a probe succeeds, and none is made before. 0 means no probes.
	ProbeInterval time.Duration
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
	candidate *table.Table // of the last read

	// publishing is held while a table is judged and published, which can take a second; the loop and Accept do so.
	publishing sync.Mutex
	served     *table.Table // guarded by publishing
	halves     halves       // likewise

	mu     sync.Mutex // guards what follows
	status Status
	half   guard.Half   // that is held
	first  table.Digest // of the tables of the held intent
}

// Status is the state of the loop, for people and machines that ask.
type Status struct {
	// LastAttempt and LastSuccess are when the last read started, and when the last successful one ended. Zero: never.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the polls that failed since the last success; LastError is what the last of them said.
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	// FailedTotal counts all polls that failed, EmptyTotal all that gave no route.
	FailedTotal uint64 `json:"failed_total"`
	EmptyTotal  uint64 `json:"empty_total"`
	// Revision is that of the last successful read: the highest that it has seen.
	Revision uint64 `json:"revision"`
	// NextAttempt is when the next read is due; one that was asked for by a client comes earlier.
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
	case cfg.ProbeInterval < 0:
		return nil, fmt.Errorf("poller: probe interval %v: want no negative time", cfg.ProbeInterval)
	case cfg.MaxBackoff < 0:
		return nil, fmt.Errorf("poller: max backoff %v: want no negative time", cfg.MaxBackoff)
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = DefaultMaxBackoff
	}
	cfg.MaxBackoff = max(cfg.MaxBackoff, cfg.Interval)
	if cfg.PublishHeld == nil {
		cfg.PublishHeld = cfg.Publish
	}
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
	defer p.log.Info(LogPollingStopped)
	p.update(func(s *Status) { s.Started = time.Now() })
	changed, wait := p.follow(ctx)
	defer wait()
	var (
		timer      = time.NewTimer(0)
		started    time.Time // of the last read
		ended      time.Time // of the last read, table published
		due        time.Time // of the next read
		failures   int       // in a row
		consistent bool      // the next read has to be
		probing    = newProbing(p.cfg)
	)
	defer timer.Stop()
	defer probing.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.recheck:
			consistent = true
			// A client holds a newer table: read past all caches, and soon. But a source that fails needs its rest, and
			// would not give an answer any sooner.
			if early := started.Add(recheckGap); failures == 0 && early.Before(due) {
				due = early
				timer.Reset(time.Until(due))
			}
			continue
		case <-changed:
			// The source has something, or has recovered: that is worth a read at once, also one that failed. After a read
			// that took long the next one waits for as long again: a cluster in which something changes all the time
			// must not take all of a processor.
			if early := ended.Add(ended.Sub(started)); early.Before(due) {
				due = early
				timer.Reset(time.Until(due))
			}
			continue
		case <-probing.due():
			if probing.answers(ctx) && time.Now().Before(due) {
				due = time.Now()
				timer.Reset(0)
			}
			continue
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return nil // both were ready
		}
		select {
		case <-p.recheck: // it came while this read became due: it is not worth another one
			consistent = true
		default:
		}
		started = time.Now()
		var down error // the source does not even answer a probe
		if failures > 0 {
			down = probing.probe(ctx)
		}
		failures = p.once(ctx, kube.ReadOptions{Consistent: consistent}, down)
		ended = time.Now()
		probing.after(failures)
		if failures == 0 {
			consistent = false
			due = started.Add(p.cfg.Interval)
		} else {
			// From the end of the read: one that fails by its deadline must not be followed by another at once.
			due = ended.Add(p.backoff(failures))
		}
		p.update(func(s *Status) { s.NextAttempt = due })
		timer.Reset(time.Until(due))
	}
}

// follow runs a source that follows its objects, until ctx ends. What it returns waits for that.
func (p *Poller) follow(ctx context.Context) (changed <-chan struct{}, wait func()) {
	f, ok := p.cfg.Source.(Follower)
	if !ok {
		return nil, func() {}
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := f.Run(ctx); err != nil {
			p.log.Error(LogFollowingFailed, "error", err)
		}
	})
	return f.Changed(), group.Wait
}

// backoff is the delay after failures in a row. It doubles with each of them, up to the limit; the upper half of it is
// left to chance, so that replicas do not come back together.
func (p *Poller) backoff(failures int) time.Duration {
	d := p.cfg.Interval
	for range failures {
		if d > p.cfg.MaxBackoff/2 {
			d = p.cfg.MaxBackoff
			break
		}
		d *= 2
	}
	least := max(d/2, p.cfg.Interval)
	return least + time.Duration(rand.Int64N(int64(d-least)+1))
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

// Accept publishes the held table, at once. The digest is that of the table, or of one that was held before it for the
// same intent and the same half. The errors are those of the guard.
func (p *Poller) Accept(d table.Digest) (*table.Table, error) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	t, err := p.cfg.Guard.Accept(guard.Acceptance{Digest: p.acceptable(d)}, time.Now())
	if err != nil {
		return nil, err
	}
	p.cfg.Metrics.held.Set(0)
	p.log.Warn(LogTableReleased, "accepted", true, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String())
	p.publish(t, p.cfg.Publish)
	p.servesAll(p.halves.held)
	return t, nil
}
