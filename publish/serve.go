package publish

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
)

// situation returns the inputs of the next decision. The caller holds mu.
func (p *Publisher) situation(newest Candidate) situation {
	s := situation{newest: newest, list: p.standing.Load().list, lost: p.lost, peers: p.peers, theirs: p.theirs, now: time.Now()}
	s.canary, s.verdict, s.recalled = p.canary.Load(), p.verdict, !p.compiled
	if served := p.served.Load(); served != nil {
		s.served, s.aged = served.Candidate, served.Stale && s.now.Sub(served.Read.At) > p.policy.hold
	} else {
		s.served.Table, s.first = p.baseline, true
	}
	return s
}

// decide decides about a candidate; released are objects that an operator accepted, or nil. If the compiler panics, all is
// held. The caller holds mu.
func (p *Publisher) decide(newest Candidate, released func(kube.Ref) bool) decision {
	s := p.situation(newest)
	s.released = released
	d, panicked := safely(func() decision {
		p.recall(&s)
		return p.policy.decide(s)
	})
	if panicked != nil {
		p.log.Error(LogKeepPanicked, "panic", panicked)
		d = p.policy.broken(s)
	}
	return d
}

// safely calls f. It returns a panic as an error, with the stack.
func safely(f func() decision) (d decision, panicked error) {
	defer func() {
		if v := recover(); v != nil {
			panicked = fmt.Errorf("%.200v\n%s", v, debug.Stack())
		}
	}()
	return f(), nil
}

// recall sets what the served table was compiled from by an earlier process, as the history knows it.
func (p *Publisher) recall(s *situation) {
	newest := s.newest.Snapshot
	if s.served.Table == nil || s.served.Snapshot != nil || newest == nil || p.policy.builder == nil || p.cfg.Changed == nil {
		return
	}
	changed, known := p.cfg.Changed(newest)
	if !known {
		return
	}
	var list keptList
	exists := objectsOf(newest)
	for ref, version := range changed {
		list = append(list, keptObject(ref, version, exists[ref] == nil))
	}
	for _, k := range s.list.objects() {
		if k.replaces() {
			list = list.sorted().and(keptList{k})
		}
	}
	s.served.Snapshot, _ = list.sorted().apply(newest)
	p.policy.builder.CompileBeside(s.served.Snapshot) // so that it knows the routes of these versions
}

// serve serves a decision and records it: at the end of a read, or with a nil read outside of one. accepted is its
// acceptance, or nil. The list is on disk first. The caller holds mu.
func (p *Publisher) serve(d *decision, read *Attempt, accepted *Acceptance) (result Result) {
	p.saveKept(d.list)
	canary, fleet := d.ofCanary(), d.candidate()
	if read != nil {
		read.endCanary(canary.Table, canary.Read)
	} else {
		canary, fleet = canary.ofRead(), fleet.ofRead()
		if was := p.canary.Load(); was == nil || !was.Equal(canary.Table) {
			p.cfg.Canary.Sink.Publish(canary.Table)
		}
	}
	if served := p.Table(); served == nil || !served.Equal(fleet.Table) {
		p.replace(fleet, read)
	} else if result = Unchanged; read != nil {
		p.confirm(fleet, read)
	}
	p.canary.Store(d.canary)
	p.lost, p.newest, p.compiled = d.lost, d.newest, true // not if the sink panics
	p.record(d, accepted)
	return result
}

// replace swaps the served table, and writes it to the file. The caller holds mu.
func (p *Publisher) replace(c Candidate, read *Attempt) {
	before, now := p.served.Load(), time.Now()
	next := &Served{Candidate: c, Committed: now, Confirmed: now, Initialized: now, Updated: now}
	if before != nil && !before.Initialized.IsZero() {
		next.Initialized = before.Initialized
	}
	p.served.Store(next) // sinks look at it
	swapped := false
	defer func() {
		if !swapped {
			p.served.Store(before) // the sink panicked
		}
	}()
	if read != nil {
		read.end(c.Table, c.Read)
	} else {
		p.cfg.Sink.Publish(c.Table)
	}
	swapped = true
	if p.baseline = nil; before == nil {
		close(p.ready)
	}
	p.file.save(c)
}

