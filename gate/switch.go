package gate

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// LogSwitchHeld says that the tables of another producer are not served yet, because the guard holds the first back.
const LogSwitchHeld = "suspicious table held back, the producer before is served"

// Offer is the last table of a producer whose Gate let it pass, and the read that showed it.
type Offer struct {
	Table *table.Table // nil before the first
	Read  table.Read
}

// SwitchConfig is what a Switch is made of. Sink and Top are required.
type SwitchConfig struct {
	Sink Sink
	// Top is the highest revision under which the sink has served its table.
	Top   func() uint64
	Guard guard.Config // of moves from one producer to another
	// Lag is how long a table of a lower revision than the served one is waited with: it may only be behind.
	Lag time.Duration
	// Files are kept up to date with what is served. They are written in the background.
	Files []FileConfig
	// Decided is told of each hold of a move, and how it was released: see Config.
	Decided func(Decision)
	Logger  *slog.Logger // nil means no log
}

// Switch joins several producers, each with a Gate, before one sink: it serves the tables of one of them at a time. The move
// to another producer is judged like any other change of the table, and never takes a client back to a lower revision.
// A Switch is not safe for concurrent use: its owner calls it from one goroutine.
type Switch struct {
	cfg   SwitchConfig
	log   *slog.Logger
	files []*file

	from  string       // the producer that is served; empty for nobody
	table *table.Table // as its producer made it; nil before the first
	// floor is the revision below which nothing is served: that of the table from the producer before. Zero if the
	// producer is past it.
	floor uint64
	last  uint64 // Newest of the last read of this producer

	pending *pending // nil unless a move is under way
}

// pending is a move to another producer that is under way.
type pending struct {
	since   time.Time
	guard   *guard.Guard
	waiting string
	offer   *table.Table // the last one
}

// Pending tells of a move to another producer that is under way.
type Pending struct {
	Since   time.Time // of the first table of the producer
	Waiting string    // why the move was not made at the last read
	Guard   guard.State
	Table   *table.Table // of the other producer, as it was last offered
}

// NewSwitch makes a Switch. The error names the limit of the guard that is wrong.
func NewSwitch(cfg SwitchConfig) (*Switch, error) {
	if _, err := guard.New(cfg.Guard); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Switch{cfg: cfg, log: cfg.Logger}
	for _, f := range cfg.Files {
		s.files = append(s.files, newFile(f, s.log, NewMetrics(nil, "switch")))
	}
	return s, nil
}

// From returns the producer that is served; empty for nobody.
func (s *Switch) From() string { return s.from }

// Table returns what is served, as its producer made it; nil before the first table.
func (s *Switch) Table() *table.Table { return s.table }

// Begin says that a producer, the one that is served or another one, asks its source.
func (s *Switch) Begin() (end func(*table.Table, table.Read)) { return s.cfg.Sink.Begin() }

// Restore serves a last-good table, marked stale. The next producer is measured against it.
func (s *Switch) Restore(from string, o Offer) {
	s.from, s.table, s.floor, s.last = from, o.Table, 0, 0
	s.cfg.Sink.Restore(o.Table, o.Read.At)
	s.save()
}

// Show says what the producer that is served has read. The table is nil if the one that is served stays. The end is that of
// the read.
func (s *Switch) Show(end func(*table.Table, table.Read), t *table.Table, r table.Read) {
	floor := s.floor
	if r.Newest >= s.floor || r.Newest < s.last {
		s.floor = 0 // it is past the producer before, or its source has gone back and means it
	}
	s.last = r.Newest
	r.Newest = max(r.Newest, s.floor)
	if s.floor > 0 {
		r.Oldest = r.Newest // the owner has decided: what the client has is not newer
	}
	if t != nil {
		changed := s.table == nil || !s.table.Equal(t)
		if s.table = t; changed {
			s.save()
		}
		if t.Revision() < floor {
			t = t.WithRevision(floor)
		}
	}
	end(t, r)
}

// Publish serves a table that somebody accepted, of the producer that is served.
func (s *Switch) Publish(t *table.Table) {
	s.table = t
	s.save()
	if t.Revision() < s.floor {
		t = t.WithRevision(s.floor)
	}
	s.cfg.Sink.Publish(t)
}

