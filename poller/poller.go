// Package poller produces tables from a source: it reads, compiles, and offers the result to a publisher.
//
// A [Poller] reads its source at once, then at every interval, and in between when the source reports a change ([Follower]). A
// read is complete, or it fails. After a failed read the served table stays, and the next attempt comes after a growing, jittered
// delay; the first success restores the interval.
//
// A [Compiler] compiles the routes of a snapshot. It keeps the last snapshot to look up addresses, and the list of problems with
// their start times. It logs each problem when it appears and when it is solved, not on every poll.
//
// A panic in the source, the compiler or the publisher counts as a failed read: the old table stays, the stack is logged, and the
// next read tries again. An unexpected input must not take the table from the fleet, and a process that crashed on it would crash
// again after the restart.
//
// Only [Poller.Run] reads. The other methods are safe for concurrent use.
//
// Other modules should not import it: it may change with every release.
package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Log messages that operators and tests of the reference expect.
const (
	LogPollingStarted       = "starting polling"
	LogPollingStopped       = "polling stopped"
	LogRoutesFetchingFailed = "failed to fetch routes"
	LogRoutesEmpty          = "received empty routes; ignoring"
	LogRoutesInitialized    = "routes initialized"
	LogRoutesUpdated        = "routes updated"
	LogRoutesNoChange       = "routes did not change"
)

// LogFollowingFailed is a log message without a counterpart in the reference.
const LogFollowingFailed = "the source cannot follow its objects"

// Defaults of [Config].
const (
	DefaultInterval   = api.DefaultInterval
	DefaultMaxBackoff = 15 * time.Second
)

// Source reads all objects, completely or not at all. Reads never run concurrently.
type Source interface {
	Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error)
}

// Follower is an optional interface of a Source that follows its objects and reports changes.
type Follower interface {
	// Run follows until ctx and everything that Run started has ended, then returns nil. An error means that it cannot follow. A
	// Poller runs it as long as it runs itself.
	Run(ctx context.Context) error
	// Changed sends a value when a read would return something new, after gathering changes briefly. It may be nil.
	Changed() <-chan struct{}
}

// Prober is an optional interface of a Source that can cheaply check whether a read would succeed.
type Prober interface {
	// Probe repeats as little as possible of the request that made the last Read fail. An error means that a read would fail,
	// too; it is like the error of the read.
	Probe(ctx context.Context) error
}

// Config configures a Poller.
type Config struct {
	// Source and Compile are required. Compile returns the routes, which share unchanged parts with the previous ones. If it
	// panics, it is called again for the next read.
	Source  Source
	Compile func(*kube.Snapshot) table.List
	// Publisher receives the tables. Required. Its last-known-good file records Origin as their origin.
	Publisher *publish.Publisher
	Origin    string

	// Interval is the time between the starts of two reads. Default [DefaultInterval], at least 1 ms.
	Interval time.Duration
	// MaxBackoff is the longest delay from the end of a failed read to the next one; the shortest is Interval. Default
	// [DefaultMaxBackoff], or Interval if that is longer.
	MaxBackoff time.Duration
	// ProbeInterval is the time between two probes while reads fail, if the source is a [Prober]: as soon as a probe succeeds, a
	// read follows, and no read comes before. 0 means no probes.
	ProbeInterval time.Duration
	// Settle waits until a review of the table is done. The Poller calls it before an offer while the publisher knows no objects:
	// then nothing can be kept at its served version. before is the table that the first one is compared with, or nil. Settle may
	// be nil.
	Settle func(ctx context.Context, before, after *table.Table)
	// Reviewed sends a value when a review may have another result: then the Poller reads at once. It may be nil. Offering what
	// was read last would not do: a cache must not take it for a newer read.
	Reviewed <-chan struct{}
	Logger   *slog.Logger // nil means no log
	Metrics  *Metrics     // nil means none
}

// Poller is the read loop. Create it with [New].
type Poller struct {
	cfg     Config
	log     *slog.Logger
	recheck chan struct{}
	prober  Prober // nil means no probes

	candidate *table.Table // of the last read; owned by Run

	mu     sync.Mutex // guards the fields below
	status api.Source
}