// confirm records that a read showed the served table. The caller holds mu.
func (p *Publisher) confirm(c Candidate, read *Attempt) {
	was, now := p.served.Load(), time.Now()
	next := &Served{Candidate: c, Committed: was.Committed, Confirmed: now, Initialized: cmp.Or(was.Initialized, now), Updated: was.Updated}
	if next.Table = was.Table; c.Table.Revision() > was.Table.Revision() {
		next.Table = was.Table.WithRevision(c.Table.Revision())
	}
	p.served.Store(next)
	read.end(next.Table, c.Read)
	if next.Table.Revision() != was.Table.Revision() {
		p.file.save(next.Candidate) // the file names the table after a restart
	}
}

// ofRead returns the candidate with the revision of its read if that is lower, as after a restore of the source: otherwise
// the next table would move clients back.
func (c Candidate) ofRead() Candidate {
	if newest := c.Read.Newest; newest > 0 && newest < c.Table.Revision() {
		c.Table = c.Table.WithRevision(newest)
	}
	return c
}

// hold holds a whole table. The caller holds mu.
func (p *Publisher) hold(d *decision, read *Attempt) {
	p.saveKept(d.list)
	p.newest = d.newest
	p.showDecision(d, p.standing.Load().last)
	if p.Table() != nil { // otherwise there is no served table to report on
		r := d.newest.Read
		r.Held, r.Live, r.Candidate = true, false, nil
		read.end(nil, r)
		read.endCanary(nil, r)
	} else if p.baseline == nil {
		return // nothing is lost yet: the cluster may be new
	}
	for _, k := range d.fresh {
		p.cfg.Metrics.holds.WithLabelValues(string(k.Reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, d.newest.Table, keptList{k}))
		p.log.Error(LogTableHeld, "reason", string(k.Reason), "detail", k.Detail, "release_at", releaseAt(k.Until),
			"count", d.newest.Table.Len(), "hash", d.newest.Table.Digest().String())
	}
}

// record logs and counts the entries that begin or end with a served decision. a is the acceptance that caused it, or nil.
// The caller holds mu.
func (p *Publisher) record(d *decision, a *Acceptance) {
	was := p.standing.Load()
	last := was.last
	if len(d.due) > 0 {
		ended := decisionTo(d.due, d.table, a)
		last = releaseOf(ended)
		p.cfg.Decided(ended)
		if a != nil || len(d.due.tables()) > 0 {
			p.file.flush() // a restart must not hold released content again
		}
		log := p.log.With("accepted", a != nil, "reason", string(ended.Reason), "by", ended.By, "why", ended.Why, "hash", d.table.Digest().String())
		if len(d.due.tables()) > 0 {
			log.Warn(LogTableReleased, "count", d.table.Len(), "bytes", d.table.Bytes())
		} else {
			log.Warn("kept objects released", "count", len(d.due), "objects", ended.Objects)
		}
	}
	if len(d.over) > 0 {
		p.log.Warn("freeze or pin has ended",
			"count", len(d.over), "objects", d.over.names(), "by", d.over[0].By, "detail", d.over[0].Detail)
		p.cfg.Decided(decisionOf(api.DecidedReleased, d.table, d.over))
	}
	p.recordCanary(was.list, d, a)
	if back := was.list.objects().acceptable().without(d.list).without(d.due); len(back) > 0 {
		p.log.Info("kept objects are back", "count", len(back), "objects", back.names(), "kept", len(d.list.objects().settled()))
	}
	if waiting := d.list.where(func(k *Kept) bool { return k.Pending && !was.list.has(k.Ref) }); len(waiting) > 0 {
		p.log.Info("objects are under review", "count", len(waiting), "objects", waiting.names(), "detail", waiting[0].Detail)
	}
	fresh := freshIn(was.list, d.list)
	for _, reason := range Reasons() {
		group := fresh.where(func(k *Kept) bool { return k.Reason == reason })
		if len(group) == 0 {
			continue
		}
		log := p.log.With("reason", string(reason), "detail", group[0].Detail, "count", len(group), "objects", group.names(),
			"release_at", releaseAt(group[0].Until))
		if steered(reason) {
			log.Warn(LogKept)
			continue
		}
		log.Error(LogKept, "hash", d.list.objects().acceptable().digest().String())
		p.cfg.Metrics.holds.WithLabelValues(string(reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, d.newest.Table, group))
	}
	p.showDecision(d, last)
	if len(d.list) == 0 && p.policy.builder != nil {
		p.policy.builder.Forget()
	}
}

