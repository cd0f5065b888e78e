package publish

import (
	"errors"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Steer carries out an order at once, with the objects of the last read. What a pin removes is no accident; what its end
// removes is judged like any change. After an error, such as [ErrNotSteered], nothing has changed.
func (p *Publisher) Steer(o Order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy.builder == nil {
		return errors.New("only a route server that reads objects can freeze and pin them")
	}
	if o.Promote || o.Halt {
		return p.steerCanary(o)
	}
	was := p.standing.Load()
	list, err := was.list.edit(o, time.Now())
	if err != nil {
		return err
	}
	if err := p.keptFile.write(list); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	next := *was
	next.list = list
	p.show(&next)
	p.recordOrder(o)
	p.again(nil, nil)
	return nil
}

// recordOrder logs and records an order.
func (p *Publisher) recordOrder(o Order) {
	p.log.Warn("operator steers objects",
		"release", o.Release, "freeze", o.Freeze, "pins", len(o.Pins), "scope", o.Scope.String(), "until", releaseAt(o.Until),
		"by", o.By, "why", o.Why)
	d := api.Decision{Time: time.Now().UTC().Truncate(time.Millisecond), What: api.DecidedSteered, Objects: o.words(), By: o.By, Why: o.Why}
	if t := p.Table(); t != nil {
		d.Digest = t.Digest()
	}
	p.cfg.Decided(d)
}

// Preview returns the served table, and the one after an order if neither guard nor review objects. It has the errors of
// Steer.
func (p *Publisher) Preview(o Order) (before, after *table.Table, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.situation(p.newest)
	if o.Promote || o.Halt {
		return p.previewCanary(o, &s)
	}
	if s.list, err = s.list.edit(o, s.now); err != nil {
		return nil, nil, err
	}
	if p.policy.builder == nil || p.newest.Snapshot == nil || p.Table() == nil {
		return nil, nil, errNothingRead
	}
	wanted, entries := p.policy.steer(&s)
	others := s.list.objects().where(func(k *Kept) bool { return !steered(k.Reason) && k.replaces() })
	return p.Table(), p.policy.build(&s, wanted, others.without(entries)).table, nil
}

// Orders returns the freezes and pins in force, the newest first, and a digest that is equal on replicas with the same ones;
// zero without any.
func (p *Publisher) Orders() ([]*Kept, table.Digest) {
	list := p.standing.Load().list
	return list.freezesAndPins().newestFirst(), list.orderDigest()
}

// TableOf returns the table of another intent, with the backends of the last read and nothing kept. It fails before the first
// read, and where only tables are known.
func (p *Publisher) TableOf(intent *kube.Intent) (*table.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.newest
	if p.policy.builder == nil || c.Snapshot == nil {
		return nil, errNothingRead
	}
	snapshot := *c.Snapshot
	snapshot.Intent = *intent
	s := p.situation(c)
	return s.tableOf(c, p.policy.builder.CompileBeside(&snapshot)), nil
}
