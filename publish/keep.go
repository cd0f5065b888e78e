package publish

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Builder compiles snapshots in which some objects are kept. The Publisher calls its methods only during an offer or an acceptance.
// Package poller implements it.
type Builder interface {
	// CompileBeside returns the routes of another snapshot than the newest one; see [compile.Compiler.CompileBeside].
	CompileBeside(s *kube.Snapshot) table.List
	// RoutesOf returns the routes of an object of one of the last snapshots, and ServicesOf the services that it referenced.
	RoutesOf(o kube.Object) []*table.Route
	ServicesOf(o kube.Object) []kube.ServiceKey
	// LostServices returns the services that had endpoints and have lost them.
	LostServices(before, now *kube.Backends) []kube.ServiceKey
	// Forget frees what CompileBeside keeps for its next call.
	Forget()
}

// made is a table of the newest read, and what is kept or waits when it is offered.
type made struct {
	newest   Candidate // as it was read
	wanted   Candidate // the same as operators want it: with their freezes and pins
	list     keptList  // with the entry of the whole table, if the table waits
	snapshot *kube.Snapshot
	table    *table.Table
	due      keptList // released by time
	fresh    bool     // the entry of the whole table, or a reason of it, is new
	// loss is what the newest table lacks, for the next read; nil if that has to count again: see missing.
	loss *guard.Loss
}

// candidate returns what can be served of the read.
func (m *made) candidate() Candidate {
	c := m.newest
	c.Table, c.Snapshot = m.table, m.snapshot
	if len(m.list.objects()) > 0 { // also if all of them only wait for their review: the newest table is another one
		// Another replica may serve what operators want, once somebody accepts it there. What they froze or pinned must be taken back from a
		// client that still has it.
		c.Read.Held, c.Read.Live, c.Read.Candidate = true, true, m.wanted.Table
		c.Read.Backends = !slices.ContainsFunc(m.list, func(k *Kept) bool { return k.Service == nil })
	}
	return c
}

// keep returns the table of a read with what the guard keeps of the served objects. Where nothing is known of objects, and where the table is
// suspicious even so, the whole table waits. The caller holds mu.
func (p *Publisher) keep(newest Candidate, now time.Time) made {
	k, base := &p.keeper, p.beside()
	p.inForce(now)
	m, loss := p.build(newest, nil), (*guard.Loss)(nil)
	if p.cfg.Builder != nil && newest.Snapshot != nil {
		p.declare(newest, now)
		if m, loss = p.keepObjects(m, base, now); loss != nil && loss.Reason == "" && p.snapshot() != nil {
			return m // what the whole table waited for is kept now, or back
		}
	}
	if loss == nil {
		loss = k.guard.Judge(base, m.table, k.list.held(), now)
		if kept := k.list.objects().settled().without(m.list); len(kept) > 0 && loss.Reason == "" && !m.table.Equal(base) {
			loss.Reason, loss.Detail = kept[0].Reason, kept[0].Detail // it lacks what is kept
			if steered(loss.Reason) {
				loss.Reason = guard.RoutesLost // so that it can be accepted
			}
		}
		m.list = m.list.withOrders(k.list)
	}
	table, fresh, due := k.judgeTable(loss, now)
	if m.loss = nil; due {
		m.due = m.due.with(table)
	} else {
		m.list, m.fresh = m.list.with(table), fresh
	}
	return m
}

// keepObjects keeps objects of the newest read. It returns what still makes the table suspicious; nil if a defect prevents keeping.
func (p *Publisher) keepObjects(newest made, base *table.Table, now time.Time) (m made, loss *guard.Loss) {
	k := &p.keeper
	defer func() {
		if v := recover(); v != nil {
			p.log.Error(LogKeepPanicked, "panic", fmt.Sprintf("%.200v", v), "stack", string(debug.Stack()))
			m, loss = newest, nil
		}
	}()
	c, orders := p.steer(newest.newest, k.list, now)
	defer func() { // what operators decided is in the newest read of all that follows
		if loss != nil || base == nil {
			m.newest, m.wanted = newest.newest, c
			m.list = m.list.and(orders).withOrders(k.list)
		}
	}()
	k.list = k.list.and(orders) // the guard no longer keeps what an operator has decided
	refused := p.review(c, base, now).without(orders)
	if base == nil { // nothing can be lost yet
		return p.build(c, refused), nil
	}
	if pins := p.newPins(orders); len(pins) > 0 && p.snapshot() != nil { // what they take away was decided
		served := p.served.Load().Candidate
		base = p.build(served, pins).table
		k.guard.Forgive(base)
	}
	lost := p.lostIn(c.Snapshot)
	list, due, base, missing := p.stays(c, refused, base, lost, now)
	m = p.build(c, list)
	loss = k.guard.Judge(base, m.table, list.with(k.list.table()).held(), now)
	if missing == nil {
		missing = loss
	}
	grew := false
	for _, find := range []func() keptList{
		func() keptList { return p.lostObjects(m, loss) },
		func() keptList { return p.lostServices(m, loss, lost) },
	} {
		if loss.Reason == "" {
			break
		}
		found := find()
		for _, o := range found {
			o.Reason, o.Detail, o.By, o.Since, o.From = loss.Reason, loss.Detail, keptBy, now.UTC(), now.UTC()
			o.Endless = missing.Reason.Endless()
		}
		if len(found) > 0 {
			list = p.withServices(slices.Concat(list, found).sorted(), lost, now)
			m, grew = p.build(c, list), true
			loss = k.guard.Judge(base, m.table, list.held(), now)
		}
	}
	for i, o := range m.list {
		if !reviewed(o.Reason) && !steered(o.Reason) {
			m.list[i] = k.until(o, missing.Share)
		}
	}
	if m.due = due; len(due) == 0 && !grew {
		m.loss = missing
	}
	return m, loss
}