// New checks the configuration and fills in its defaults. It starts no goroutine.
func New(cfg Config) (*Poller, error) {
	switch {
	case cfg.Source == nil || cfg.Compile == nil || cfg.Publisher == nil:
		return nil, errors.New("poller: Source, Compile and Publisher are required")
	case cfg.Interval < 0 || cfg.Interval > 0 && cfg.Interval < time.Millisecond:
		return nil, fmt.Errorf("poller: interval %v must be at least 1ms", cfg.Interval)
	case cfg.ProbeInterval < 0 || cfg.MaxBackoff < 0:
		return nil, fmt.Errorf("poller: probe interval %v and max backoff %v must not be negative", cfg.ProbeInterval, cfg.MaxBackoff)
	}
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.MaxBackoff = max(cmp.Or(cfg.MaxBackoff, DefaultMaxBackoff), cfg.Interval)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	p := &Poller{cfg: cfg, log: cfg.Logger.With("component", "poller"), recheck: make(chan struct{}, 1)}
	if cfg.ProbeInterval > 0 {
		p.prober, _ = cfg.Source.(Prober)
	}
	return p, nil
}

// Run polls until ctx ends, then returns nil. Call it once.
func (p *Poller) Run(ctx context.Context) error {
	p.log.Info(LogPollingStarted, "timeout", p.cfg.Interval)
	defer p.log.Info(LogPollingStopped)
	defer p.cfg.Publisher.Flush()
	p.update(func(s *api.Source) { s.Started = time.Now() })
	changed, wait := p.follow(ctx)
	defer wait()
	s := &schedule{timer: time.NewTimer(0), trusted: true}
	defer s.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.recheck:
			s.asked()
		case <-changed:
			s.changed()
		case <-p.cfg.Reviewed:
			s.changed()
		case <-s.timer.C:
			if ctx.Err() != nil {
				return nil // both were ready
			}
			var down error // the source does not even answer a probe
			if p.prober != nil && s.failures > 0 {
				down = p.probe(ctx)
				if !s.probed(down, p.cfg.ProbeInterval) {
					break
				}
			}
			p.read(ctx, s, down)
		}
		s.wake()
	}
}

// probeTimeout limits a probe: a source worth reading returns one object in this time.
const probeTimeout = 1500 * time.Millisecond

// probe returns why a read would fail, if a probe can tell.
func (p *Poller) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.prober.Probe(ctx)
}

// read makes the read that is due, and sets when the next one is.
func (p *Poller) read(ctx context.Context, s *schedule, down error) {
	select {
	case <-p.recheck: // the request came just when this read became due: it needs no extra read
		s.consistent = true
	default:
	}
	s.started = time.Now()
	s.failures = p.once(ctx, kube.ReadOptions{Consistent: s.consistent}, down)
	s.ended = time.Now()
	s.due, s.probe = s.started.Add(p.cfg.Interval), time.Time{}
	if s.failures == 0 {
		s.consistent, s.trusted = false, true
	} else {
		// Count from the end of the read: another read must not follow at once after one that failed by its deadline.
		s.due = s.ended.Add(api.Backoff(s.failures, p.cfg.Interval, p.cfg.MaxBackoff, rand.Float64()))
		if p.prober != nil {
			s.probe = s.ended.Add(p.cfg.ProbeInterval)
		}
	}
	p.update(func(g *api.Source) { g.NextAttempt = s.due })
}

// follow runs a source that follows its objects, until ctx ends. The returned function waits for that.
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

// Recheck requests an early read that bypasses all caches. It never blocks; several requests before the read count as one.
func (p *Poller) Recheck() {
	select {
	case p.recheck <- struct{}{}:
	default:
	}
}

// Status returns the state of the loop.
func (p *Poller) Status() api.Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// update changes the status and the series that show it.
func (p *Poller) update(change func(*api.Source)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	p.cfg.Metrics.show(&p.status)
}

// Accept publishes the held table at once; see [publish.Publisher.Accept].
func (p *Poller) Accept(a publish.Acceptance) (*table.Table, error) {
	before := p.cfg.Publisher.Table()
	t, err := p.cfg.Publisher.Accept(a)
	if err == nil {
		p.published(before, t)
	}
	return t, err
}