// recordCanary logs and records which changes begin to soak, and which are promoted, perhaps by the acceptance a.
func (p *Publisher) recordCanary(was keptList, d *decision, a *Acceptance) {
	fresh := d.list.soaking().where(func(k *Kept) bool {
		old := was.find(k.Ref)
		return old == nil || old.Soak == nil || old.Soak.Seen != k.Soak.Seen
	})
	if len(fresh) > 0 {
		p.log.Info("changes soak on the canary", "count", len(fresh), "objects", fresh.names(), "until", fresh[0].Until)
	}
	if len(d.promoted) == 0 {
		return
	}
	if p.policy.canary.Promoted != nil {
		p.policy.canary.Promoted(d.promoted)
	}
	p.log.Info("changes promoted from the canary to the fleet",
		"count", len(d.promoted), "objects", d.promoted.names(), "accepted", a != nil)
	what := api.DecidedPromoted
	if a != nil {
		what = api.DecidedAccepted
	} else if unjudged := d.promoted.where(func(k *Kept) bool { return !p.verdict.answers(k) }); p.policy.canary.Judged && len(unjudged) > 0 {
		p.log.Error("changes promoted without a verdict: the canary query was not answered",
			"count", len(unjudged), "objects", unjudged.names(), "detail", p.verdict.Text)
		p.cfg.Metrics.unjudged.Add(float64(len(unjudged)))
	}
	p.decided(what, d.promoted, a)
}

// decided records a decision about a soaking change, with its soak time and the result of the query. The caller holds mu.
func (p *Publisher) decided(what string, list keptList, a *Acceptance) {
	t := p.Table()
	if t == nil || len(list) == 0 {
		return
	}
	d := decisionOf(what, t, list)
	since, _ := list.times()
	d.Detail = "soaked " + time.Since(since).Round(time.Second).String()
	if p.policy.canary.Judged {
		d.Detail += "; the query returned " + cmp.Or(p.verdict.Text, "nothing yet")
	}
	if a != nil {
		d.By, d.Why = a.By, a.Why
	}
	p.cfg.Decided(d)
}

// showDecision makes the objects kept by a decision visible to readers. The caller holds mu.
func (p *Publisher) showDecision(d *decision, last *api.Release) {
	was := p.standing.Load()
	next := &standing{list: d.list, digest: was.digest, last: last}
	if objects := d.list.objects().acceptable(); len(freshIn(was.list, d.list).acceptable()) > 0 || len(was.list.objects().acceptable()) == 0 {
		next.digest = objects.digest()
	}
	if len(d.list.acceptable()) > 0 {
		newest := d.newest
		next.newest = &newest
	}
	next.lost.Hosts, next.lost.Of, next.lost.Since = p.policy.guard.Lost(p.Table())
	p.show(next)
}

// saveKept makes a list durable before a table is served. A failing disk delays the table by at most keptWait. The caller
// holds mu.
func (p *Publisher) saveKept(list keptList) { _ = p.keptFile.keep(list) } // it logs errors and retries with the next read

// freshIn returns the entries of a list that are kept now and were not before, or were only pending.
func freshIn(before, after keptList) keptList {
	return after.objects().others().settled().where(func(k *Kept) bool {
		was := before.find(k.Ref)
		return was == nil || was.Pending || reviewed(was.Reason) != reviewed(k.Reason) || steered(was.Reason) != steered(k.Reason)
	})
}
