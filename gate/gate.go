// Package gate is the only place that decides which table is served. Producers (package poller, which compiles tables, and
// package dataplane, which fetches them) offer candidates. A [Gate] judges each one by the rules of package guard, passes good
// ones to a [Sink], which is a cache, and keeps the last-known-good file.
//
// # An offer
//
// A producer calls [Gate.Begin] before it asks its source, and [Attempt.Offer] with the result. A failed attempt needs no further
// call. The sink is therefore told when each read begins and ends, in this order, and about acceptances, and nothing else.
//
// The Gate publishes in this order:
//
//  1. memory: the sink serves the table;
//  2. disk: the last-known-good file is replaced. The Gate waits for the disk for five seconds at most, or not at all
//     ([FileConfig.Background]);
//
// 3. names: a client names the table to servers from now on.
//
// A process that dies before step 2 still has the old table after its restart, and names the old table: the file stores no names,
// which follow from digest and revision, so the two cannot disagree. Failed writes are retried and delay nothing. If the sink or
// a compiler panics, the served table and its names are the same as before the offer.
//
// # Holds
//
// While the guard holds a candidate back, the Gate keeps it beside the served table. If the candidate has a snapshot, a hold
// keeps only the suspicious half: the Gate serves the previous intent with the newest backends, or the newest intent with the
// last endpoints of the services that lost all of theirs (guarantee Live; docs/decisions/0009). The served table then has the
// revision of the newest read, as usual. After a restart the served intent is unknown: until a read is published, or shows the
// table of the last-known-good file, a hold keeps the whole table. If only tables are known, a hold always keeps the whole table.
//
// Before the first table the guard has nothing to compare with, so it passes any table that is not empty. [Gate.CompareWith] sets
// the table of another replica for the comparison. If the first table is then held, nothing is served.
//
// [Gate.Accept] serves the held table at once. The caller names a digest: of the held table, or of an earlier held table for the
// same intent, since endpoints change while an operator reads a status.
//
// # Several producers
//
// A data plane computes and fetches tables, and its mode decides which it serves. Each producer has its own Gate, and a [Switch]
// connects one of them to the single cache: it judges a table of another producer like any other table.
//
// A Gate starts no goroutine except the one that writes a file while there is something to write. All methods are safe for
// concurrent use.
package gate

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// Messages of the log.
const (
	LogTableHeld     = "suspicious table held back"
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

// Config configures a Gate. Only Sink is required.
type Config struct {
	Sink  Sink
	Guard guard.Config
	// Halves compiles tables from halves of snapshots. nil means that a hold keeps the whole table.
	Halves Halves
	// Files are kept up to date with the served table. The first one is the last-known-good file, which Boot loads.
	Files []FileConfig
	// Decided is told about each hold and its release. It must not block. It may be nil.
	Decided func(Decision)

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none
}

// Gate decides which table is served. Create it with [New].
type Gate struct {
	cfg   Config
	log   *slog.Logger
	guard *guard.Guard
	files []*file
	ready chan struct{} // closed when a table is served

	// mu is held while a table is judged and published, by every method that changes the fields below.
	mu     sync.Mutex
	served atomic.Pointer[Served]    // nil before the first table
	held   atomic.Pointer[Candidate] // nil if no table is held
	parts  parts                     // guarded by mu
	// baseline is the table that the first table is compared with; nil if there is none, or once a table is served. Guarded by
	// mu.
	baseline *table.Table

	state sync.Mutex   // guards the fields below
	half  guard.Half   // the half that the hold keeps
	first *table.Table // first table of the held intent; nil if half is empty

	initialized, updated time.Time
}

// New checks the configuration. It starts no goroutine and does no I/O. The error names the invalid limit of the guard.
func New(cfg Config) (*Gate, error) {
	g, err := guard.New(cfg.Guard)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil, "gate")
	}
	gate := &Gate{cfg: cfg, log: cfg.Logger, guard: g, ready: make(chan struct{})}
	for _, f := range cfg.Files {
		gate.files = append(gate.files, newFile(f, gate.log, cfg.Metrics))
	}
	return gate, nil
}

// Restore serves a table that no read of this process has shown, as stale. It does nothing if a table is already served. Call it
// before the first offer.
func (g *Gate) Restore(c Candidate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restore(c)
}

// restore is Restore with mu held.
func (g *Gate) restore(c Candidate) {
	if g.served.Load() != nil {
		return
	}
	g.cfg.Sink.Restore(c.Table, c.Read.At)
	g.served.Store(&Served{Candidate: c, Committed: time.Now(), Stale: true})
	close(g.ready)
}

// CompareWith makes the Gate judge the first table against t, which another replica serves, as if t was served here. It does
// nothing if a table is already served.
func (g *Gate) CompareWith(t *table.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.served.Load() == nil {
		g.baseline = t
	}
}

