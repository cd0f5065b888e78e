package sidecar

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// Log messages about what the proxy lives with.
const (
	LogProven          = "table proven: the proxy has lived with it"
	LogProxyDied       = "the proxy was restarted with a table that is not proven"
	LogSuspect         = "the proxy keeps dying of a table, the proven one is served instead"
	LogSuspectUnproven = "the proxy keeps dying of a table, and no table is proven: it stays"
	LogProofUnusable   = "proof.json is not usable, set aside: a restart does not know which table the proxy died of"
	LogProofFailed     = "proof.json cannot be written: a restart would not know which table the proxy died of"
)

const (
	// proofFile is the name of the file beside the last-known-good one that remembers what the proxy died of.
	proofFile = "proof.json"
	// maxProofFile limits it, in bytes. It has at most [rollout.MaxSuspects] entries.
	maxProofFile = 64 << 10
	// skipperAgent is how the User-Agent of a Skipper begins.
	skipperAgent = "Go-http-client/"
)

// proof follows what the proxy does with the tables that it gets, and serves a proven table instead of one that the proxy dies of.
// Requests and the controller use it.
type proof struct {
	log     *slog.Logger
	metrics *metrics
	path    string              // of the file; empty keeps the state in memory only
	cached  func() *table.Table // what the cache serves: an older table while a change waits
	writer  *durable.Writer
	known   bool // there was a file

	mu      sync.Mutex // guards the fields below
	rules   *rollout.Proof
	tables  map[table.Digest]publish.Candidate // those that the rules may name, and those that the proxy may be getting
	recent  []table.Digest                     // the last ones served: answers with them may be on their way
	instead table.Digest                       // the suspect for which the proven table is served; zero for none
	saved   int                                // changes of the rules when a write was last requested
	failed  bool                               // the last write

	fetched   fleet.Name // the table that the proxy has fetched, according to its requests; zero for none
	fetchedAt time.Time  // when it was fetched, or first named
}

// newProof reads the state of the previous process. file means that the proxy may read a file.
func newProof(stateDir string, file bool, cached func() *table.Table, m *metrics, log *slog.Logger) *proof {
	p := &proof{log: log, metrics: m, cached: cached, tables: make(map[table.Digest]publish.Candidate)}
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
				p.path = "" // do not replace somebody else's file
			}
		}
	}
	p.rules = rollout.NewProof(state, file)
	return p
}

// restored records the table of the last-known-good file.
func (p *proof) restored(t *table.Table, read time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules.Restored(t.Digest(), p.known)
	p.keep(publish.Candidate{Table: t, Origin: string(fromLastKnownGood), Read: table.Read{At: read}})
	p.save()
}

// recentTables is how many served tables are remembered whatever the rules need. They share most of their blocks.
const recentTables = 4

// keep remembers a table that is served, and forgets those that nobody needs any more. The caller holds mu.
func (p *proof) keep(c publish.Candidate) {
	d := c.Table.Digest()
	if p.tables[d] = c; !slices.Contains(p.recent, d) {
		p.recent = append(p.recent, d)
		p.recent = p.recent[max(0, len(p.recent)-recentTables):]
	}
	cached := p.cached()
	for d := range p.tables {
		if !p.rules.Needs(d) && !slices.Contains(p.recent, d) && (cached == nil || cached.Digest() != d) {
			delete(p.tables, d)
		}
	}
}

// alternative returns the table to serve instead of one that the proxy dies of; nil if there is none. The caller holds mu.
func (p *proof) alternative(d table.Digest) *table.Table {
	proven := p.rules.Proven()
	if c, ok := p.tables[proven]; ok && d != proven && p.rules.Suspect(d) != nil {
		return c.Table
	}
	return nil
}

// choose returns what to serve for an offer: the offer, or the proven table if the proxy dies of the offered one. The proven table then has
// the revision of the offer: for the proxy it replaces what it must not have, and is no step back in time.
func (p *proof) choose(o publish.Offer) publish.Offer {
	if o.Table == nil {
		return o
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.alternative(o.Table.Digest()); t != nil {
		o.Table = t.WithRevision(o.Table.Revision())
		o.Read.Held, o.Read.Live = true, false
	}
	return o
}

// serving records that what choose has returned for an offer is served from now on.
func (p *proof) serving(o publish.Offer, origin string) {
	if o.Table == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d, now := o.Table.Digest(), time.Now()
	if p.alternative(d) == nil {
		p.instead = table.Digest{}
		p.rules.Served(now, d)
		p.keep(publish.Candidate{Table: o.Table, Origin: origin, Read: o.Read})
	} else {
		proven := p.rules.Proven()
		if p.instead != d {
			p.instead = d
			p.log.Error(LogSuspect, "digest", d.String(), "proven", proven.String(), "evidence", p.rules.Suspect(d).Evidence)
		}
		p.rules.Served(now, proven)
	}
	p.save()
}

// unproven reports whether the last-known-good file must not have a table yet: any table is better than none, and a proven one better than
// any.
func (p *proof) unproven(d table.Digest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.tables[p.rules.Proven()]
	return ok && d != p.rules.Proven()
}

// isProxy reports whether a request comes from the proxy, and not from a person or a tool in the pod.
func isProxy(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.UserAgent(), skipperAgent)
}

