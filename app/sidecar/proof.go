package sidecar

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// Log messages about proven and suspect tables.
const (
	LogFallenBack    = "new tables keep crashing the proxy, serving the proven one"
	LogRetry         = "trying the newest table again after a crash of the proxy"
	LogExcused       = "the proxy was restarted with the proven table, too: serving the newest one"
	LogProofUnusable = "proof.json is not usable, set aside: starting without the restarts of the proxy"
)

const (
	// proofFile is the name of the file beside the last-known-good one with the state of the proof.
	proofFile = "proof.json"
	// maxProofFile limits it, in bytes.
	maxProofFile = 64 << 10
)

// proof follows the proxy's process by its metrics, and serves the proven table instead of one that crashes the proxy.
type proof struct {
	log     *slog.Logger
	metrics *metrics
	path    string // of the file; empty keeps the state in memory only
	writer  *durable.Writer
	known   bool // there was a file

	mu     sync.Mutex // guards the fields below
	rules  *rollout.Proof
	tables struct{ proven, trial, offered publish.Candidate } // of the digests in rules, where they are known
	fallen bool                                               // the proven table is served instead of the newest one
	saved  int                                                // changes of the rules when a write was last requested
	failed bool                                               // the last write
	warned bool                                               // of metrics without a start time

	fetched        table.Digest // the table that the proxy has fetched, according to requests: for reports only
	refused        uint64       // routes, according to its metrics
	refusedEarlier uint64       // before it fetched that table
}

func newProof(stateDir string, m *metrics, log *slog.Logger) *proof {
	p := &proof{log: log, metrics: m}
	p.writer = durable.NewWriter(p.write)
	var state rollout.ProofState
	if stateDir != "" {
		p.path = filepath.Join(stateDir, proofFile)
		keptAs, err := durable.Load(p.path, maxProofFile, func(r io.Reader) error { return json.NewDecoder(r).Decode(&state) })
		if p.known = err == nil; !p.known {
			state = rollout.ProofState{}
		}
		if !p.known && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
			log.Error(LogProofUnusable, "path", p.path, "error", err, "kept_as", keptAs)
			if keptAs == "" {
				p.path = "" // do not replace a file of another program
			}
		}
	}
	p.rules = rollout.NewProof(time.Now(), state)
	return p
}

func (p *proof) restored(t *table.Table, read time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rules.Restored(t.Digest(), p.known); p.rules.State().Proven == t.Digest() {
		p.tables.proven = publish.Candidate{Table: t, Origin: string(fromLastKnownGood), Read: table.Read{At: read}}
	}
	p.follow()
}

// choose returns what to serve for an offer: the offer, or the proven table during a fallback. The proven table then has the
// revision of the offer, so that it is no step back in time for the proxy.
func (p *proof) choose(o publish.Offer) publish.Offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	proven := p.tables.proven.Table
	if o.Table != nil && proven != nil && o.Table.Digest() != proven.Digest() && p.rules.FallenBack(time.Now()) {
		o.Table = proven.WithRevision(o.Table.Revision())
		o.Read.Held, o.Read.Live = true, false
	}
	return o
}

// serving records that what choose has returned is served from now on.
func (p *proof) serving(o publish.Offer, origin string) {
	if o.Table == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables.offered = publish.Candidate{Table: o.Table, Origin: origin, Read: o.Read}
	p.rules.Offer(time.Now(), o.Table.Digest())
	s := p.rules.State()
	if fallen := p.rules.FallenBack(time.Now()) && o.Table.Digest() == s.Proven; fallen != p.fallen {
		switch p.fallen = fallen; {
		case fallen:
			p.log.Error(LogFallenBack, "digest", s.Suspect.Digest.String(), "proven", s.Proven.String(), "retry", s.Suspect.Retry, "evidence", s.Suspect.Evidence)
		case s.Suspect != nil:
			p.log.Warn(LogRetry, "digest", o.Table.Digest().String())
		default:
			p.log.Warn(LogExcused, "digest", o.Table.Digest().String())
		}
	}
	p.follow()
}

// follow keeps the tables that the rules name, and requests a write if the state has changed. The caller holds mu.
func (p *proof) follow() {
	is := func(c publish.Candidate, d table.Digest) bool { return c.Table != nil && c.Table.Digest() == d }
	if t := &p.tables; is(t.trial, p.rules.State().Proven) {
		t.proven = t.trial
	}
	if d, _ := p.rules.Trial(); is(p.tables.offered, d) {
		p.tables.trial = p.tables.offered
	}
	p.metrics.suspect.Set(series.Bool(p.fallen))
	if n := p.rules.Changes(); n != p.saved && p.path != "" {
		p.saved = n
		p.writer.Request()
	}
}

