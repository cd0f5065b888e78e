// Package publish is the only place that decides which table is served. Producers (package poller, which compiles tables, and
// package dataplane, which fetches them) offer candidates. A [Publisher] judges each one by the rules of package guard, passes good
// ones to a [Sink], which is a cache, and writes the last-known-good file.
//
// Calls point down the list of files:
//
//	offer.go  accept.go  boot.go     offers, acceptances, the state of an earlier process
//	command.go  promote.go           commands of operators; the end of a soak
//	switch.go                        several producers
//	serve.go                         serves and records a decision: only here is the table swapped
//	publish.go                       configuration, and what readers see
//	decide.go                        the decision
//	canary.go  accident.go           its parts: soaking changes, losses,
//	review.go  orders.go             reviews, freezes and pins
//	hold.go                          holds of a whole table
//	build.go                         a snapshot with kept objects to a table
//	file.go  readtime.go             the last-known-good file, and when its table was read
//	keptfile.go  metrics.go          the list on disk; metrics
//	decisions.go                     the last decisions
//	list.go                          the list of entries
//	kept.go  candidate.go            one entry; a table that is offered
//
// A producer calls [Publisher.Begin] before it reads its source, and [Attempt.Offer] with the result. An offer is one decision: a
// pure function of the newest read, the served table, and the list of entries, except that the guard remembers losses within its
// window. If the sink panics, the state is the same as before the offer.
//
// Every reason to keep an object is an entry of one list: see [Kept]. Everything else of the newest snapshot is served with it, so
// one team's accident delays no other team (guarantee Live). The list is on disk before a table with kept objects is served, and
// the next process resumes it. When the guard reports an accident, everything that was lost within its window is restored, and for
// one more window every further lost object is kept as well.
//
// Where objects are unknown, as on relays and data planes, or after a restart without a history, entries hold the whole table.
// Before the first table the guard has nothing to compare with but the table of another replica: see [Publisher.CompareWith].
//
// A data plane computes and fetches tables. Each producer has its own Publisher, and a [Switch] connects one of them to the cache.
//
// A Publisher starts no goroutine except the one that writes a file while there is something to write. All methods are safe for
// concurrent use. Other modules should not import it: it may change with every release.
package publish

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Messages of the log.
const (
	LogTableHeld     = "suspicious table held back"
	LogKeepPanicked  = "BUG: objects cannot be kept one by one, holding the whole table"
	LogKept          = "objects are kept at their served versions"
	LogTableReleased = "held table released"
	LogHoldEnded     = "hold ended: the source shows a table that is fine"
)

// Sink serves tables. Package etagcache implements it.
type Sink interface {
	// Restore serves a table that no read has shown yet, as stale. read is the time of the last read of its source.
	Restore(t *table.Table, read time.Time)
	// Begin reports that a read of the source begins. The returned function reports its end, at most once: t is served from
	// now on; nil if the served table stays, because a suspicious one is held back.
	Begin() (end func(t *table.Table, r table.Read))
	// Publish serves an accepted table.
	Publish(t *table.Table)
}

// discard is a no-op Sink.
type discard struct{}

func (discard) Restore(*table.Table, time.Time)       {}
func (discard) Begin() func(*table.Table, table.Read) { return func(*table.Table, table.Read) {} }
func (discard) Publish(*table.Table)                  {}

// Config configures a Publisher.
type Config struct {
	Sink  Sink // nil means that only the Publisher and its files have the tables
	Guard guard.Config
	// Builder compiles snapshots in which some objects are kept. nil means that a hold keeps the whole table.
	Builder Builder
	// Review objects to routes of tables that are compiled from snapshots; nil means no review. It needs a Builder.
	Review Review
	// Canary configures serving the newest versions of objects to a canary before the fleet. It needs a Builder.
	Canary CanaryConfig
	// Changed returns what an earlier process served last, of the objects that differ from a snapshot; nil for one that was
	// not served. known is false without a record. It is called until this process has served a read, and may be nil.
	Changed func(newest *kube.Snapshot) (changed map[kube.Ref]kube.Object, known bool)
	// File is the last-known-good file, which Boot loads.
	File FileConfig
	// Decided is called with each hold and its release. It must not block. It may be nil.
	Decided func(api.Decision)

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none
}