// Served returns the served candidate, or nil before the first table.
func (g *Gate) Served() *Served { return g.served.Load() }

// Table returns the served table, or nil before the first one.
func (g *Gate) Table() *table.Table {
	if s := g.served.Load(); s != nil {
		return s.Table
	}
	return nil
}

// Held returns the held candidate, or nil.
func (g *Gate) Held() *Candidate { return g.held.Load() }

// Ready returns a channel that is closed once a table is served.
func (g *Gate) Ready() <-chan struct{} { return g.ready }

// View returns the served and the held candidate. It waits while a table is being published.
func (g *Gate) View() View {
	g.mu.Lock() // not between publishing a table and its names
	defer g.mu.Unlock()
	return View{g.served.Load(), g.held.Load()}
}

// Times returns when the Gate first served a table that a read had shown, and when it last began to serve a different one. Zero
// means never.
func (g *Gate) Times() (initialized, updated time.Time) {
	g.state.Lock()
	defer g.state.Unlock()
	return g.initialized, g.updated
}

// note records that a read has shown the served table, and whether that differs from the previous one.
func (g *Gate) note(now time.Time, changed bool) {
	g.state.Lock()
	defer g.state.Unlock()
	if g.initialized.IsZero() {
		g.initialized = now
	}
	if changed {
		g.updated = now
	}
}

// Attempt is one attempt to get a table. It must be used by one goroutine only.
type Attempt struct {
	gate *Gate
	end  func(*table.Table, table.Read)
}

// Begin reports that a producer asks its source.
func (g *Gate) Begin() *Attempt { return &Attempt{g, g.cfg.Sink.Begin()} }

// Offer offers the result of the attempt. Call it at most once.
func (a *Attempt) Offer(c Candidate) Outcome {
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	return a.offer(c)
}

// OfferSeen is Offer for a producer that asked for the difference to what it had seen. If the Gate's state is no longer that one,
// the result is [Overtaken] and nothing changes.
func (a *Attempt) OfferSeen(seen View, c Candidate) Outcome {
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	if g := a.gate; g.served.Load() != seen.Served || g.held.Load() != seen.Held {
		return Outcome{Result: Overtaken, Now: g.Table()}
	}
	return a.offer(c)
}

// offer judges a candidate and publishes or holds it. The caller holds mu.
func (a *Attempt) offer(c Candidate) Outcome {
	g, now := a.gate, time.Now()
	before := g.Table()
	was, wasHeld := g.guard.Held()
	beside := before
	if before == nil {
		beside = g.baseline
	}
	verdict := g.guard.Judge(beside, c.Table, now)
	g.keepHold()
	defer g.saveHold() // also what Inspect has noted, and if something panics
	if !verdict.Publish {
		a.hold(c, verdict, !wasHeld || was.Reason != verdict.Reason)
		return Outcome{Result: Held, Before: before, Now: g.Table()}
	}
	g.endHold(was, wasHeld, verdict, c)
	result := Published
	if before != nil && before.Equal(c.Table) {
		result = Unchanged
		a.confirm(c, now)
	} else {
		g.publish(c, now, func() { a.end(c.Table, c.Read) })
	}
	g.servesAll(c.Snapshot)
	g.dropLanes(nil)
	return Outcome{Result: result, Before: before, Now: g.Table()}
}

// hold keeps a candidate back, and serves what can be served of its read. fresh means that the hold begins or has a new reason.
// The caller holds mu.
func (a *Attempt) hold(c Candidate, v guard.Verdict, fresh bool) {
	g := a.gate
	g.held.Store(&c) // first: the guard holds it and it can be accepted, whatever panics below
	settled := false
	defer func() {
		if !settled {
			g.holds(c, guard.WholeTable) // the served table stays
			g.cfg.Metrics.hold(guard.WholeTable)
		}
	}()
	counts := g.Table() != nil || g.baseline != nil // otherwise nothing is lost yet: the cluster may be new
	if counts && fresh {
		g.cfg.Metrics.holds.WithLabelValues(string(v.Reason)).Inc()
		g.decided(DecidedHeld, c.Table, v.Reason, guard.Acceptance{})
	}
	read := c.Read
	goesOn, half := g.goOn(c)
	read.Held, read.Backends = true, half == guard.HeldBackends
	if half != guard.WholeTable {
		read.Live, read.Candidate = true, c.Table
	}
	switch before := g.Table(); {
	case before == nil: // there is no served table to report on
	case goesOn.Table == nil:
		a.end(nil, read)
	case goesOn.Table == before:
		seen := *g.Served()
		seen.Read = c.Read
		g.served.Store(&seen)
		a.end(before, read)
	default:
		g.publish(goesOn, time.Now(), func() { a.end(goesOn.Table, read) })
	}
	if goesOn.Snapshot != nil {
		g.parts.intent, g.parts.backends = &goesOn.Snapshot.Intent, &goesOn.Snapshot.Backends
	}
	changed := g.holds(c, half)
	settled = true
	g.cfg.Metrics.hold(half)
	if counts && (fresh || changed) {
		g.log.Error(LogTableHeld, "reason", string(v.Reason), "detail", v.Detail, "half", string(half),
			"release_at", releaseAt(v), "count", c.Table.Len(), "hash", c.Table.Digest().String())
	}
}