// Take moves to another producer with its offer, if nothing is against it, and reports whether it did. The owner calls it for
// each read of the producer that it wants to be served, so that the guard sees every one of them.
func (s *Switch) Take(from string, o Offer) bool {
	now := time.Now()
	if s.pending == nil {
		g, err := guard.New(s.cfg.Guard)
		if err != nil {
			s.log.Error("make guard", "error", err) // the same limits were fine for NewSwitch
			return false
		}
		s.pending = &pending{since: now, guard: g}
	}
	s.pending.offer = o.Table
	if was := s.table; was != nil && was.Digest() != o.Table.Digest() {
		if o.Table.Revision() < was.Revision() && now.Sub(s.pending.since) < s.cfg.Lag {
			s.pending.waiting = fmt.Sprintf("the table of revision %d may only be behind the served one of %d",
				o.Table.Revision(), was.Revision())
			return false
		}
		before, wasHeld := s.pending.guard.Held()
		verdict := s.pending.guard.Judge(was, o.Table, now)
		if !verdict.Publish {
			reason := "held back by the guard: " + verdict.Detail
			if !wasHeld || before.Reason != verdict.Reason {
				decide(s.cfg.Decided, DecidedHeld, o.Table, verdict.Reason, guard.Acceptance{})
			}
			if s.pending.waiting != reason {
				s.log.Error(LogSwitchHeld, "reason", string(verdict.Reason), "detail", verdict.Detail,
					"release_at", verdict.ReleaseAt, "hash", o.Table.Digest().String())
			}
			s.pending.waiting = reason
			return false
		}
		if verdict.Reason != "" {
			decide(s.cfg.Decided, DecidedReleased, o.Table, verdict.Reason, guard.Acceptance{})
		}
	}
	s.move(from, o)
	return true
}

// move serves the offer of another producer from now on.
func (s *Switch) move(from string, o Offer) {
	s.pending, s.from, s.last, s.floor = nil, from, 0, 0
	if s.table != nil {
		s.floor = s.cfg.Top()
	}
	s.Show(s.cfg.Sink.Begin(), o.Table, o.Read)
}

// Abandon forgets a move that is under way: another producer is wanted.
func (s *Switch) Abandon() { s.pending = nil }

// Accept makes a move that the guard holds up, to the producer with the offer. The errors are those of [guard.Guard.Accept].
func (s *Switch) Accept(a guard.Acceptance, from string, read table.Read) (*table.Table, error) {
	if s.pending == nil {
		return nil, guard.ErrNothingHeld
	}
	verdict, _ := s.pending.guard.Held()
	t, err := s.pending.guard.Accept(a, time.Now())
	if err == nil {
		decide(s.cfg.Decided, DecidedAccepted, t, verdict.Reason, a)
		s.move(from, Offer{t, read})
	}
	return t, err
}

// Pending tells of a move that is under way; nil if none is.
func (s *Switch) Pending() *Pending {
	if s.pending == nil {
		return nil
	}
	return &Pending{s.pending.since, s.pending.waiting, s.pending.guard.State(), s.pending.offer}
}

// save asks for the files to be written.
func (s *Switch) save() {
	for _, f := range s.files {
		f.save(&Served{Candidate: Candidate{Table: s.table}})
	}
}

// Tend tries again what could not be written.
func (s *Switch) Tend() {
	for _, f := range s.files {
		if s.table != nil && f.due(time.Now()) {
			f.save(&Served{Candidate: Candidate{Table: s.table}})
		}
	}
}

// Flush waits for writes that are under way, but not for ever.
func (s *Switch) Flush() {
	var writes []<-chan struct{}
	for _, f := range s.files {
		writes = append(writes, f.written())
	}
	waitFor(s.log, writes)
}

// Files returns what is known of the files, in the order of SwitchConfig.Files; nil for one without a path. It may be called
// by everybody.
func (s *Switch) Files() []*FileStatus {
	all := make([]*FileStatus, len(s.files))
	for i, f := range s.files {
		all[i] = f.status()
	}
	return all
}
