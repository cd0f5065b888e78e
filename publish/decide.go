package publish

import (
	"slices"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// decide returns what of the newest read is served. An object is kept for the first reason that applies: pin, freeze, trial,
// takeover, guard. The whole table is held if objects are unknown, or if keeping them does not help.
func (p *policy) decide(s situation) decision {
	list, over := s.list.inForce(s.now)
	s.list = list
	var d decision
	var loss *guard.Loss
	if p.builder != nil && s.newest.Snapshot != nil {
		d, loss = p.decideObjects(s)
		if loss.Reason == "" && (s.served.Table == nil || s.served.Snapshot != nil) {
			d.over = over
			return d // whatever held the whole table is now kept or restored
		}
	} else {
		d = p.build(&s, s.newest, nil)
		loss = p.judge(s.served.Table, s.newest.Table, s.list, s.aged, s.now)
		d.lost, d.list = s.lost, s.list.freezesAndPins()
	}
	d.over = over
	return p.orHold(d, s, loss)
}

// orHold adds the entries for the whole table to a decision.
func (p *policy) orHold(d decision, s situation, loss *guard.Loss) decision {
	held, fresh, due := p.holdTable(s.list, loss, s.now)
	if d.fresh, d.due = fresh, d.due.and(due); len(held) > 0 {
		d.list = s.list.without(s.list.tables()).and(held) // the served table stays as it is
	} else if len(due) > 0 {
		p.guard.Forgive(d.canary)
		d.list = d.list.judged()
	}
	return d
}

// broken decides when the compiler has panicked: a table that might lack kept objects is held.
func (p *policy) broken(s situation) decision {
	list, over := s.list.inForce(s.now)
	d := p.build(&s, s.newest, nil)
	d.list, d.lost, d.over = list.freezesAndPins(), s.lost, over
	loss := p.judge(s.served.Table, s.newest.Table, list, s.aged, s.now)
	if kept := list.objects().settled().and(list.freezesAndPins()); len(kept) > 0 && loss.Reason == "" && !s.newest.Table.Equal(s.served.Table) {
		loss.Reason, loss.Detail = guard.RoutesLost, "BUG: objects cannot be kept one by one: "+kept.names()
	}
	return p.orHold(d, s, loss)
}

// decideObjects keeps objects of the newest read. It returns what still makes the table suspicious.
func (p *policy) decideObjects(s situation) (decision, *guard.Loss) {
	wanted, steered := p.steer(&s)
	base := s.served.Table
	if pins := s.newPins(steered); base != nil && len(pins) > 0 {
		base = p.build(&s, s.served, pins).table // what pins remove is no loss
		p.guard.Forgive(base)
	}
	lost := p.lostServices(&s, wanted.Snapshot)
	list, back, due := p.stays(&s, wanted, base, lost)
	list = list.and(steered)
	refused, objected := p.refuse(&s, wanted, base)
	list = list.and(refused.without(steered))
	list = p.withServices(&s, list, lost)
	aside := p.aside(&s, wanted).without(list)
	list = list.and(aside)
	if s.lost = s.lost.recent(s.now, p.window); len(due) > 0 && base != nil {
		base, s.lost = p.build(&s, wanted, list).table, nil // released objects no longer count as a loss
		p.guard.Forgive(base)
	}
	d := p.build(&s, wanted, list)
	loss := p.judge(base, d.table, list, s.aged, s.now)
	for _, find := range []func() keptList{
		func() keptList { return p.lostObjects(&s, &d, loss, false) },
		func() keptList { return p.lostObjects(&s, &d, loss, true) }, // an edit of one team passes, unless such edits are the accident
		func() keptList { return p.emptied(&s, &d, loss, lost) },
	} {
		if found := find(); len(found) > 0 {
			list = p.withServices(&s, list.and(found.without(list)), lost)
			d = p.build(&s, wanted, list)
			loss = p.judge(base, d.table, list, s.aged, s.now)
		}
	}
	if objected || d.table != wanted.Table {
		p.withhold(&s, &d, base)
	}
	d.newest, d.wanted, d.due, d.lost = s.newest, wanted, due.without(d.list.others()).without(back), s.lost
	if s.aged && loss.Reason == "" {
		p.guard.Forgive(d.table) // everything missing was lost long ago
		d.lost = nil
	} else if base != nil && loss.Any() && s.served.Snapshot != nil {
		d.lost = p.remember(&s, &d, loss, lost)
	}
	p.split(&s, &d, aside, due)
	d.list = d.list.and(s.list.freezesAndPins().without(d.list))
	return d, loss
}

// stays splits the guard's entries into those that stay, those whose objects are back, and those ended by time or an acceptance.
func (p *policy) stays(s *situation, wanted Candidate, base *table.Table, lost lostServices) (stay, back, due keptList) {
	kept := s.list.objects().guarded()
	if len(kept) == 0 {
		return nil, nil, nil
	}
	loss := p.judge(base, wanted.Table, s.list, s.aged, s.now)
	newest := found(kept, wanted.Snapshot)
	for _, k := range kept {
		exists := newest[k.Ref] != nil
		switch {
		case base == nil && !(k.Deleted && exists):
			stay = append(stay, k) // the requests it answers are unknown
		case p.isBack(k, exists, loss, lost):
			back = append(back, k)
		case k.over(s.now) || s.accepts(k.Ref):
			due = append(due, k)
		case k.Deleted == exists:
			next := *k
			next.Deleted = !exists
			stay = append(stay, &next)
		default:
			stay = append(stay, k)
		}
	}
	return stay, back, due
}

// isBack reports whether a kept object can be released: it exists again, or all its requests are answered.
func (p *policy) isBack(k *Kept, exists bool, loss *guard.Loss, lost lostServices) bool {
	switch {
	case k.Service != nil:
		return !lost()[kube.ServiceKey{Namespace: k.Namespace, Name: k.Name}]
	case k.Object() == nil, k.Reason.Kind() == guard.TooManyRoutes:
		return !exists || !loss.Grows
	case k.Deleted && exists:
		return true
	}
	routes := p.builder.RoutesOf(k.Object())
	return routes != nil && !slices.ContainsFunc(routes, loss.Of)
}
