// Package publish is the only place that decides which table is served. Producers (package poller, which compiles tables, and
// package dataplane, which fetches them) offer candidates. A [Publisher] judges each one by the rules of package guard, passes good
// ones to a [Sink], which is a cache, and keeps the last-known-good file.
//
// # An offer
//
// A producer calls [Publisher.Begin] before it asks its source, and [Attempt.Offer] with the result. A failed attempt needs no further
// call. The sink is therefore told when each read begins and ends, in this order, and about acceptances, and nothing else.
//
// The last-known-good file is replaced in the background: failed writes are retried and delay nothing. A process that dies before that still
// has the old table after its restart, and names the old table: the file stores no names, which follow from digest and revision, so the two
// cannot disagree. If the sink or a compiler panics, the served table and its names are the same as before the offer.
//
// # Kept objects
//
// A candidate that looks like an accident is not published as it is. If it has a snapshot, the Publisher keeps the objects that would be lost,
// at the versions that are served, and serves everything else of the newest snapshot: see [Kept]. So one team's accident delays no other
// team (guarantee Live). A kept object is released when it is back, when somebody else answers its requests, by time, or by acceptance. The
// list is on disk before a table with kept objects is published, and a process that comes after this one goes on with it.
//
// Time releases an object once the hold time has passed since it was kept, or since any of the kept ones last came back, and after two judgements of
// one process. Once something came back and at most 5 % of the served requests are missing, it takes ten minutes at most. Before that, time never
// releases what was kept because a table had no routes, or only generated ones: serving the last routes is better than serving none that anybody
// asked for. With guard.Config.Manual it releases nothing. A failed read is no evidence for either side.
//
// Where only tables are known, as on relays and data planes, the whole table waits. So it does on a route server whose objects are unknown: after
// a restart with a last-known-good file and a loss that happened meanwhile. The table is one more entry of the list of what is kept, with the
// same rules (type keeper). Its differences:
//
//   - it is back when the table is fine, and has everything that it was held for, as [guard.Loss.Missing] says. A restore that is half done is
//     therefore never published, also when it has passed the limits;
//   - another kind of reason sets its time back, because the time of one loss does not release another. So does a restart: the file
//     that tells of it may be older than what was served last;
//   - once the objects are known, and the table is fine with those that are kept, it no longer waits.
//
// Before the first table the guard has nothing to compare with, so it passes any table that is not empty. [Publisher.CompareWith] sets
// the table of another replica for the comparison. If the first table is then held, nothing is served.
//
// # Several producers
//
// A data plane computes and fetches tables, and its mode decides which it serves. Each producer has its own Publisher, and a [Switch]
// connects one of them to the single cache: it judges a table of another producer like any other table.
//
// A Publisher starts no goroutine except the one that writes a file while there is something to write. All methods are safe for
// concurrent use.
//
// Other modules should not import it: it may change with every release.
package publish

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Messages of the log.
const (
	LogTableHeld     = "suspicious table held back"
	LogKeepPanicked  = "objects cannot be kept one by one because of a defect of routesrv, the guard judges the whole table"
	LogKept          = "objects are kept at their served versions"
	LogKeptBack      = "kept objects are back"
	LogReviewed      = "objects wait for their review"
	LogKeptReleased  = "kept objects released"
	LogTableReleased = "held table released"
	LogHoldEnded     = "hold ended, the source shows a table that is fine"
)

// Sink serves tables. Package etagcache implements it.
type Sink interface {
	// Restore serves a table that no read has shown yet, as stale. read is the time of the last read of its source.
	Restore(t *table.Table, read time.Time)
	// Begin reports that a read of the source begins. The returned function reports its end and is called at most once: t is the
	// table of the source, or derived from it, and is served from now on. t is nil if the served table stays, because a
	// suspicious one is held back.
	Begin() (end func(t *table.Table, r table.Read))
	// Publish serves an accepted table.
	Publish(t *table.Table)
}

// nobody is the Sink of a Publisher that has none.
type nobody struct{}

func (nobody) Restore(*table.Table, time.Time)       {}
func (nobody) Begin() func(*table.Table, table.Read) { return func(*table.Table, table.Read) {} }
func (nobody) Publish(*table.Table)                  {}

