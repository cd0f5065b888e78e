package publish

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Soaking returns the soaking and halted entries, the newest first. The caller owns the slice, not the objects.
func (p *Publisher) Soaking() []*Kept { return p.standing.Load().list.soaking().newestFirst() }

// Canary returns the table of the canary, or nil before the first one.
func (p *Publisher) Canary() *table.Table { return p.canary.Load() }

// NextPromotion returns when something may be promoted; zero if nothing soaks, or if it depends on the next [Verdict].
func (p *Publisher) NextPromotion() (at time.Time) {
	now := time.Now()
	for _, k := range p.standing.Load().list.soaking() {
		next := k.Until
		if k.Soak.Halted != "" {
			continue
		}
		if k.over(now) {
			if next = p.policy.passes(k); !now.Before(next) {
				continue
			}
		}
		if at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}

// Promote publishes changes that have soaked, from the last read, so that all replicas do it at the same time.
func (p *Publisher) Promote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promote()
}

// promote is Promote. The caller holds mu.
func (p *Publisher) promote() {
	now := time.Now()
	if slices.ContainsFunc(p.standing.Load().list.soaking(), func(k *Kept) bool { return p.policy.isDue(k, p.verdict, now) }) {
		p.again(nil, nil)
	}
}

// Judge records a result of the canary query. When the query begins to return series, all soaking changes are halted.
func (p *Publisher) Judge(v Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.verdict
	if v.Err { // the last answer remains in force
		v.Firing = was.Firing
	}
	if p.verdict = v; v.Firing && !was.Firing {
		why := "the canary query returned " + v.Text
		if list, halted := p.standing.Load().list.halt(Scope{}, byCanary, why); len(halted) > 0 {
			p.halt(list, halted, byCanary, why)
			return
		}
	}
	p.promote()
}

// halt installs a list with halted entries: see keptList.halt. The caller holds mu.
func (p *Publisher) halt(list, halted keptList, by, why string) {
	next := *p.standing.Load()
	next.list = list
	p.show(&next)
	p.log.Error("changes halted: neither the fleet nor the canary is served them",
		"count", len(halted), "objects", halted.names(), "by", by, "detail", why)
	p.cfg.Metrics.holds.WithLabelValues(string(ReasonCanary)).Add(float64(len(halted)))
	p.decided(api.DecidedHalted, halted, &Acceptance{By: by, Why: why})
	p.again(nil, nil)
}

// again decides once more about the last read; released are objects that an operator accepted with a, both may be nil. The
// caller holds mu.
func (p *Publisher) again(released func(kube.Ref) bool, a *Acceptance) {
	if p.newest.Snapshot == nil { // the next read does it
		return
	}
	if d := p.decide(p.newest, released); len(d.list.tables()) == 0 { // otherwise the next read judges it
		p.serve(&d, nil, a)
	}
}

// steerCanary carries out an order about soaking changes. The caller holds mu.
func (p *Publisher) steerCanary(o Order) error {
	list := p.standing.Load().list
	chosen, err := list.chosen(o)
	if err != nil {
		return err
	}
	by := cmp.Or(o.By, "operator")
	if o.Halt {
		next, halted := list.halt(o.Scope, by, o.Why)
		if err := p.keptFile.write(next); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		p.halt(next, halted, by, o.Why)
		return nil
	}
	if p.newest.Snapshot == nil {
		return errNothingRead
	}
	p.again(chosen.has, &Acceptance{By: by, Why: o.Why})
	return nil
}

// chosen returns the entries that an order about soaking changes affects.
func (l keptList) chosen(o Order) (keptList, error) {
	chosen := l.soaking().where(func(k *Kept) bool { return o.Scope.Has(k.Ref) && (o.Promote || k.Soak.Halted == "") })
	if len(chosen) == 0 {
		return nil, ErrNotSoaking
	}
	return chosen, nil
}

// previewCanary returns what an order about soaking changes would change for the fleet, or, if it halts, for the canary. The
// caller holds mu.
func (p *Publisher) previewCanary(o Order, s *situation) (before, after *table.Table, err error) {
	chosen, err := s.list.chosen(o)
	if err != nil {
		return nil, nil, err
	}
	if p.newest.Snapshot == nil || p.Table() == nil {
		return nil, nil, errNothingRead
	}
	others := s.list.objects().others()
	if o.Halt {
		return p.Canary(), p.policy.build(s, p.newest, others.and(chosen)).table, nil
	}
	return p.Table(), p.policy.build(s, p.newest, s.list.objects().without(chosen)).table, nil
}

// halt returns the list with the soaking entries of a scope halted, and the halted entries.
func (l keptList) halt(scope Scope, by, why string) (next, halted keptList) {
	for _, k := range l.soaking() {
		if k.Soak.Halted == "" && scope.Has(k.Ref) {
			one, soak := *k, *k.Soak
			soak.Halted = why
			one.By, one.Until, one.Soak = by, time.Time{}, &soak
			halted = append(halted, &one)
		}
	}
	return l.and(halted), halted
}
