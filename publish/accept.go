package publish

import (
	"fmt"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Accept publishes what is held at once: the table or the list of kept objects that the digest names. Objects kept later are not
// accepted. The error is [ErrNothingHeld], a [*HeldError], or [ErrNotKept].
func (p *Publisher) Accept(a Acceptance) (*table.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.standing.Load()
	if err := was.accepts(a); err != nil {
		return nil, err
	}
	d, err := p.accepted(was, a)
	if err != nil {
		return nil, err
	}
	p.saveKept(d.list) // an acceptance must not depend on the disk; if it fails, a restart may ask for it again
	canary, c := d.ofCanary(), d.candidate().ofRead()
	p.cfg.Canary.Sink.Publish(canary.candidate().ofRead().Table)
	p.publish(c, func() { p.cfg.Sink.Publish(c.Table) })
	p.canary.Store(d.canary)
	p.lost = d.lost
	p.record(&d, &a)
	return c.Table, nil
}

// accepted returns the decision that results from an acceptance.
func (p *Publisher) accepted(was *standing, a Acceptance) (decision, error) {
	if tables := was.list.tables(); len(tables) > 0 {
		d := p.withObjects(was.list.without(tables).others())
		d.due = tables
		p.policy.guard.Forgive(d.table)
		return d, nil
	}
	if p.newest.Snapshot == nil {
		return decision{}, fmt.Errorf("%w: this process has not read the source yet", ErrNotKept)
	}
	chosen := was.list.objects().acceptable().where(func(k *Kept) bool { return a.Accepts(k.Ref) })
	if len(chosen) == 0 {
		return decision{}, fmt.Errorf("%w: GET /status lists them", ErrNotKept)
	}
	d := p.decide(p.newest, func(r kube.Ref) bool { return chosen.has(r) })
	d.list = d.list.without(d.list.tables())
	d.due = chosen
	return d, nil
}

// withObjects returns the decision to serve the newest table with the kept objects of a list, or without them if objects are unknown or the compiler
// panics.
func (p *Publisher) withObjects(list keptList) decision {
	s := p.situation(p.newest)
	if p.policy.builder == nil || p.newest.Snapshot == nil {
		list = nil
	}
	d, panicked := safely(func() decision { return p.policy.build(&s, p.newest, list) })
	if panicked != nil {
		p.log.Error(LogKeepPanicked, "panic", panicked)
		d = p.policy.build(&s, p.newest, list.freezesAndPins().without(list.objects()))
	}
	return d
}

// List returns all entries, for other replicas.
func (p *Publisher) List() []*Kept {
	return p.standing.Load().list.without(p.standing.Load().list.tables())
}

// Kept returns the objects that are kept or wait for their review, the newest first, except soaking ones. The caller owns the
// slice but not the objects.
func (p *Publisher) Kept() []*Kept { return p.standing.Load().list.objects().others().newestFirst() }

// State returns what is held: a table that the guard holds back, or objects that are kept. Then Digest names their list, and the
// other figures describe the newest table.
func (p *Publisher) State() State { return p.standing.Load().state() }