// Config configures a Publisher.
type Config struct {
	Sink  Sink // nil means that only the Publisher and its files have the tables
	Guard guard.Config
	// Builder compiles snapshots in which some objects are kept. nil means that a hold keeps the whole table.
	Builder Builder
	// Review objects to routes of tables that are compiled from snapshots; nil means no review. It needs a Builder.
	Review Review
	// Changed returns the versions of objects that an earlier process served last, of those that differ from a snapshot; nil for one that was
	// not served. It is asked if objects are frozen, and may be nil.
	Changed func(newest *kube.Snapshot) map[kube.Ref]kube.Object
	// Declared returns the orders that the objects of a read declare and that are in force now. They last as long as reads show them. It may
	// be nil.
	Declared func(s *kube.Snapshot, now time.Time) []Order
	// File is the last-known-good file, which Boot loads.
	File FileConfig
	// Decided is told about each hold and its release. It must not block. It may be nil.
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

	// mu is held while a table is judged and published, by every method that changes the fields below.
	mu     sync.Mutex
	served atomic.Pointer[Served] // nil before the first table
	keeper keeper                 // guarded by mu
	made   made                   // of the last read; guarded by mu
	// earlier is what the next review compares with, instead of the served table; nil for that. Guarded by mu.
	earlier *Served
	shown   atomic.Pointer[keeper] // a copy, for readers
	// baseline is the table that the first table is compared with; nil if there is none, or once a table is served. Guarded by
	// mu.
	baseline *table.Table
}

// New checks the configuration. It starts no goroutine and does no I/O. The error names the invalid limit of the guard.
func New(cfg Config) (*Publisher, error) {
	if cfg.Guard.Hold == 0 && cfg.Builder != nil {
		cfg.Guard.Hold = guard.DefaultKeep
	}
	k, err := newKeeper(cfg.Guard)
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil, "routesrv")
	}
	if cfg.Sink == nil {
		cfg.Sink = nobody{}
	}
	if cfg.Decided == nil {
		cfg.Decided = func(api.Decision) {}
	}
	p := &Publisher{
		cfg: cfg, log: cfg.Logger, keeper: k, file: newFile(cfg.File, cfg.Logger, cfg.Metrics), ready: make(chan struct{}),
	}
	p.show()
	return p, nil
}

// CompareWith makes the Publisher judge the first table against t, which another replica serves, as if t was served here. It does
// nothing if a table is already served.
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

// snapshot returns the snapshot of the served table: the newest one with the kept objects. It is nil if unknown, as after a restart.
func (p *Publisher) snapshot() *kube.Snapshot {
	if s := p.served.Load(); s != nil {
		return s.Snapshot
	}
	return nil
}

// beside returns the table that the next one is compared with: the served one, or before the first the table of a peer, or nil. The
// caller holds mu.
func (p *Publisher) beside() *table.Table {
	if t := p.Table(); t != nil {
		return t
	}
	return p.baseline
}

// Held returns the candidate that waits, or the newest one while objects are kept; nil if neither.
func (p *Publisher) Held() *Candidate { return p.shown.Load().newest }

// show makes readers see what the keeper has. The caller holds mu.
func (p *Publisher) show() {
	k := p.keeper
	k.list = slices.Clone(k.list)
	p.shown.Store(&k)
}

// Ready returns a channel that is closed once a table is served.
func (p *Publisher) Ready() <-chan struct{} { return p.ready }

// View returns the served and the held candidate. It waits while a table is being published.
func (p *Publisher) View() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return View{p.served.Load(), p.Held()}
}

// Attempt is one attempt to get a table. It must be used by one goroutine only.
type Attempt struct {
	publisher *Publisher
	end       func(*table.Table, table.Read)
}

// Begin reports that a producer asks its source.
func (p *Publisher) Begin() *Attempt { return &Attempt{p, p.cfg.Sink.Begin()} }

// Offer offers the result of the attempt. Call it at most once.
func (a *Attempt) Offer(c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	return a.offer(c)
}

// OfferSeen is Offer for a producer that asked for the difference to what it had seen. If the Publisher's state is no longer that one,
// the result is [Overtaken] and nothing changes.
func (a *Attempt) OfferSeen(seen View, c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	if p := a.publisher; p.served.Load() != seen.Served || p.Held() != seen.Held {
		return Outcome{Result: Overtaken, Now: p.Table()}
	}
	return a.offer(c)
}