// recheckGap is the minimum time between the start of a read and one requested by [Poller.Recheck]: clients can cause rechecks,
// and must not overload the source. A failing source is not read early at all.
const recheckGap = time.Second

// schedule holds when the next read is due, and how to read. It is owned by Run.
//
// While reads fail they come after a growing delay, because they may be expensive. Probes are cheap and come often: one that
// succeeds triggers a read at once. If that read fails nevertheless, reads return to their delay until a probe has failed,
// because the cause is something that a probe cannot see.
type schedule struct {
	timer      *time.Timer // fires when a read or a probe is due
	due        time.Time   // when the next read is due
	probe      time.Time   // when the next probe is due; zero for none
	trusted    bool        // a successful probe triggers a read
	consistent bool        // the read must be consistent

	started  time.Time // of the last read
	ended    time.Time // of the last read, with its table published
	failures int       // consecutive
}

// wake sets the timer.
func (s *schedule) wake() {
	next := s.due
	if !s.probe.IsZero() && s.probe.Before(next) {
		next = s.probe
	}
	s.timer.Reset(time.Until(next))
}

// sooner brings the next read forward to early, if early is before it.
func (s *schedule) sooner(early time.Time) {
	if early.Before(s.due) {
		s.due = early
	}
}

// asked schedules a soon and consistent read for a client that has a newer table. It does not speed up a failing source, which
// needs time to recover and would not answer sooner.
func (s *schedule) asked() {
	s.consistent = true
	if s.failures == 0 {
		s.sooner(s.started.Add(recheckGap))
	}
}

// changed schedules a read at once because the source has changed or recovered, even after a failure. After a long read, the next
// one waits as long as that read took, so that a cluster with constant changes does not use a whole CPU.
func (s *schedule) changed() { s.sooner(s.ended.Add(s.ended.Sub(s.started))) }

// probed records the result of a probe. It reports whether to read now.
func (s *schedule) probed(down error, interval time.Duration) bool {
	now := time.Now()
	// With jitter, so that replicas do not stay in step.
	s.probe = now.Add(interval - interval/5 + time.Duration(rand.Int64N(int64(interval/5)+1)))
	s.trusted = s.trusted || down != nil
	switch {
	case !now.Before(s.due):
		return true
	case down != nil || !s.trusted:
		return false
	}
	s.trusted = false
	return true
}

// Label values.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultHeld      = "held"
	resultError     = "error"

	failedRead  = "read"
	failedPanic = "panic"

	phaseRead    = "read"
	phaseCompile = "compile"
	phasePublish = "publish"
)

// Metrics are the series of a Poller.
type Metrics struct {
	polls       *prometheus.CounterVec
	failures    *prometheus.CounterVec
	empty       prometheus.Counter
	duration    *prometheus.HistogramVec
	started     prometheus.Gauge
	initialized prometheus.Gauge
	updated     prometheus.Gauge
}

// NewMetrics creates the series and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		polls: made.Counters("routesrv_polls_total", "Reads of the source: changed, unchanged, held (by the guard) or error.",
			"result", resultChanged, resultUnchanged, resultHeld, resultError),
		failures: made.Counters("routesrv_poll_failures_total", "Polls with the result error: read (the source failed) or panic.",
			"reason", failedRead, failedPanic),
		empty: made.Counter("routesrv_empty_tables_total", "Reads that gave no routes."),
		duration: made.Histograms("routesrv_poll_phase_duration_seconds", "Duration of the phases: read, compile, publish.",
			"phase", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		started:     made.Gauge("routesrv_polling_started_timestamp_seconds", "When polling started."),
		initialized: made.Gauge("routesrv_table_initialized_timestamp_seconds", "When the first table was confirmed or published."),
		updated:     made.Gauge("routesrv_table_updated_timestamp_seconds", "When the table last changed."),
	}
}

// show sets the gauges that mirror the status.
func (m *Metrics) show(s *api.Source) {
	series.Stamp(m.started, s.Started)
	series.Stamp(m.initialized, s.Initialized)
	series.Stamp(m.updated, s.Updated)
}
