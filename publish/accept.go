package publish

import (
	"fmt"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Accept publishes at once what the digest names: a table, or kept objects. The error is [ErrNothingHeld], a [*HeldError], or
// [ErrNotKept].
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
	p.serve(&d, nil, &a) // whether the disk works or not: a restart may ask for the acceptance again
	return p.Table(), nil
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

// withObjects returns the decision to serve the newest table, with the kept objects of a list if they are known and compile.
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