// offer judges a candidate, and publishes it with what is kept, or lets it wait. The caller holds mu.
func (a *Attempt) offer(newest Candidate) Outcome {
	p := a.publisher
	before, waited := p.Table(), p.keeper.list.table()
	m := p.keep(newest, time.Now())
	if m.list.table() != nil {
		p.made = m
		a.hold(m.candidate(), &m)
		return Outcome{Result: Held, Before: before, Now: p.Table()}
	}
	if waited != nil && before != nil && m.due.table() == nil {
		p.log.Info(LogHoldEnded, "reason", string(waited.Reason))
	}
	result := Published
	p.serve(m, func(c Candidate) {
		if before != nil && before.Equal(c.Table) {
			result = Unchanged
			a.confirm(c)
		} else {
			p.publish(c, func() { a.end(c.Table, c.Read) })
		}
	})
	return Outcome{Result: result, Before: before, Now: p.Table()}
}

// serve calls with to serve what can be served of a read, and records what is kept of it. The caller holds mu.
func (p *Publisher) serve(m made, with func(Candidate)) {
	p.saveKept(m.list) // on disk before the table
	with(m.candidate())
	p.keeps(m)
	p.made = m // not if the sink panics
}

// hold lets a whole table wait, and serves what can be served of its read. The caller holds mu.
func (a *Attempt) hold(c Candidate, m *made) {
	p, o := a.publisher, m.list.table()
	p.keeper.list = p.keeper.list.with(o)
	p.showKept(&c)
	if p.Table() != nil { // otherwise there is no served table to report on
		read := c.Read
		read.Held, read.Live, read.Candidate = true, false, nil
		a.end(nil, read)
	}
	if m.fresh && p.beside() != nil { // otherwise nothing is lost yet: the cluster may be new
		p.cfg.Metrics.holds.WithLabelValues(string(o.Reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, c.Table, keptList{o}))
		p.log.Error(LogTableHeld, "reason", string(o.Reason), "detail", o.Detail, "release_at", releaseAt(o.Until),
			"count", c.Table.Len(), "hash", c.Table.Digest().String())
	}
}

// releaseAt is when time releases something, for the log.
func releaseAt(at time.Time) slog.Value {
	if at.IsZero() {
		return slog.StringValue("never")
	}
	return slog.TimeValue(at)
}

// confirm records that a read showed the served table. The caller holds mu.
func (a *Attempt) confirm(c Candidate) {
	p := a.publisher
	was, now := p.served.Load(), time.Now()
	next := &Served{Candidate: c, Committed: was.Committed, Confirmed: now, Initialized: cmp.Or(was.Initialized, now), Updated: was.Updated}
	if next.Table = was.Table; c.Table.Revision() > was.Table.Revision() {
		next.Table = was.Table.WithRevision(c.Table.Revision())
	}
	p.served.Store(next)
	a.end(next.Table, c.Read)
	if next.Table.Revision() != was.Table.Revision() {
		p.file.save(next.Candidate) // the file names the table after a restart
	}
}

// publish calls serve to serve a candidate, and writes it to the file. The caller holds mu.
func (p *Publisher) publish(c Candidate, serve func()) {
	before, now := p.served.Load(), time.Now()
	next := &Served{Candidate: c, Committed: now, Confirmed: now, Initialized: now, Updated: now}
	if before != nil && !before.Initialized.IsZero() {
		next.Initialized = before.Initialized
	}
	p.served.Store(next)
	served := false
	defer func() {
		if !served {
			p.served.Store(before) // the sink panicked
		}
	}()
	serve()
	served = true
	if p.baseline = nil; before == nil {
		close(p.ready)
	}
	p.file.save(c)
}

// Comparison returns a consistent view of what is held: held is the held table, or the newest one while objects are kept, or nil; beside
// is the served table, or before the first one the table of a peer, or nil; and the state.
func (p *Publisher) Comparison() (beside, held *table.Table, s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.State()
	if c := p.Held(); c != nil {
		held = c.Table
	}
	return p.beside(), held, s
}