// build compiles the newest snapshot with kept objects.
func (p *Publisher) build(c Candidate, list keptList) made {
	if len(list) == 0 {
		return made{newest: c, wanted: c, snapshot: c.Snapshot, table: c.Table}
	}
	s, list := list.apply(c.Snapshot)
	return made{newest: c, wanted: c, list: list, snapshot: s, table: p.tableOf(p.cfg.Builder.CompileBeside(s), c)}
}

// tableOf returns the table of a read with these routes, which is the served one if they are equal.
func (p *Publisher) tableOf(routes table.List, c Candidate) *table.Table {
	served := p.Table()
	switch {
	case served == nil:
		return c.Table.Next(routes, c.Table.Revision(), c.Read.At)
	case slices.Equal(routes.Blocks(), served.Routes().Blocks()):
		return served
	}
	t := served.Next(routes, c.Read.Newest, c.Read.At)
	if t.Equal(served) {
		return served
	}
	return t
}

// stays returns the objects that stay kept, with those that a review refused and the services that all of them need, and those that time
// releases; the table that the next one is compared with; and what the newest table lacks of the served one, or nil if the guard keeps nothing.
func (p *Publisher) stays(c Candidate, refused keptList, base *table.Table, lost func() map[kube.ServiceKey]bool, now time.Time) (list, due keptList, _ *table.Table, loss *guard.Loss) {
	k := &p.keeper
	kept := k.list.objects().guarded().without(refused)
	if list = slices.Clone(refused); len(kept) == 0 {
		return p.withServices(list, lost, now), nil, base, nil
	}
	loss, same := p.missing(c, base, now)
	exist := present(kept, c.Snapshot)
	back := kept.where(func(o *Kept) bool { return p.isBack(o, exist[o.Ref], loss, same, lost) })
	stay := kept.without(back)
	if len(back) > 0 {
		p.log.Info(LogKeptBack, "count", len(back), "objects", back.names(), "kept", len(stay))
	}
	for _, o := range stay {
		if o.Deleted == exist[o.Ref] || len(back) > 0 {
			next := *o
			if next.Deleted = !exist[o.Ref]; len(back) > 0 {
				next.From, next.Returned = now.UTC(), true
			}
			o = &next
		}
		if o = k.until(o, loss.Share); k.due(o, now) {
			due = append(due, o)
		} else {
			list = append(list, o)
		}
	}
	list = list.sorted()
	if len(due) > 0 {
		// What was lost with them is no loss any more: compare with what would be served without.
		base = p.build(c, list).table
		k.guard.Forgive(base)
	}
	return p.withServices(list, lost, now), due, base, loss
}