// releaseAt is when time releases a held table, for the log.
func releaseAt(v guard.Verdict) slog.Value {
	if v.ReleaseAt.IsZero() {
		return slog.StringValue("never")
	}
	return slog.TimeValue(v.ReleaseAt)
}

// endHold drops the held candidate, if any, because the verdict passes the newest table. The caller holds mu.
func (g *Gate) endHold(was guard.Verdict, wasHeld bool, v guard.Verdict, c Candidate) {
	g.cfg.Metrics.hold("")
	g.held.Store(nil)
	switch {
	case v.Reason != "":
		g.log.Warn(LogTableReleased, "accepted", false, "reason", string(v.Reason), "detail", v.Detail, "since", v.Since)
		g.decided(DecidedReleased, c.Table, v.Reason, guard.Acceptance{})
	case wasHeld && g.Table() != nil:
		g.log.Info(LogHoldEnded, "reason", string(was.Reason))
	}
}

// confirm records that a read showed the served table. The caller holds mu.
func (a *Attempt) confirm(c Candidate, now time.Time) {
	g := a.gate
	was := g.served.Load()
	next := &Served{Candidate: c, Committed: was.Committed, Confirmed: now}
	if next.Table = was.Table; c.Table.Revision() > was.Table.Revision() {
		next.Table = was.Table.WithRevision(c.Table.Revision())
	}
	g.served.Store(next)
	a.end(next.Table, c.Read)
	g.note(now, false)
	if next.Table.Revision() != was.Table.Revision() {
		g.save(next, g.files[:min(1, len(g.files))]) // the file names the table after a restart
	}
}

// publish calls serve to serve a candidate, and writes it to the files. The caller holds mu.
func (g *Gate) publish(c Candidate, now time.Time, serve func()) {
	before := g.served.Load()
	next := &Served{Candidate: c, Committed: now, Confirmed: now}
	unnamed := *next
	unnamed.Names = nil
	served := false
	defer func() {
		if !served {
			g.served.Store(before) // the sink panicked
		}
	}()
	g.served.Store(&unnamed)
	serve()
	served = true
	if g.baseline = nil; before == nil {
		close(g.ready)
	}
	g.note(time.Now(), true)
	g.save(&unnamed, g.files)
	g.served.Store(next)
}

// Accept publishes the held table at once. The digest names the held table, or an earlier held table for the same intent. The
// errors are those of [guard.Guard.Accept].
func (g *Gate) Accept(a guard.Acceptance) (*table.Table, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	a.Digest = g.acceptable(a.Digest)
	verdict, _ := g.guard.Held()
	t, err := g.guard.Accept(a, now)
	if err != nil {
		return nil, err
	}
	g.keepHold()
	defer g.saveHold()
	c := *g.held.Swap(nil)
	g.cfg.Metrics.hold("")
	g.log.Warn(LogTableReleased, "accepted", true, "by", a.By, "why", a.Why, "count", t.Len(), "bytes", t.Bytes(),
		"hash", t.Digest().String())
	g.decided(DecidedAccepted, t, verdict.Reason, a)
	g.publish(c, now, func() { g.cfg.Sink.Publish(t) })
	g.servesAll(c.Snapshot)
	return t, nil
}

// Comparison returns a consistent view of the hold: held is the held table, or nil; beside is the table that it was judged
// against, which is the served table, or before the first one the table of a peer, or nil; and the state.
func (g *Gate) Comparison() (beside, held *table.Table, s guard.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s = g.State()
	if c := g.held.Load(); c != nil {
		held = c.Table
	}
	if beside = g.Table(); beside == nil {
		beside = g.baseline
	}
	return beside, held, s
}

// State returns the state of the guard, with the half that the hold keeps.
func (g *Gate) State() guard.State {
	s := g.guard.State()
	g.state.Lock()
	half, first := g.half, g.first
	g.state.Unlock()
	switch {
	case s.Held && half == "":
		return guard.State{Last: s.Last} // the hold is just beginning: its half is not yet known
	case s.Held:
		s.Half, s.FirstDigest = half, first.Digest()
	}
	return s
}
