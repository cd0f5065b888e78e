package publish

import (
	"fmt"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/table"
)

// keeps records what is kept of the read that is served now. The caller holds mu.
func (p *Publisher) keeps(m made) {
	k, before := &p.keeper, p.keeper.list
	if len(m.due) > 0 {
		p.released(m.due, m.table, nil)
	}
	p.logReviewed(before, m.list)
	for _, fresh := range byReason(freshIn(before, m.list)) {
		log := p.log.With("reason", string(fresh[0].Reason), "detail", fresh[0].Detail, "count", len(fresh), "objects", fresh.names(),
			"release_at", releaseAt(fresh[0].Until))
		if steered(fresh[0].Reason) {
			log.Warn(LogKept)
			continue
		}
		k.digest = m.list.objects().waiting().digest()
		log.Error(LogKept, "hash", k.digest.String())
		p.cfg.Metrics.holds.WithLabelValues(string(fresh[0].Reason)).Inc()
		p.cfg.Decided(decisionOf(api.DecidedHeld, m.newest.Table, fresh))
	}
	k.list = m.list
	p.showKept(&m.newest)
	if len(m.list) == 0 && p.cfg.Builder != nil {
		p.cfg.Builder.Forget()
	}
}

// showKept shows readers what is kept or waits, and saves it. newest is the newest table. The caller holds mu.
func (p *Publisher) showKept(newest *Candidate) {
	k := &p.keeper
	if k.reads++; len(k.list) == 0 {
		k.reads = 0
	}
	if k.newest = newest; len(k.list.waiting()) == 0 {
		k.newest = nil // it is served as it is
	}
	p.show()
	p.cfg.Metrics.keeps(k.list)
	p.saveKept(k.list)
}

// released records that entries are released with a table: by time, or by an operator if a is not nil. The caller holds mu.
func (p *Publisher) released(list keptList, t *table.Table, a *Acceptance) {
	objects := list.objects()
	d := p.keeper.released(list, t, a)
	p.cfg.Decided(d)
	log := p.log.With("accepted", a != nil, "reason", string(d.Reason), "by", d.By, "why", d.Why, "hash", t.Digest().String())
	if list.table() != nil {
		log.Warn(LogTableReleased, "count", t.Len(), "bytes", t.Bytes())
	} else {
		log.Warn(LogKeptReleased, "count", len(objects), "objects", d.Objects)
	}
}

// Accept publishes what is held at once: a table, which the digest names, or kept objects. The digest of these names their list; objects
// that were kept later are not accepted. The error is [ErrNothingHeld], a [*HeldError], or [ErrNotKept].
func (p *Publisher) Accept(a Acceptance) (*table.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.keeper
	if err := k.accepts(a); err != nil {
		return nil, err
	}
	next := p.made
	switch table := k.list.table(); {
	case table != nil:
		next.list, next.due = next.list.objects(), keptList{table}
	case next.newest.Snapshot == nil:
		return nil, fmt.Errorf("%w: this process has read nothing yet, so it does not know what waits", ErrNotKept)
	default:
		chosen := k.list.waiting().where(func(o *Kept) bool { return a.Accepts(o.Ref) })
		if len(chosen) == 0 {
			return nil, fmt.Errorf("%w: GET /status lists them", ErrNotKept)
		}
		wanted := next.wanted
		next = p.build(next.newest, k.list.without(chosen))
		next.due, next.wanted = chosen, wanted
	}
	p.released(next.due, next.table, &a)
	next.due, next.loss, next.fresh = nil, nil, false
	p.serve(next, func(c Candidate) { p.publish(c, func() { p.cfg.Sink.Publish(c.Table) }) })
	return next.table, nil
}

// List returns everything of [Publisher.Kept] and [Publisher.Orders], for other replicas.
func (p *Publisher) List() []*Kept {
	return p.shown.Load().list.with(nil)
}

// Kept returns the objects that are kept or wait for their review, the newest first. The caller owns the slice, not the objects.
func (p *Publisher) Kept() []*Kept {
	return p.shown.Load().list.objects().newestFirst()
}

// State returns what is held: a table that the guard holds back, or objects that are kept. Then Digest names their list, and the other
// figures are those of the newest table.
func (p *Publisher) State() State { return p.shown.Load().state() }