// missing returns what the newest table lacks of the served one. Counting that takes long while much is kept. So it is not done if no route of the
// newest read changed that has to do with what was missing at the read before: then the answer is the same, as far as kept objects are
// concerned.
func (p *Publisher) missing(c Candidate, base *table.Table, now time.Time) (loss *guard.Loss, same bool) {
	last := &p.made
	if last.loss == nil || last.loss.Grows || len(last.list.guarded()) == 0 {
		return p.keeper.guard.Judge(base, c.Table, p.keeper.list.held(), now), false
	}
	for was, is := range table.Changes(last.wanted.Table.Routes(), c.Table.Routes()) {
		if was != nil && last.loss.Of(was) || is != nil && last.loss.Of(is) {
			return p.keeper.guard.Judge(base, c.Table, p.keeper.list.held(), now), false
		}
	}
	return last.loss, true
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

// lostIn returns a function that finds the served services, kept ones among them, which have no endpoints in the newest snapshot.
func (p *Publisher) lostIn(newest *kube.Snapshot) func() map[kube.ServiceKey]bool {
	return sync.OnceValue(func() map[kube.ServiceKey]bool {
		before := p.snapshot()
		if before == nil { // after a restart only the kept ones are known
			before, _ = p.keeper.list.apply(new(kube.Snapshot))
		}
		lost := make(map[kube.ServiceKey]bool)
		for _, key := range p.cfg.Builder.LostServices(&before.Backends, &newest.Backends) {
			lost[key] = true
		}
		return lost
	})
}

// isBack reports whether a kept object needs no keeping any more: it exists again; or somebody answers all its requests.
func (p *Publisher) isBack(o *Kept, exists bool, loss *guard.Loss, same bool, lost func() map[kube.ServiceKey]bool) bool {
	switch {
	case o.Service != nil:
		return !lost()[kube.ServiceKey{Namespace: o.Namespace, Name: o.Name}]
	case o.Object() == nil, o.Reason.Kind() == guard.TooManyRoutes:
		return !exists || !loss.Grows
	case o.Deleted && exists:
		return true
	case same:
		return false
	}
	routes := p.cfg.Builder.RoutesOf(o.Object())
	return routes != nil && !slices.ContainsFunc(routes, func(r *table.Route) bool { return loss.Of(r) })
}

// withServices adds the services that kept objects need and that have lost their endpoints meanwhile.
func (p *Publisher) withServices(list keptList, lost func() map[kube.ServiceKey]bool, now time.Time) keptList {
	served := p.snapshot()
	isObject := func(o *Kept) bool { return o.Object() != nil }
	if served == nil || !slices.ContainsFunc(list, isObject) || len(lost()) == 0 {
		return list
	}
	needed := make(map[kube.ServiceKey]*Kept)
	for _, o := range list {
		if isObject(o) {
			for _, key := range p.cfg.Builder.ServicesOf(o.Object()) {
				if lost()[key] && !list.has(serviceRef(key)) {
					needed[key] = o
				}
			}
		}
	}
	keys := slices.Collect(maps.Keys(needed))
	for key, s := range compile.ServicesAt(&served.Backends, keys) {
		user, since := needed[key], now.UTC()
		if was := p.keeper.list.find(serviceRef(key)); was != nil {
			since = was.Since
		}
		list = append(list, &Kept{
			Ref: serviceRef(key), Service: s, Reason: user.Reason, Detail: "needed by " + user.Ref.String() + ", which is kept",
			By: user.By, Since: since, From: now.UTC(), Endless: user.Endless, Pending: user.Pending,
		})
	}
	return list.sorted()
}

// lostObjects returns the Ingresses and RouteGroups whose change loses what makes a table suspicious, or makes it grow past a ceiling, at their
// served versions.
func (p *Publisher) lostObjects(next made, loss *guard.Loss) keptList {
	served := p.snapshot()
	if served == nil || loss.Reason == guard.BackendsLost {
		return nil
	}
	before := objectsOf(served)
	concerns := func(was, is kube.Object) bool {
		grown := loss.Grows && is != nil && (was == nil || len(p.cfg.Builder.RoutesOf(is)) > len(p.cfg.Builder.RoutesOf(was)))
		return grown || loss.Reason.Loses() && was != nil && slices.ContainsFunc(p.cfg.Builder.RoutesOf(was), func(r *table.Route) bool { return loss.Of(r) })
	}
	var found keptList
	for is := range next.snapshot.Objects() {
		was := before[is.Ref()]
		if delete(before, is.Ref()); was != is && concerns(was, is) {
			found = append(found, keptObject(is.Ref(), was, false))
		}
	}
	for ref, was := range before {
		if concerns(was, nil) {
			found = append(found, keptObject(ref, was, true))
		}
	}
	return found
}

// lostServices returns the services that have lost their endpoints, as they were.
func (p *Publisher) lostServices(next made, loss *guard.Loss, lost func() map[kube.ServiceKey]bool) keptList {
	served := p.snapshot()
	if served == nil || loss.Reason.Kind() == guard.TooManyRoutes {
		return nil
	}
	var keys []kube.ServiceKey
	for key := range lost() {
		if !next.list.has(serviceRef(key)) {
			keys = append(keys, key)
		}
	}
	var found keptList
	for key, s := range compile.ServicesAt(&served.Backends, keys) {
		found = append(found, &Kept{Ref: serviceRef(key), Service: s})
	}
	exist := present(found.sorted(), next.newest.Snapshot)
	for _, o := range found {
		o.Deleted = !exist[o.Ref]
	}
	return found
}
