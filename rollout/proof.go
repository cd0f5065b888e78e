package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

const (
	// ProvenAfter is how long a proxy must have run with a table until the table is proven.
	ProvenAfter = 30 * time.Second
	// SuspectWithin limits how long after an unproven table a restart of the proxy counts against it.
	SuspectWithin = 2 * time.Minute
	// suspectRestarts is how many such restarts, within SuspectWithin, start a fallback.
	suspectRestarts = 2
	// excusedFor is how long restarts are ignored after the proxy has repeatedly been restarted with the proven table.
	excusedFor = 10 * time.Minute
	// unreadableFor is for how long the metrics of a proxy can be unreadable before time alone proves tables.
	unreadableFor = 10 * time.Minute

	// clockError is by how much the start time of one process may vary: it derives from the boot time in seconds.
	clockError = 1500 * time.Millisecond
	// resolution is that of times: a process is new if it started after the last reading of the previous one, as far as this tells.
	resolution = 20 * time.Millisecond
	// fetchedWithin is how long a proxy may take to fetch an offered table.
	fetchedWithin = 10 * time.Second
)

// Suspect is why a data plane serves the proven table instead of the newest one.
type Suspect struct {
	Digest   table.Digest `json:"digest"`   // the last table with which the proxy was restarted
	Deaths   int          `json:"deaths"`   // restarts with unproven tables since the last proven one
	At       time.Time    `json:"at"`       // start of the last fallback
	Retry    time.Time    `json:"retry"`    // when the newest table is tried again
	Retries  int          `json:"retries"`  // tries that failed
	Evidence string       `json:"evidence"` // human-readable
}

// ProofState is what a [Proof] must know after a restart of its process. The zero value belongs to a proxy that was never seen.
type ProofState struct {
	Proven    table.Digest `json:"proven,omitzero"`     // the last proven table; zero if there is none
	Offered   table.Digest `json:"offered,omitzero"`    // the table that the proxy can get
	OfferedAt time.Time    `json:"offered_at,omitzero"` // since when
	// Since is for how long the offered tables have all been the proven one, or all unproven.
	Since    time.Time   `json:"since,omitzero"`
	Started  time.Time   `json:"started,omitzero"`   // start of the proxy's process; zero if unknown
	Restarts []time.Time `json:"restarts,omitempty"` // that count against unproven tables
	Suspect  *Suspect    `json:"suspect,omitempty"`  // nil unless new tables probably crash the proxy
	// Cleared is when a restart with the proven table last ended a fallback; zero if that was before the last proof. If it
	// happens twice within [excusedFor], restarts count against no table until ExcusedUntil.
	Cleared      time.Time `json:"cleared,omitzero"`
	ExcusedUntil time.Time `json:"excused_until,omitzero"`
}

// Proof decides which tables are proven, and when a data plane serves the proven table because newer ones crash its proxy. It is
// not safe for concurrent use. Times are arguments and must not decrease.
//
// The only evidence is in the metrics of the proxy: when its process started, when it last applied a table, and how many routes
// it has rejected. A table is proven once the proxy has run for [ProvenAfter] since it applied that table or a later one, without
// a restart and without rejecting more routes. Later tables do not restart the wait: in a large cluster no table stays for that
// long. Without metrics, time alone proves a table.
//
// Two restarts within [SuspectWithin] of unproven tables start a fallback to the proven table. The newest one is tried after 1,
// 2, 4, 8 minutes, then every 10; one restart continues the fallback, and a proof ends it. A restart with the proven table shows
// another cause, and ends the fallback, too. If that repeats, restarts do not count for ten minutes.
type Proof struct {
	state   ProofState
	changes int

	seen     time.Time    // when the metrics of the process of state.Started were last read; zero if not in this process
	read     time.Time    // when any metrics were last read; at first, the start of this process
	watched  bool         // the metrics of the proxy have been readable
	rejected uint64       // routes, as last read
	trial    table.Digest // the table to prove next; zero if the proven one is offered
	from     time.Time    // since when the trial table has been offered
	ran      time.Time    // when the proxy was first seen with it; zero if not yet
	base     uint64       // rejected before the trial; the highest number if unknown
}

// NewProof returns a Proof that continues from a state.
func NewProof(now time.Time, s ProofState) *Proof {
	s.Restarts = slices.Clone(s.Restarts)
	p := &Proof{state: s, read: now, watched: !s.Started.IsZero()}
	p.try()
	return p
}

// State returns what to pass to NewProof after a restart. Nothing in it changes later.
func (p *Proof) State() ProofState { return p.state }

// Changes returns how often the state has changed.
func (p *Proof) Changes() int { return p.changes }

// Trial returns the table that is proven next, zero if there is none, and since when the proxy has run with it.
func (p *Proof) Trial() (d table.Digest, ran time.Time) { return p.trial, p.ran }

// FallenBack reports whether the proven table must be served instead of any other one.
func (p *Proof) FallenBack(now time.Time) bool {
	return p.state.Suspect != nil && now.Before(p.state.Suspect.Retry)
}