// asking records a request of the proxy for its table, before it is answered, and reports whether the proxy has to get another table than
// the served one.
func (p *proof) asking(r *http.Request) (other bool) {
	if !isProxy(r) {
		return false
	}
	return p.judge(func(now time.Time) {
		if r.Header.Get(api.HeaderIfNoneMatch) != "" {
			p.rules.Asked(now)
		} else {
			p.rules.Started(now)
		}
	})
}

// saw records which table the proxy has after an answer.
func (p *proof) saw(seen etagcache.Seen) {
	sent, name := seen.Sent, fleet.Name{Digest: seen.Digest, Revision: seen.Revision}
	arrived := sent.Whole && sent.Status == http.StatusOK
	if arrived { // it applies the table before it asks again and names it
		name = fleet.Name{Digest: sent.Digest, Revision: sent.Revision}
	}
	has := arrived || sent.Status == http.StatusNotModified && !seen.Ahead
	p.judge(func(now time.Time) {
		if !name.Digest.IsZero() && p.fetched.Digest != name.Digest {
			p.fetched, p.fetchedAt = name, now
		}
		if _, known := p.tables[sent.Published]; has && known && isProxy(seen.Request) {
			p.rules.Got(now, sent.Published)
		}
	})
}

// hasFetched returns the table that the proxy has fetched, zero for none, and when that was.
func (p *proof) hasFetched() (fleet.Name, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched, p.fetchedAt
}

// read records the figures of the proxy, and reports whether it has to get another table.
func (p *proof) read(f *fleet.Figures) (other bool) {
	var refused uint64
	for _, n := range f.Refused {
		refused += n
	}
	return p.judge(func(now time.Time) { p.rules.Read(now, f.Started, refused) })
}

// unread records why the figures of the proxy cannot be read, and reports whether it has to get another table.
func (p *proof) unread(err error) (other bool) {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false // something listens
	}
	return p.judge(p.rules.Down)
}

// judge tells the rules what has happened, carries out what they decide, and reports whether a suspect is served although there is a proven
// table.
func (p *proof) judge(happened func(now time.Time)) (other bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.rules.State()
	happened(time.Now())
	p.died(before)
	p.save()
	return p.alternative(p.rules.Offered()) != nil
}

// died logs a death since the state before. The caller holds mu.
func (p *proof) died(before rollout.ProofState) {
	s := p.rules.State()
	if n := len(s.Deaths); n == 0 || len(before.Deaths) == n && before.Deaths[n-1].Equal(s.Deaths[n-1]) {
		return
	}
	p.metrics.deaths.Inc()
	p.log.Warn(LogProxyDied, "digest", before.Has.String(), "deaths", len(s.Deaths))
	if p.rules.Suspect(before.Has) != nil && s.Proven.IsZero() {
		p.log.Error(LogSuspectUnproven, "digest", before.Has.String())
	}
}

// proven returns the proven table. ok is false if there is none.
func (p *proof) proven() (c publish.Candidate, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok = p.tables[p.rules.Proven()]
	return c, ok
}

// reported is how long a suspect is reported to route servers after the last death: long enough to survive their restarts.
const reported = time.Hour

// maxReportedSuspects is how many suspects a report has.
const maxReportedSuspects = 3

// report returns the last suspects, the newest first.
func (p *proof) report(now time.Time) []fleet.Suspect {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []fleet.Suspect
	for _, s := range slices.Backward(p.rules.State().Suspects) {
		if len(all) < maxReportedSuspects && (now.Sub(s.At) < reported || s.Digest == p.instead) {
			all = append(all, fleet.Suspect{
				Digest: s.Digest, Proven: s.Proven, Deaths: s.Deaths, Evidence: s.Evidence, Ago: max(0, now.Sub(s.At).Seconds()),
			})
		}
	}
	return all
}

// proofReport is the state of the proof in /status.
type proofReport struct {
	Proven   table.Digest      `json:"proven,omitzero"` // the last proven table; missing if there is none
	Trial    table.Digest      `json:"trial,omitzero"`  // the table that is being proven
	Since    time.Time         `json:"trial_since,omitzero"`
	Instead  table.Digest      `json:"instead_of,omitzero"` // the suspect for which the proven table is served
	Suspects []rollout.Suspect `json:"suspects,omitempty"`  // the oldest first
}

func (p *proof) status() *proofReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &proofReport{Proven: p.rules.Proven(), Instead: p.instead, Suspects: p.rules.State().Suspects}
	r.Trial, r.Since = p.rules.Trial()
	return r
}

// rejected says why the proxy does not get the offered table; empty if it does.
func (p *proof) rejected() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.rules.Suspect(p.instead); s != nil && !p.instead.IsZero() {
		return "suspect: " + s.Evidence
	}
	return ""
}

// save requests a write if the state has changed. The caller holds mu.
func (p *proof) save() {
	p.metrics.suspect.Set(series.Bool(!p.instead.IsZero()))
	if n := p.rules.Changes(); n != p.saved && p.path != "" {
		p.saved = n
		p.writer.Request()
	}
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
		p.log.Error(LogProofFailed, "path", p.path, "error", err)
	}
	p.failed = err != nil
}

// flush waits a limited time for a write in progress.
func (p *proof) flush() { p.writer.Wait(time.After(proofWait)) }

// proofWait is how long the end of a process waits for the disk.
const proofWait = 5 * time.Second
