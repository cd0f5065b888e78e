// Package gate is the one place that decides which table is served. Producers (package poller, which compiles tables, and
// package dataplane, which fetches them) offer candidates; a [Gate] judges each with the rules of package guard, hands what
// passes to a [Sink], which is a cache, and keeps the last-good file.
//
// # An offer
//
// A producer says with [Gate.Begin] that it asks its source, and offers what it got with [Attempt.Offer]. An attempt that
// fails needs no further call. So the sink hears of a read when it begins and when it ends, in this order, and of nothing
// else but acceptances.
//
// The Gate publishes in this order:
//
//  1. memory: the sink serves the table;
//  2. disk: the last-good file is replaced. The Gate waits for the disk for five seconds at most, or not at all
//     ([FileConfig.Background]);
//  3. names: a client that asks a server names the table from now on.
//
// A process that dies before 2 has the old table and, when it is back, names the old table: the file has no names, they
// follow from its digest and its revision, so the two cannot disagree. A disk that fails delays nothing: the Gate tries the
// write again. If the sink or a compiler panics, what is served and named is as it was before the offer.
//
// # Holds
//
// While the guard holds a candidate back, the Gate keeps it beside the served table. Where a candidate tells its snapshot,
// a hold keeps the half that is to blame: the intent that was served goes on with the newest backends, or the newest
// intent with the last endpoints of the services that lost all of theirs (guarantee Live; docs/decisions/0009). The table
// that is served then carries the revision of the newest read, like any other. Which intent was served is not known after
// a restart: until a read is published, or shows the table of the last-good file, a hold keeps the whole table. Where only
// tables are known, a hold always keeps the whole table.
//
// Before the first table there is nothing to compare with, so the guard lets all but an empty table pass.
// [Gate.CompareWith] gives it the table of another replica. If the first table is held beside that, nothing is served.
//
// [Gate.Accept] serves what is held at once. It names a digest: that of the held table, or of one that was held before it
// for the same intent, since endpoints change while somebody reads a status.
//
// # Several producers
//
// A data plane computes tables and fetches them, and its mode says which it serves. Each of its producers has a Gate of its
// own, and a [Switch] joins them before the one cache: it judges a table of another producer like any other table.
//
// A Gate has no goroutine of its own but the one that writes a file while there is something to write. All methods are safe
// for concurrent use.
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

// Sink serves tables. Package etagcache has one.
type Sink interface {
	// Restore serves a table that no read has shown yet. It is stale. The time is that of the last read of its source.
	Restore(t *table.Table, read time.Time)
	// Begin says that a read of the source begins. The function that it returns says how the read ended, and is called once
	// at most: t is what the source has, or what was made of it, and is served from now on; nil if the table that is served
	// stays, because a suspicious one is held back.
	Begin() (end func(t *table.Table, r table.Read))
	// Publish serves a table that somebody accepted.
	Publish(t *table.Table)
}

// Config is what a Gate is made of. Only Sink is required.
type Config struct {
	Sink  Sink
	Guard guard.Config
	// Halves makes tables of halves of snapshots. nil means that a hold keeps the whole table.
	Halves Halves
	// Files are kept up to date with the served table; the first is the last-good file, which Boot loads.
	Files []FileConfig
	// Decided is told of each hold, and how it was released. It must not block. nil means that nobody needs to know.
	Decided func(Decision)

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none
}

// Gate decides which table is served. Make one with [New].
type Gate struct {
	cfg   Config
	log   *slog.Logger
	guard *guard.Guard
	files []*file
	ready chan struct{} // closed when a table is served

	// mu is held while a table is judged and published, by whoever changes what follows.
	mu     sync.Mutex
	served atomic.Pointer[Served]    // nil before the first table
	held   atomic.Pointer[Candidate] // nil if nothing is held
	parts  parts                     // guarded by mu
	// baseline is what the first table is compared with; nil if there is nothing, or a table is served. Guarded by mu.
	baseline *table.Table

	state sync.Mutex   // guards what follows
	half  guard.Half   // that is held
	first *table.Table // of the held intent; nil if half is empty

	initialized, updated time.Time
}

// New checks the configuration. It starts nothing and does no I/O. The error names the limit of the guard that is wrong.
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

// Restore serves a table that no read of this process has shown, as stale. It does nothing if a
// table is served already. It is to be called before the first offer.
func (g *Gate) Restore(c Candidate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restore(c)
}

// restore is Restore. The caller holds mu.
func (g *Gate) restore(c Candidate) {
	if g.served.Load() != nil {
		return
	}
	g.cfg.Sink.Restore(c.Table, c.Read.At)
	g.served.Store(&Served{Candidate: c, Committed: time.Now(), Stale: true})
	close(g.ready)
}

