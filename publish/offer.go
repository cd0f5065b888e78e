package publish

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Attempt is one attempt to get a table. It must be used by one goroutine only.
type Attempt struct {
	publisher *Publisher
	end       func(*table.Table, table.Read)
	endCanary func(*table.Table, table.Read)
}

// Begin reports that a producer starts reading its source.
func (p *Publisher) Begin() *Attempt {
	return &Attempt{p, p.cfg.Sink.Begin(), p.cfg.Canary.Sink.Begin()}
}

// Offer offers the result of the attempt. Call it at most once.
func (a *Attempt) Offer(c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	return a.offer(c)
}

// OfferSeen is Offer for a producer that requested the difference to the state it had seen. If the Publisher's state has changed
// since, the result is [Overtaken] and nothing changes.
func (a *Attempt) OfferSeen(seen View, c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	if p := a.publisher; p.served.Load() != seen.Served || p.Held() != seen.Held {
		return Outcome{Result: Overtaken, Now: p.Table()}
	}
	return a.offer(c)
}

// offer serves as much of a candidate as possible. The caller holds mu.
func (a *Attempt) offer(newest Candidate) Outcome {
	p := a.publisher
	before, held := p.Table(), len(p.standing.Load().list.tables()) > 0
	d := p.decide(newest, nil)
	if len(d.list.tables()) > 0 {
		a.hold(&d)
		return Outcome{Result: Held, Before: before, Now: p.Table()}
	}
	if held && before != nil && len(d.due.tables()) == 0 {
		p.log.Info(LogHoldEnded)
	}
	result := Published
	p.swap(&d, nil, func(canary, c Candidate) {
		a.endCanary(canary.Table, canary.Read)
		if before != nil && before.Equal(c.Table) {
			result = Unchanged
			a.confirm(c)
		} else {
			p.publish(c, func() { a.end(c.Table, c.Read) })
		}
	})
	return Outcome{Result: result, Before: before, Now: p.Table()}
}

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

// decide decides about a candidate; released are the objects that an operator has accepted, nil for none. If the compiler panics, everything is
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
	d.list = d.list.reusing(s.list)
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

// recall sets what the served table was compiled from, if this process has not compiled it: after a restart the history knows the objects that
// differ from the newest ones.
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

// reusing returns the list with the entries of an earlier one that are the same.
func (l keptList) reusing(earlier keptList) keptList {
	l = slices.Clone(l)
	for i, k := range l {
		if was := earlier.find(k.Ref); was != nil && was != k && reflect.DeepEqual(was, k) {
			l[i] = was
		}
	}
	return l
}

// swap serves a decision by calling serve, and records it. The list is on disk before the table is served. The caller holds mu.
func (p *Publisher) swap(d *decision, a *Acceptance, serve func(canary, fleet Candidate)) {
	p.saveKept(d.list)
	canary := d.ofCanary()
	serve(canary.candidate(), d.candidate())
	p.canary.Store(d.canary)
	p.lost, p.newest, p.compiled = d.lost, d.newest, true // not if the sink panics
	p.record(d, a)
}

// hold holds a whole table. The caller holds mu.
func (a *Attempt) hold(d *decision) {
	p := a.publisher
	p.saveKept(d.list)
	p.newest = d.newest
	before := p.standing.Load()
	p.showDecision(d, before.last)
	if p.Table() != nil { // otherwise there is no served table to report on
		read := d.newest.Read
		read.Held, read.Live, read.Candidate = true, false, nil
		a.end(nil, read)
		a.endCanary(nil, read)
	}
	if p.Table() == nil && p.baseline == nil {
		return // nothing is lost yet: the cluster may be new
	}
	for _, k := range d.fresh {
		p.cfg.Metrics.holds.WithLabelValues(string(k.Reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, d.newest.Table, keptList{k}))
		p.log.Error(LogTableHeld, "reason", string(k.Reason), "detail", k.Detail, "release_at", releaseAt(k.Until),
			"count", d.newest.Table.Len(), "hash", d.newest.Table.Digest().String())
	}
}

// record logs and counts the entries that begin or end with a decision that is now served. a is the acceptance that caused it, or
// nil. The caller holds mu.
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
			log.Warn(LogKeptReleased, "count", len(d.due), "objects", ended.Objects)
		}
	}
	if len(d.over) > 0 {
		p.log.Warn(LogSteerOver, "count", len(d.over), "objects", d.over.names(), "by", d.over[0].By, "detail", d.over[0].Detail)
		p.cfg.Decided(decisionOf(api.DecidedReleased, d.table, d.over))
	}
	p.recordCanary(was.list, d, a)
	if back := was.list.objects().acceptable().without(d.list).without(d.due); len(back) > 0 {
		p.log.Info(LogKeptBack, "count", len(back), "objects", back.names(), "kept", len(d.list.objects().settled()))
	}
	if waiting := d.list.where(func(k *Kept) bool { return k.Pending && !was.list.has(k.Ref) }); len(waiting) > 0 {
		p.log.Info(LogReviewed, "count", len(waiting), "objects", waiting.names(), "detail", waiting[0].Detail)
	}
	fresh := freshIn(was.list, d.list)
	for _, group := range byReason(fresh) {
		log := p.log.With("reason", string(group[0].Reason), "detail", group[0].Detail, "count", len(group), "objects", group.names(),
			"release_at", releaseAt(group[0].Until))
		if steered(group[0].Reason) {
			log.Warn(LogKept)
			continue
		}
		log.Error(LogKept, "hash", d.list.objects().acceptable().digest().String())
		p.cfg.Metrics.holds.WithLabelValues(string(group[0].Reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, d.newest.Table, group))
	}
	p.showDecision(d, last)
	if len(d.list) == 0 && p.policy.builder != nil {
		p.policy.builder.Forget()
	}
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

// show makes the kept and held content visible to readers. The caller holds mu.
func (p *Publisher) show(s *standing) {
	p.standing.Store(s)
	p.cfg.Metrics.keeps(s.list)
	p.cfg.Metrics.lost.Set(s.lost.Share())
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

// publishChanged publishes the tables of the canary and the fleet outside of a read, if they changed. The caller holds mu.
func (p *Publisher) publishChanged(canary, c Candidate) {
	c = c.ofRead()
	if before := p.canary.Load(); before == nil || !before.Equal(canary.Table) {
		p.cfg.Canary.Sink.Publish(canary.ofRead().Table)
	}
	if served := p.Table(); served == nil || !served.Equal(c.Table) {
		p.publish(c, func() { p.cfg.Sink.Publish(c.Table) })
	}
}

// ofRead returns the candidate with the revision of its read, if that is lower: after a restore of the source a table with the
// same routes keeps the earlier revision until a read changes it, and the next table would move clients back.
func (c Candidate) ofRead() Candidate {
	if newest := c.Read.Newest; newest > 0 && newest < c.Table.Revision() {
		c.Table = c.Table.WithRevision(newest)
	}
	return c
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

// releaseAt is the time of the next expiry, for the log.
func releaseAt(at time.Time) slog.Value {
	if at.IsZero() {
		return slog.StringValue("never")
	}
	return slog.TimeValue(at)
}
