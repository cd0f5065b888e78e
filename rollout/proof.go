package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

const (
	// ProvenAfter is how long a proxy must have lived since it got a table until the table is proven.
	ProvenAfter = 30 * time.Second
	// SuspectWithin is the time within which a proxy must have died suspectDeaths times of tables that are not proven.
	SuspectWithin = 2 * time.Minute
	suspectDeaths = 2
	// MaxSuspects is how many suspects are remembered. The oldest one is forgotten first.
	MaxSuspects = 16

	// sameStart is by how much two times of the start of one process may differ: they are computed from the clock of the machine, which
	// is adjusted.
	sameStart = 2 * time.Second
	// startToRequest is how long after its start a proxy may ask for its first table.
	startToRequest = 10 * time.Second
)

// Suspect is a table of which a proxy probably died.
type Suspect struct {
	Digest table.Digest `json:"digest"`
	// Proven is the table that the proxy gets instead; zero if none was proven yet.
	Proven table.Digest `json:"proven,omitzero"`
	// At is when the proxy last died of it. Deaths is how often it died within [SuspectWithin], of this table and of unproven ones before it.
	At     time.Time `json:"at"`
	Deaths int       `json:"deaths"`
	// Evidence is what showed the last death, for people.
	Evidence string `json:"evidence"`
}

// ProofState is what a [Proof] must know after a restart of its process. Its zero value is that of a proxy that was never seen.
type ProofState struct {
	// Proven is the last proven table; zero if there is none.
	Proven table.Digest `json:"proven,omitzero"`
	// Has is the table that the proxy has; zero if unknown.
	Has table.Digest `json:"has,omitzero"`
	// Started is when the process of the proxy started, according to its metrics; zero if unknown.
	Started time.Time `json:"started,omitzero"`
	// Deaths are the last deaths of unproven tables.
	Deaths   []time.Time `json:"deaths,omitempty"`
	Suspects []Suspect   `json:"suspects,omitempty"` // the oldest first
}

// Proof decides which tables are proven, because the proxy beside a data plane has lived with them, and which ones are suspect, because
// it died. It is not safe for concurrent use. Times come in as arguments, and never decrease.
//
// A table goes on trial when the proxy gets it. It is proven once the proxy is alive [ProvenAfter] later, has not been restarted, and has
// not refused more routes. Later tables do not end a trial, because in a large cluster no table stays for that long; but the proxy must
// have lived through them, too. The next trial is of the table that the proxy has then. A table that has made the proxy refuse routes is
// not proven, and the table after it goes on trial.
//
// A restart is a death if the proxy had an unproven table. The second one within [SuspectWithin] makes the table that it had suspect.
// Deaths count until a table is proven, also if they were of different tables: whoever replaces a suspect by a table with the same flaw
// learns that from one death.
//
// A proxy that asks for its table shows itself by its requests: the first one of a process names no table, the second one names the table
// that it was sent, and only then it applies that. Whoever never names a table is no proxy. A proxy that reads a file shows itself by its
// metrics, or not at all; then time alone proves a table.
type Proof struct {
	state   ProofState
	changes int

	file    bool         // the proxy may read a file
	asks    bool         // it has asked for a table
	watched bool         // its metrics were read
	served  table.Digest // what it can get now

	named    bool         // the process of the proxy has named a table
	sent     table.Digest // the table that it was sent before that; zero for none
	sentAt   time.Time
	hasSince time.Time    // of state.Has, in this process; zero if it is from an earlier one
	trial    table.Digest // zero if no table is on trial
	from     time.Time    // when it went on trial
	refused  uint64       // routes that the proxy has refused, as last read
	base     uint64       // the same before the trial; the highest number if it was never read

	firstRequest time.Time // of the process of the proxy; zero if not seen
	diedBy       time.Time // when metrics showed a death whose first request was not seen yet; zero if none
	down         bool      // no process answered when its metrics were last asked for
}

// NewProof returns a Proof that goes on from a state. file means that the proxy may read a file instead of asking.
func NewProof(s ProofState, file bool) *Proof {
	s.Suspects = slices.Clone(s.Suspects[max(0, len(s.Suspects)-MaxSuspects):])
	s.Deaths = slices.Clone(s.Deaths[max(0, len(s.Deaths)-suspectDeaths):])
	return &Proof{state: s, file: file}
}

// State returns what to pass to NewProof after a restart. Nothing in it changes later.
func (p *Proof) State() ProofState { return p.state }

// Changes returns how often the state has changed.
func (p *Proof) Changes() int { return p.changes }

// Proven returns the last proven table; zero if there is none.
func (p *Proof) Proven() table.Digest { return p.state.Proven }

// Offered returns the table that the proxy can get now; zero before the first.
func (p *Proof) Offered() table.Digest { return p.served }

// Trial returns the table on trial, zero if there is none, and since when.
func (p *Proof) Trial() (table.Digest, time.Time) { return p.trial, p.from }

// Needs reports whether a table may be named by a later result, so that it must not be forgotten.
func (p *Proof) Needs(d table.Digest) bool {
	return d == p.state.Proven || d == p.state.Has || d == p.trial || d == p.served
}

// Suspect returns the entry of a suspect table, or nil. It is read only.
func (p *Proof) Suspect(d table.Digest) *Suspect {
	if i := slices.IndexFunc(p.state.Suspects, func(s Suspect) bool { return s.Digest == d }); i >= 0 {
		return &p.state.Suspects[i]
	}
	return nil
}

// Restored records that a table comes from a last-known-good file. It is proven, unless the state says that nothing was proven when the
// file was written, or that it is suspect. known means that there is a state.
func (p *Proof) Restored(d table.Digest, known bool) {
	if known && p.state.Proven.IsZero() || p.Suspect(d) != nil || d == p.state.Proven {
		return
	}
	p.state.Proven = d
	p.changes++
}