// Publisher decides which table is served. Create it with [New].
type Publisher struct {
	cfg   Config
	log   *slog.Logger
	file  *file
	ready chan struct{} // closed when a table is served

	served   atomic.Pointer[Served]      // nil before the first table
	canary   atomic.Pointer[table.Table] // served to the canary; nil before the first table
	standing atomic.Pointer[standing]
	keptFile *keptFile

	// mu is held while a table is decided on and served, and guards the fields below.
	mu     sync.Mutex
	policy policy
	newest Candidate // the last read
	lost   losses
	peers  keptList // what other replicas keep: see Adopt
	theirs map[kube.Ref][]*Kept
	// verdict is the last one of the canary query, and compiled is set once this process has served a read.
	verdict  Verdict
	compiled bool
	// baseline is the table that the first table is compared with; nil if there is none, or once a table is served.
	baseline *table.Table
}

// New checks the configuration. It starts no goroutine and does no I/O. The error names the invalid limit of the guard.
func New(cfg Config) (*Publisher, error) {
	if cfg.Builder != nil {
		cfg.Guard.Hold, cfg.Guard.MaxLoss = cmp.Or(cfg.Guard.Hold, guard.DefaultKeep), cmp.Or(cfg.Guard.MaxLoss, guard.DefaultObjectLoss)
	}
	h, err := newHolder(cfg.Guard)
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil, "routesrv")
	}
	if cfg.Sink == nil {
		cfg.Sink = discard{}
	}
	if cfg.Canary.Sink == nil || cfg.Builder == nil {
		cfg.Canary = CanaryConfig{Sink: discard{}}
	}
	if cfg.Decided == nil {
		cfg.Decided = func(api.Decision) {}
	}
	p := &Publisher{
		cfg: cfg, log: cfg.Logger, file: newFile(cfg.File, cfg.Logger, cfg.Metrics), ready: make(chan struct{}),
		policy: policy{h, cfg.Builder, cfg.Review, cfg.Canary}, keptFile: newKeptFile(cfg.File, cfg.Logger),
	}
	p.show(new(standing))
	return p, nil
}

// Exclusively calls f while the Publisher makes no decision, which would use its Builder.
func (p *Publisher) Exclusively(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// CompareWith makes the Publisher judge its first table against t, which another replica serves.
func (p *Publisher) CompareWith(t *table.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.served.Load() == nil {
		p.baseline = t
	}
}

// Served returns the served candidate, or nil before the first table.
func (p *Publisher) Served() *Served { return p.served.Load() }

// Table returns the served table, or nil before the first one.
func (p *Publisher) Table() *table.Table {
	if s := p.served.Load(); s != nil {
		return s.Table
	}
	return nil
}

// Held returns the newest candidate while it, or objects of it, are held; nil if neither.
func (p *Publisher) Held() *Candidate { return p.standing.Load().newest }

// Ready returns a channel that is closed once a table is served.
func (p *Publisher) Ready() <-chan struct{} { return p.ready }

// Tables returns the served and the held candidate. It waits while a table is being published.
func (p *Publisher) Tables() Tables {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Tables{p.served.Load(), p.Held()}
}

// Comparison returns at one moment what is held (the newest table while objects are kept; nil if nothing is), the served
// table or the table of a peer beside it, or nil, and the state.
func (p *Publisher) Comparison() (beside, held *table.Table, s Holding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.Holding()
	if c := p.Held(); c != nil {
		held = c.Table
	}
	return cmp.Or(p.Table(), p.baseline), held, s
}

// show makes the kept and held content visible to readers. The caller holds mu.
func (p *Publisher) show(s *standing) {
	p.standing.Store(s)
	p.cfg.Metrics.keeps(s.list)
	p.cfg.Metrics.lost.Set(s.lost.Share())
}

// List returns all entries, for other replicas.
func (p *Publisher) List() []*Kept {
	return p.standing.Load().list.without(p.standing.Load().list.tables())
}

// Kept returns the objects that are kept or under review, the newest first, except soaking ones. The caller owns the slice.
func (p *Publisher) Kept() []*Kept { return p.standing.Load().list.objects().others().newestFirst() }

// Holding returns what is held: a table, or kept objects, whose list Digest then names.
func (p *Publisher) Holding() Holding { return p.standing.Load().state() }