// CompareWith has the first table judged beside t, which another replica serves, as if t was served here. It does nothing if
// a table is served.
func (g *Gate) CompareWith(t *table.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.served.Load() == nil {
		g.baseline = t
	}
}

// Served returns what is served, nil before the first table.
func (g *Gate) Served() *Served { return g.served.Load() }

// Table returns the table that is served, nil before the first.
func (g *Gate) Table() *table.Table {
	if s := g.served.Load(); s != nil {
		return s.Table
	}
	return nil
}

// Held returns what is held back, nil if nothing is.
func (g *Gate) Held() *Candidate { return g.held.Load() }

// Ready returns a channel that is closed when there is a table.
func (g *Gate) Ready() <-chan struct{} { return g.ready }

// View returns what is served and what is held. It waits while a table is being published.
func (g *Gate) View() View {
	g.mu.Lock() // not between a table and its names
	defer g.mu.Unlock()
	return View{g.served.Load(), g.held.Load()}
}

// Times are when the Gate first served a table that a read had shown, and when it last began to serve another one. Zero: never.
func (g *Gate) Times() (initialized, updated time.Time) {
	g.state.Lock()
	defer g.state.Unlock()
	return g.initialized, g.updated
}

// note notes that a read has shown what is served, and whether that is another table than before.
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

// Attempt is one attempt to get a table. It is for one goroutine.
type Attempt struct {
	gate *Gate
	end  func(*table.Table, table.Read)
}

// Begin says that a producer asks its source.
func (g *Gate) Begin() *Attempt { return &Attempt{g, g.cfg.Sink.Begin()} }

// Offer hands in what the source showed. It is called once at most.
func (a *Attempt) Offer(c Candidate) Outcome {
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	return a.offer(c)
}

// OfferSeen is Offer for a producer that asked for what differs from what it had seen. If that is not what the Gate has any
// more, the result is [Overtaken] and nothing happens.
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

// hold keeps a candidate back, and serves what can be served of its read. Fresh says that the hold begins, or has another
// reason than before. The caller holds mu.
func (a *Attempt) hold(c Candidate, v guard.Verdict, fresh bool) {
	g := a.gate
	g.held.Store(&c) // first: it is what the guard holds, and can be accepted, whatever panics from here on
	settled := false
	defer func() {
		if !settled {
			g.holds(c, guard.WholeTable) // the table that is served stays
			g.cfg.Metrics.hold(guard.WholeTable)
		}
	}()
	counts := g.Table() != nil || g.baseline != nil // else nothing is lost yet: the cluster may just be new
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
	case before == nil: // there is nothing to say anything about
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
			"release_at", v.ReleaseAt, "count", c.Table.Len(), "hash", c.Table.Digest().String())
	}
}

// endHold forgets what is held, if anything is, because the verdict lets the newest table pass. The caller holds mu.
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

// confirm notes that a read showed the served table. The caller holds mu.
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
		g.save(next, g.files[:min(1, len(g.files))]) // the file is what names the table after a restart
	}
}

// publish serves a candidate with serve, and writes it to the files. The caller holds mu.
func (g *Gate) publish(c Candidate, now time.Time, serve func()) {
	before := g.served.Load()
	next := &Served{Candidate: c, Committed: now, Confirmed: now}
	unnamed := *next
	unnamed.Names = nil
	served := false
	defer func() {
		if !served {
			g.served.Store(before) // the sink panics
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

// Accept serves the held table at once. The digest is that of the held table, or of one that was held before it for the same
// intent. The errors are those of [guard.Guard.Accept].
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
	c := *g.held.Swap(nil)
	g.cfg.Metrics.hold("")
	g.log.Warn(LogTableReleased, "accepted", true, "by", a.By, "why", a.Why, "count", t.Len(), "bytes", t.Bytes(),
		"hash", t.Digest().String())
	g.decided(DecidedAccepted, t, verdict.Reason, a)
	g.publish(c, now, func() { g.cfg.Sink.Publish(t) })
	g.servesAll(c.Snapshot)
	return t, nil
}

// Comparison returns what is held at one moment: the table, nil if none is held; the one that it was judged beside, which
// is the table that is served, or before the first that of a peer, nil if there is neither; and the state.
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

// State returns what is held, with the half that the hold keeps.
func (g *Gate) State() guard.State {
	s := g.guard.State()
	g.state.Lock()
	half, first := g.half, g.first
	g.state.Unlock()
	switch {
	case s.Held && half == "":
		return guard.State{Last: s.Last} // the hold begins: what it keeps is being found out
	case s.Held:
		s.Half, s.FirstDigest = half, first.Digest()
	}
	return s
}