// unproven reports whether the last-known-good file must not have a table yet: a proven one is better, and any better than none.
func (p *proof) unproven(d table.Digest) bool {
	c, ok := p.proven()
	return ok && d != c.Table.Digest()
}

func (p *proof) proven() (c publish.Candidate, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tables.proven, p.tables.proven.Table != nil
}

func (p *proof) read(now time.Time, f *figures) {
	applied := f.applied
	if applied.IsZero() && f.table {
		applied = now // it does not show the time
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.started.IsZero() && !p.warned {
		p.warned = true
		p.log.Warn("the metrics of the proxy do not show when its process started: no fallback if it dies (-metrics-flavour=prometheus)")
	}
	p.refused = f.refused
	before := p.rules.State().Started
	died := p.rules.Read(now, f.started, applied, f.refused)
	if !p.rules.State().Started.Equal(before) {
		p.refusedEarlier = 0 // a new process counts from 0
	}
	if died {
		p.metrics.deaths.Inc()
		p.log.Warn("the proxy was restarted with a table that is not proven", "digest", p.rules.State().Offered.String(), "started", f.started)
	}
	p.follow()
}

func (p *proof) knowsProcess() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.rules.State().Started.IsZero()
}

func (p *proof) fallenBack(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.FallenBack(now)
}

func (p *proof) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules.Tick(now)
	p.follow()
}

// saw records for reports which table the proxy has after an answer.
func (p *proof) saw(seen etagcache.Seen) {
	has := seen.Digest
	if !seen.Sent.Digest.IsZero() { // it applies the table before it asks again and names it
		has = seen.Sent.Digest
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !has.IsZero() && p.fetched != has {
		p.fetched, p.refusedEarlier = has, p.refused
	}
}

// refusedRoutes returns how many routes the proxy has refused since it fetched its table.
func (p *proof) refusedRoutes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused - min(p.refused, p.refusedEarlier)
}

// suspects returns for a report why the proven table is served instead of the newest one: nothing, or one entry.
func (p *proof) suspects(now time.Time) []fleet.Suspect {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.rules.State()
	if s.Suspect == nil {
		return nil
	}
	return []fleet.Suspect{{
		Digest: s.Suspect.Digest, Proven: s.Proven, Deaths: s.Suspect.Deaths, Evidence: s.Suspect.Evidence, Ago: max(0, now.Sub(s.Suspect.At).Seconds()),
	}}
}

// rejected returns why the proxy does not get the newest table, or "".
func (p *proof) rejected() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.rules.State().Suspect; s != nil && p.fallen {
		return "suspect: " + s.Evidence
	}
	return ""
}

// proofReport is the state of the proof in /status.
type proofReport struct {
	Proven  table.Digest     `json:"proven,omitzero"`        // the last proven table; missing if there is none
	Trial   table.Digest     `json:"trial,omitzero"`         // the table that is proven next
	Since   time.Time        `json:"trial_since,omitzero"`   // when the proxy was first seen with it
	Instead table.Digest     `json:"instead_of,omitzero"`    // the suspect table for which the proven one is served
	Suspect *rollout.Suspect `json:"suspect,omitempty"`      // why, and when the newest table is tried again
	Excused time.Time        `json:"excused_until,omitzero"` // the proven table crashes the proxy, too: until then, restarts count against no table
}

func (p *proof) status() *proofReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.rules.State()
	r := &proofReport{Proven: s.Proven, Suspect: s.Suspect, Excused: s.ExcusedUntil}
	if s.Suspect != nil && p.fallen {
		r.Instead = s.Suspect.Digest
	}
	r.Trial, r.Since = p.rules.Trial()
	return r
}

// write replaces the file. A failure is retried with the next change.
func (p *proof) write() {
	p.mu.Lock()
	state := p.rules.State()
	p.mu.Unlock()
	text, err := json.Marshal(state)
	if err == nil {
		err = durable.WriteFile(p.path, func(w io.Writer) error {
			_, err := w.Write(append(text, '\n'))
			return err
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && !p.failed {
		p.log.Error("cannot write proof.json: a restart would forget the restarts of the proxy", "path", p.path, "error", err)
	}
	p.failed = err != nil
}

func (p *proof) flush() { p.writer.Wait(time.After(proofWait)) }

// proofWait is how long the end of a process waits for the disk.
const proofWait = 5 * time.Second