// Restored records that a table comes from a last-known-good file. It is proven, unless according to the state nothing was proven
// when the file was written, or the table is suspect. known means that a state exists.
func (p *Proof) Restored(d table.Digest, known bool) {
	suspect := p.state.Suspect != nil && p.state.Suspect.Digest == d
	if known && p.state.Proven.IsZero() || suspect || d == p.state.Proven {
		return
	}
	p.state.Proven = d
	p.changes++
	p.try()
}

// Offer records which table the proxy can get from now on.
func (p *Proof) Offer(now time.Time, d table.Digest) {
	s := &p.state
	if d == s.Offered {
		return
	}
	if s.Offered.IsZero() || (d == s.Proven) != (s.Offered == s.Proven) {
		s.Since = now
	}
	s.Offered, s.OfferedAt = d, now
	p.changes++
	p.try()
}

// try starts the trial of the offered table, unless another table is on trial and may still be proven.
func (p *Proof) try() {
	switch s := &p.state; {
	case s.Offered == s.Proven:
		p.trial = table.Digest{}
	case p.trial.IsZero() || p.rejected > p.base:
		p.trial, p.from, p.ran, p.base = s.Offered, s.OfferedAt, time.Time{}, p.rejected
		if p.seen.IsZero() {
			p.base = math.MaxUint64
		}
	}
}

// Read records what the metrics of the proxy show: when its process started, when it last applied a table, both zero if unknown,
// and how many routes it has rejected. It reports whether the proxy was restarted with an unproven table.
func (p *Proof) Read(now, started, applied time.Time, rejected uint64) (died bool) {
	before, seen := p.state.Started, p.seen
	p.read, p.seen, p.watched, p.rejected = now, now, true, rejected
	later := started.Sub(before)
	switch other := later.Abs() > clockError || later > resolution && !seen.IsZero() && started.After(seen.Add(-resolution)); {
	case started.IsZero() || !before.IsZero() && !other:
	case before.IsZero():
		p.state.Started = started
		p.changes++
	default:
		p.state.Started = started
		p.changes++
		died = p.restarted(now, before, seen)
		if !p.trial.IsZero() {
			p.trial, p.from, p.ran = p.state.Offered, p.state.OfferedAt, time.Time{}
		}
	}
	// The proxy's time of applying a table is in whole seconds.
	if p.ran.IsZero() && !applied.IsZero() && !applied.Before(p.from.Truncate(time.Second)) {
		p.ran = now
	}
	if !p.ran.IsZero() && now.Sub(p.ran) >= ProvenAfter {
		p.prove(now)
	}
	return died
}

// Tick records that time has passed.
func (p *Proof) Tick(now time.Time) {
	p.watched = p.watched && now.Sub(p.read) < unreadableFor
	if !p.watched && min(now.Sub(p.from), now.Sub(p.read)) >= ProvenAfter {
		p.prove(now)
	}
}

// prove ends the trial. A table with which the proxy has rejected more routes is not proven; the trial of the next table begins.
func (p *Proof) prove(now time.Time) {
	s := &p.state
	switch {
	case p.trial.IsZero():
		return
	case p.rejected > p.base:
		if p.trial != s.Offered {
			p.try()
		}
		return
	}
	s.Proven, s.Restarts, s.Suspect, s.Cleared, s.ExcusedUntil = p.trial, nil, nil, time.Time{}, time.Time{}
	if s.Since = s.OfferedAt; s.Offered == s.Proven {
		s.Since = now
	}
	p.changes++
	p.trial = table.Digest{}
	p.try()
}

// restarted records a restart of the proxy, last seen alive at seen, and reports whether it counts against an unproven table.
func (p *Proof) restarted(now, before, seen time.Time) (died bool) {
	s := &p.state
	if s.Offered == s.Proven {
		had := before.Sub(s.Since) > clockError || seen.Sub(s.Since) > fetchedWithin // it may have fetched another table before
		if had && s.Suspect != nil {
			if now.Sub(s.Cleared) < excusedFor {
				s.ExcusedUntil = now.Add(excusedFor)
			}
			s.Suspect, s.Cleared = nil, now
		}
		if had {
			s.Restarts = nil
		}
		return false
	}
	started := s.Started
	if started.Add(clockError).Before(s.Since) || started.Sub(s.OfferedAt) > SuspectWithin {
		return false // it ended before it could get an unproven table, or long after
	}
	if now.Before(s.ExcusedUntil) {
		return true
	}
	restarts := slices.DeleteFunc(slices.Clone(s.Restarts), func(at time.Time) bool { return started.Sub(at) > SuspectWithin })
	s.Restarts = append(restarts, started)
	needed, next := suspectRestarts, Suspect{}
	if s.Suspect != nil {
		needed, next = 1, *s.Suspect
		next.Retries++
	}
	if len(s.Restarts) < needed || s.Proven.IsZero() {
		s.Restarts = s.Restarts[max(0, len(s.Restarts)-suspectRestarts):]
		return true
	}
	delays := [...]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute}
	next.Digest, next.At, next.Deaths = s.Offered, now, next.Deaths+len(s.Restarts)
	next.Retry = now.Add(delays[min(next.Retries, len(delays)-1)])
	next.Evidence = fmt.Sprintf("the proxy was restarted %d times with tables that are not proven, the last time at %s",
		next.Deaths, started.UTC().Format(time.RFC3339))
	s.Suspect, s.Restarts = &next, nil
	return true
}
