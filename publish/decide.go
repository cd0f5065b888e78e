package publish

import (
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Builder compiles snapshots in which some objects are kept. The Publisher calls its methods only during an offer or a command.
// Package poller implements it.
type Builder interface {
	// CompileBeside returns the routes of a snapshot other than the newest one; see [compile.Compiler.CompileBeside].
	CompileBeside(s *kube.Snapshot) table.List
	// RoutesOf returns the routes of an object of one of the last snapshots, and ServicesOf the services that it referenced.
	RoutesOf(o kube.Object) []*table.Route
	ServicesOf(o kube.Object) []kube.ServiceKey
	// OwnersOf returns the objects that own routes of the last snapshot, except routes that belong only to the server.
	OwnersOf(ids []string) map[string]kube.Ref
	// LostServices returns the services that had endpoints and have lost them.
	LostServices(before, now *kube.Backends) []kube.ServiceKey
	// Signature tells versions of an object apart, as far as they can have different routes.
	Signature(o kube.Object) string
	// Forget frees what CompileBeside keeps for its next call.
	Forget()
}

// situation is everything that a decision depends on.
type situation struct {
	newest Candidate
	// served is what the newest table is compared with; Table is nil if there is none, and Snapshot is nil if unknown.
	served Candidate
	canary *table.Table // served to the canary
	first  bool         // nothing is served yet: served is the table of another replica
	aged   bool         // served comes from a file, and was read last more than a hold ago
	list   keptList
	lost   losses
	peers  keptList             // what other replicas keep
	theirs map[kube.Ref][]*Kept // what soaks on other replicas
	// recalled means that an earlier process served the table: only the list and the history describe it.
	recalled bool
	verdict  Verdict
	// released are the objects that an operator has accepted; nil for none.
	released func(kube.Ref) bool
	now      time.Time
}

func (s *situation) accepts(r kube.Ref) bool { return s.released != nil && s.released(r) }

// decision is what of a read is served, and why.
type decision struct {
	newest Candidate // as it was read
	wanted Candidate // the same with freezes and pins
	// list has the entries from now on. If it has any for the whole table, the served table stays.
	list     keptList
	snapshot *kube.Snapshot
	table    *table.Table
	canary   *table.Table // as table, with the newest versions of what soaks

	promoted keptList // entries of the canary that have ended, because of the soak time or an acceptance

	fresh keptList // new entries for the whole table
	due   keptList // entries that time or an acceptance has ended
	over  keptList // freezes and pins that have ended
	lost  losses
}

// candidate returns the part of the read that can be served.
func (d *decision) candidate() Candidate {
	c := d.newest
	c.Table, c.Snapshot = d.table, d.snapshot
	if d.canary != d.table { // another replica may have promoted it a moment ago
		c.Read.Candidate = d.canary
	}
	if kept := d.list.others(); len(kept.objects()) > 0 { // also if all of them only wait for their review: the newest table is another one
		// Another replica may serve what operators want, once it is accepted there. A frozen or pinned version must be withdrawn from
		// clients that still have it.
		c.Read.Held, c.Read.Live, c.Read.Candidate = true, true, d.wanted.Table
		c.Read.Backends = !slices.ContainsFunc(kept, func(k *Kept) bool { return k.Service == nil })
	}
	return c
}

// ofCanary returns the decision for the canary: nothing soaks there.
func (d *decision) ofCanary() decision {
	c := *d
	c.table, c.list = d.canary, d.list.others()
	return c
}

// policy decides what is served. Its guard remembers what was lost within the window; otherwise a decision depends on the situation alone.
type policy struct {
	holder
	builder Builder // nil where only tables are known
	review  Review  // nil for none
	canary  CanaryConfig
}

// decide returns what of the newest read is served: everything except the objects kept by the list, or nothing if objects are
// unknown or keeping them does not help. An object is kept for the first of these reasons that applies: pin, freeze, trial,
// takeover, guard.
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

// build compiles a snapshot with kept objects. The table is the served one if it is equal.
func (p *policy) build(s *situation, c Candidate, list keptList) decision {
	if len(list.objects()) == 0 {
		return decision{newest: c, wanted: c, list: list, snapshot: c.Snapshot, table: c.Table, canary: c.Table}
	}
	snapshot, list := list.apply(c.Snapshot)
	t := s.tableOf(c, s.withRoutes(p.builder.CompileBeside(snapshot), list))
	return decision{newest: c, wanted: c, list: list, snapshot: snapshot, table: t, canary: t}
}

// tableOf returns a table of a read, which is the served one if they are equal.
func (s *situation) tableOf(c Candidate, routes table.List) *table.Table {
	served := s.served.Table
	if served == nil || s.first {
		return c.Table.Next(routes, c.Table.Revision(), c.Read.At)
	}
	if next := served.NextBeside(routes, c.Read.Newest, c.Read.At, c.Table); !next.Equal(served) {
		return next
	}
	return served
}

// stays splits the guard's entries into those that stay, those whose objects are back, and those ended by time or an acceptance.
func (p *policy) stays(s *situation, wanted Candidate, base *table.Table, lost lostServices) (stay, back, due keptList) {
	kept := s.list.objects().guarded()
	if len(kept) == 0 {
		return nil, nil, nil
	}
	loss := p.judge(base, wanted.Table, s.list, s.aged, s.now)
	exist := present(kept, wanted.Snapshot)
	for _, k := range kept {
		switch {
		case base == nil && !(k.Deleted && exist[k.Ref]):
			stay = append(stay, k) // the requests it answers are unknown
		case p.isBack(k, exist[k.Ref], loss, lost):
			back = append(back, k)
		case k.over(s.now) || s.accepts(k.Ref):
			due = append(due, k)
		case k.Deleted == exist[k.Ref]:
			next := *k
			next.Deleted = !exist[k.Ref]
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

// objectsOf returns the Ingresses and RouteGroups of a snapshot; none if it is nil.
func objectsOf(s *kube.Snapshot) map[kube.Ref]kube.Object {
	all := make(map[kube.Ref]kube.Object)
	if s != nil {
		for o := range s.Objects() {
			all[o.Ref()] = o
		}
	}
	return all
}

// present returns which objects of a list are in a snapshot.
func present(list keptList, s *kube.Snapshot) map[kube.Ref]bool {
	exist := make(map[kube.Ref]bool)
	for o := range s.Objects() {
		if ref := o.Ref(); list.has(ref) {
			exist[ref] = true
		}
	}
	for _, o := range s.Services {
		if ref := serviceRef(kube.ServiceKeyOf(o.Namespace, o.Name)); list.has(ref) {
			exist[ref] = true
		}
	}
	return exist
}

func serviceRef(key kube.ServiceKey) kube.Ref {
	return kube.Ref{Kind: kube.KindService, Namespace: key.Namespace, Name: key.Name}
}
