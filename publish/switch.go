package publish

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// Offer is the last table of a producer that its Publisher has passed, and the read that showed it.
type Offer struct {
	Table *table.Table // nil before the first table
	Read  table.Read
}

// SwitchConfig configures a Switch. Sink and Top are required.
type SwitchConfig struct {
	Sink Sink
	// Top returns the highest revision under which the sink has served its table.
	Top   func() uint64
	Guard guard.Config // for moves from one producer to another
	// Lag is how long to wait before accepting a table with a lower revision than the served one: its producer may only lag.
	Lag time.Duration
	// File is kept up to date with the served table.
	File FileConfig
	// Decided is told about each hold of a move and its release: see Config.
	Decided func(api.Decision)
	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // counts writes of the file; nil means none
}

// Switch connects several producers, each with a Publisher, to one sink. It judges the move to another producer like any
// other change, and never moves a client to a lower revision. It is not safe for concurrent use.
type Switch struct {
	cfg  SwitchConfig
	log  *slog.Logger
	file *file

	from  string       // the served producer; empty for none
	table *table.Table // as its producer made it; nil before the first table
	// floor is the lowest revision that may be served, of the previous producer's table; zero once the producer is past it.
	floor uint64
	last  uint64 // Newest of this producer's last read

	pending *Pending // the move in progress, without Guard; nil if there is none
	holder  holder   // of that move
	held    standing // likewise
}

// Pending reports a move to another producer that is in progress.
type Pending struct {
	Since   time.Time // time of the producer's first table
	Waiting string    // why the move was not made at the last read
	Guard   Holding
	Table   *table.Table // of the other producer, as last offered
}

// NewSwitch returns a Switch. The error names the invalid limit of the guard.
func NewSwitch(cfg SwitchConfig) (*Switch, error) {
	if _, err := newHolder(cfg.Guard); err != nil {
		return nil, err
	}
	if cfg.Decided == nil {
		cfg.Decided = func(api.Decision) {}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil, "switch")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Switch{cfg: cfg, log: cfg.Logger, file: newFile(cfg.File, cfg.Logger, cfg.Metrics)}, nil
}

// From returns the served producer; empty for none.
func (s *Switch) From() string { return s.from }

// Table returns the served table, as its producer made it; nil before the first one.
func (s *Switch) Table() *table.Table { return s.table }

// Restore serves a last-known-good table, marked stale. The next producer is compared with it.
func (s *Switch) Restore(from string, o Offer) {
	s.from, s.table, s.floor, s.last = from, o.Table, 0, 0
	s.cfg.Sink.Restore(o.Table, o.Read.At)
	s.file.save(Candidate{Table: s.table})
}

// Show reports a read of the served producer. t is nil if the served table stays. end is what Begin returned for the read.
func (s *Switch) Show(end func(*table.Table, table.Read), t *table.Table, r table.Read) {
	floor := s.floor
	if r.Newest >= s.floor || r.Newest < s.last {
		s.floor = 0 // the producer is past the previous one, or its source really went back in time
	}
	s.last = r.Newest
	r.Newest = max(r.Newest, s.floor)
	if s.floor > 0 {
		r.Oldest = r.Newest // the owner has decided that the client's table is not newer
	}
	if t != nil {
		changed := s.table == nil || !s.table.Equal(t)
		if s.table = t; changed {
			s.file.save(Candidate{Table: s.table})
		}
		if t.Revision() < floor {
			t = t.WithRevision(floor)
		}
	}
	end(t, r)
}

// Publish serves an accepted table of the served producer.
func (s *Switch) Publish(t *table.Table) {
	s.table = t
	s.file.save(Candidate{Table: s.table})
	if t.Revision() < s.floor {
		t = t.WithRevision(s.floor)
	}
	s.cfg.Sink.Publish(t)
}

// Take moves to another producer with its offer if nothing speaks against it, and reports whether it did. Call it for each of
// its reads.
func (s *Switch) Take(from string, o Offer) bool {
	now := time.Now()
	if s.pending == nil {
		s.pending = &Pending{Since: now}
		s.holder, _ = newHolder(s.cfg.Guard) // NewSwitch accepted the limits
		s.held = standing{}
	}
	s.pending.Table = o.Table
	if was := s.table; was != nil && was.Digest() != o.Table.Digest() {
		if o.Table.Revision() < was.Revision() && now.Sub(s.pending.Since) < s.cfg.Lag {
			s.pending.Waiting = fmt.Sprintf("the table of revision %d may only lag behind the served one of %d",
				o.Table.Revision(), was.Revision())
			return false
		}
		if s.holds(o.Table, now) {
			return false
		}
	}
	s.move(from, o)
	return true
}

// holds reports whether a move to a table has to wait because the table is suspicious beside the served one.
func (s *Switch) holds(t *table.Table, now time.Time) bool {
	held, fresh, due := s.holder.holdTable(s.held.list, s.holder.judge(s.table, t, s.held.list, false, now), now)
	if len(due) > 0 {
		s.cfg.Decided(decisionTo(due, t, nil))
	}
	if len(held) == 0 {
		return false
	}
	s.held = standing{list: held, newest: &Candidate{Table: t}}
	s.pending.Waiting = "held back by the guard: " + held.foremost().Detail
	for _, k := range fresh {
		s.cfg.Decided(decisionOf(api.DecidedHeld, t, keptList{k}))
		s.log.Error("suspicious table held back, the previous producer is still served",
			"reason", string(k.Reason), "detail", k.Detail, "release_at", releaseAt(k.Until), "hash", t.Digest().String())
	}
	return true
}

// move serves the offer of another producer from now on.
func (s *Switch) move(from string, o Offer) {
	s.Abandon()
	s.from, s.last, s.floor = from, 0, 0
	if s.table != nil {
		s.floor = s.cfg.Top()
	}
	s.Show(s.cfg.Sink.Begin(), o.Table, o.Read)
}

// Abandon drops a move in progress, because another producer is wanted.
func (s *Switch) Abandon() { s.pending, s.holder, s.held = nil, holder{}, standing{} }

// Accept makes a move that the guard holds, to the producer with the offer. It returns the errors of [Publisher.Accept].
func (s *Switch) Accept(a Acceptance, from string, read table.Read) (*table.Table, error) {
	if s.pending == nil {
		return nil, ErrNothingHeld
	}
	if err := s.held.accepts(a); err != nil {
		return nil, err
	}
	t := s.held.newest.Table
	s.cfg.Decided(decisionTo(s.held.list, t, &a))
	s.move(from, Offer{t, read})
	return t, nil
}

// Pending returns the move in progress, or nil.
func (s *Switch) Pending() *Pending {
	if s.pending == nil {
		return nil
	}
	p := *s.pending
	p.Guard = s.held.state()
	return &p
}

// Tend retries failed writes.
func (s *Switch) Tend() { s.file.tend(s.table, time.Time{}) }

// Flush waits a limited time for writes in progress.
func (s *Switch) Flush() { s.file.wait() }

// File returns the state of the file; nil if there is none. It is safe for concurrent use.
func (s *Switch) File() *api.File { return s.file.status() }