// Served records which table the proxy can get from now on. One that reads a file gets it at once.
func (p *Proof) Served(now time.Time, d table.Digest) {
	p.served = d
	if p.file && !p.asks {
		p.has(now, d)
	}
}

// Got records that the proxy was sent a table, or has named it.
func (p *Proof) Got(now time.Time, d table.Digest) {
	if p.asks = true; p.named {
		p.has(now, d)
	} else {
		p.sent, p.sentAt = d, now
	}
}

// has records that the proxy has a table.
func (p *Proof) has(now time.Time, d table.Digest) {
	if d == p.state.Has && !p.hasSince.IsZero() {
		return
	}
	p.hasSince = now
	if p.state.Has != d {
		p.state.Has = d
		p.changes++
	}
	if d == p.state.Proven {
		p.trial = table.Digest{}
		return
	}
	if p.trial.IsZero() || p.refused > p.base {
		p.begin(d, now)
	}
}

// begin puts a table on trial.
func (p *Proof) begin(d table.Digest, from time.Time) {
	p.trial, p.from, p.base = d, from, p.refused
	if !p.watched {
		p.base = math.MaxUint64
	}
}

// Asked records that the proxy has named its table and asked for a newer one: it is alive.
func (p *Proof) Asked(now time.Time) {
	if p.asks = true; !p.named && !p.sent.IsZero() {
		p.has(p.sentAt, p.sent)
	}
	p.named = true
	p.alive(now)
}

// Started records a request of the proxy that names no table, which only the first one of its process is.
func (p *Proof) Started(now time.Time) {
	if p.file && !p.asks { // it does not read the file, so it does not have what is in it
		p.state.Has, p.hasSince, p.trial = table.Digest{}, time.Time{}, table.Digest{}
	}
	p.asks, p.named, p.sent, p.firstRequest = true, false, table.Digest{}, now
	seen := !p.diedBy.IsZero() && now.Sub(p.diedBy) < startToRequest
	if p.diedBy = (time.Time{}); seen {
		return
	}
	p.restarted(now, "it asked for its first table again")
}

// Read records what the metrics of the proxy show: when its process started, zero if they do not say, and how many routes it has refused.
func (p *Proof) Read(now, started time.Time, refused uint64) {
	known := p.down // as a death
	p.watched, p.refused, p.down = true, refused, false
	if before := p.state.Started; !started.IsZero() {
		p.state.Started = started
		if started.Sub(before).Abs() > sameStart {
			p.changes++
			if !known && !before.IsZero() && p.firstRequest.Before(started.Add(-sameStart)) {
				p.diedBy = now
				p.restarted(now, "its process started at "+started.UTC().Format(time.RFC3339))
				return
			}
		}
	}
	if !p.asks {
		p.alive(now)
	}
}

// Down records that nothing listens where the metrics of the proxy were read before. Of a proxy that reads a file, which ends as soon as it
// has read that, nothing else can be seen.
func (p *Proof) Down(now time.Time) {
	if p.watched && p.file && !p.asks {
		p.down = true
		p.restarted(now, "nothing listens at the address of its metrics")
	}
}

// Tick records that time has passed. It matters only for a proxy that shows nothing else.
func (p *Proof) Tick(now time.Time) {
	if p.file && !p.asks && !p.watched {
		p.alive(now)
	}
}

// alive records that the proxy lives.
func (p *Proof) alive(now time.Time) {
	if p.trial.IsZero() || now.Sub(p.from) < ProvenAfter {
		return
	}
	if p.refused <= p.base {
		p.state.Proven, p.state.Deaths = p.trial, nil
		p.forget(p.trial) // without a proven table a suspect is still served, and may turn out to be harmless
		p.changes++
	}
	switch has := p.state.Has; has {
	case p.state.Proven:
		p.trial = table.Digest{}
	case p.trial: // it has made the proxy refuse routes: the next table goes on trial
	default:
		p.begin(has, p.hasSince)
	}
}

// restarted records a restart of the proxy.
func (p *Proof) restarted(now time.Time, evidence string) {
	had := p.state.Has
	p.trial, p.hasSince = table.Digest{}, time.Time{}
	if p.file && !p.asks {
		defer func() { p.has(now, p.served) }() // it reads the file again
	}
	if had.IsZero() {
		return
	}
	p.state.Has = table.Digest{}
	p.changes++
	if had == p.state.Proven {
		return // the reason is another one
	}
	deaths := slices.DeleteFunc(slices.Clone(p.state.Deaths), func(at time.Time) bool { return now.Sub(at) > SuspectWithin })
	deaths = append(deaths, now)
	p.state.Deaths = deaths[max(0, len(deaths)-suspectDeaths):]
	if len(deaths) < suspectDeaths {
		return
	}
	s := Suspect{Digest: had, Proven: p.state.Proven, At: now, Deaths: len(deaths)}
	if old := p.Suspect(had); old != nil {
		s.Deaths = old.Deaths + 1
	}
	s.Evidence = fmt.Sprintf("the proxy died %d times: %s", s.Deaths, evidence)
	p.forget(had)
	p.state.Suspects = append(p.state.Suspects[max(0, len(p.state.Suspects)+1-MaxSuspects):], s)
}

// forget removes a table from the suspects. Callers of State keep the list that they got.
func (p *Proof) forget(d table.Digest) {
	p.state.Suspects = slices.DeleteFunc(slices.Clone(p.state.Suspects), func(s Suspect) bool { return s.Digest == d })
}
