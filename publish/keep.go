package publish

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
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
	RoutesOf(o kube.Object) []table.Route
	ServicesOf(o kube.Object) []kube.ServiceKey
	// LostServices returns the services that had endpoints and have lost them.
	LostServices(before, now *kube.Backends) []kube.ServiceKey
	// Forget frees what CompileBeside keeps for its next call.
	Forget()
}

// made is a table of the newest read, and what is kept or waits when it is offered.
type made struct {
	newest   Candidate // as it was read
	list     keptList  // with the entry of the whole table, if the table waits
	snapshot *kube.Snapshot
	table    *table.Table
	due      keptList // released by time
	fresh    bool     // the entry of the whole table, or a reason of it, is new
}

// candidate returns what can be served of the read.
func (m *made) candidate() Candidate {
	c := m.newest
	c.Table, c.Snapshot = m.table, m.snapshot
	if len(m.list.objects()) > 0 {
		c.Read.Held, c.Read.Live, c.Read.Candidate = true, true, m.newest.Table
		c.Read.Backends = !slices.ContainsFunc(m.list, func(k *Kept) bool { return k.Service == nil })
	}
	return c
}

// keep returns the table of a read with what the guard keeps of the served objects. Where nothing is known of objects, and where the table is
// suspicious even so, the whole table waits. The caller holds mu.
func (p *Publisher) keep(newest Candidate, now time.Time) made {
	k, base := &p.keeper, p.beside()
	m, loss := made{newest: newest, snapshot: newest.Snapshot, table: newest.Table}, (*guard.Loss)(nil)
	if p.cfg.Builder != nil && newest.Snapshot != nil && base != nil {
		if m, loss = p.keepObjects(m, base, now); loss != nil && loss.Reason == "" && p.snapshot() != nil {
			return m // what the whole table waited for is kept now, or back
		}
	}
	if loss == nil {
		loss = k.guard.Judge(base, m.table, k.list.held(), now)
		if kept := k.list.objects(); len(kept) > 0 && loss.Reason == "" && !m.table.Equal(base) {
			loss.Reason, loss.Detail = kept[0].Reason, kept[0].Detail // it lacks what is kept
		}
	}
	table, fresh, due := k.judgeTable(loss, now)
	if due {
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
	c := newest.newest
	list, due, base, share := p.stays(c, base, now)
	m = p.build(c, list)
	loss = k.guard.Judge(base, m.table, list.with(k.list.table()).held(), now)
	for _, find := range []func(made, *guard.Loss) keptList{p.lostObjects, p.lostServices} {
		if loss.Reason == "" {
			break
		}
		found := find(m, loss)
		for _, o := range found {
			o.Reason, o.Detail, o.By, o.Since, o.From = loss.Reason, loss.Detail, keptBy, now.UTC(), now.UTC()
			o.Endless = c.Table.Len() == 0 || guard.Generated(c.Table)
		}
		if len(found) > 0 {
			list = p.withServices(c, slices.Concat(list, found).sorted(), now)
			m = p.build(c, list)
			loss = k.guard.Judge(base, m.table, list.held(), now)
		}
	}
	for i, o := range m.list {
		m.list[i] = k.until(o, share)
	}
	m.due = due
	return m, loss
}

// build compiles the newest snapshot with kept objects.
func (p *Publisher) build(c Candidate, list keptList) made {
	if len(list) == 0 {
		return made{newest: c, snapshot: c.Snapshot, table: c.Table}
	}
	s, list := list.apply(c.Snapshot)
	return made{newest: c, list: list, snapshot: s, table: p.tableOf(p.cfg.Builder.CompileBeside(s), c)}
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

// stays returns the objects that stay kept, with the services that these need, and those that time releases; the table that the next one is
// compared with; and the share of the served requests that the newest table lacks.
func (p *Publisher) stays(c Candidate, base *table.Table, now time.Time) (list, due keptList, _ *table.Table, share float64) {
	k := &p.keeper
	kept := k.list.objects()
	if len(kept) == 0 {
		return nil, nil, base, 0
	}
	loss := k.guard.Judge(base, c.Table, k.list.held(), now)
	newest := namesOf(c.Snapshot)
	lost := p.lostOf(kept, &c.Snapshot.Backends)
	var back, stay keptList
	for _, o := range kept {
		_, exists := newest[o.Ref]
		if p.isBack(o, exists, loss, lost) {
			back = append(back, o)
			continue
		}
		next := *o
		next.Deleted = !exists
		stay = append(stay, &next)
	}
	if len(back) > 0 {
		p.log.Info(LogKeptBack, "count", len(back), "objects", back.names(), "kept", len(stay))
	}
	for _, o := range stay {
		if len(back) > 0 {
			o.From, o.Returned = now.UTC(), true
		}
		if o = k.until(o, loss.Share); k.due(o, now) {
			due = append(due, o)
		} else {
			list = append(list, o)
		}
	}
	if len(due) > 0 {
		// What was lost with them is no loss any more: compare with what would be served without.
		base = p.build(c, list).table
		k.guard.Forgive(base)
	}
	return p.withServices(c, list, now), due, base, loss.Share
}

// namesOf returns the names of the Ingresses, RouteGroups and Services of a snapshot.
func namesOf(s *kube.Snapshot) map[kube.Ref]struct{} {
	names := make(map[kube.Ref]struct{}, len(s.Ingresses)+len(s.RouteGroups)+len(s.Services))
	for o := range objects(s) {
		names[o.Ref()] = struct{}{}
	}
	for _, o := range s.Services {
		names[serviceRef(kube.ServiceKeyOf(o.Namespace, o.Name))] = struct{}{}
	}
	return names
}

func serviceRef(key kube.ServiceKey) kube.Ref {
	return kube.Ref{Kind: kube.KindService, Namespace: key.Namespace, Name: key.Name}
}

// lostOf returns the kept services that still have no endpoints.
func (p *Publisher) lostOf(list keptList, now *kube.Backends) map[kube.Ref]struct{} {
	before := &kube.Backends{}
	for _, o := range list {
		if s := o.Service; s != nil {
			before.Services = append(before.Services, s.Service)
			before.EndpointSlices = append(before.EndpointSlices, s.Slices...)
			if s.Endpoints != nil {
				before.Endpoints = append(before.Endpoints, s.Endpoints)
			}
		}
	}
	lost := make(map[kube.Ref]struct{})
	if len(before.Services) > 0 {
		for _, key := range p.cfg.Builder.LostServices(before, now) {
			lost[serviceRef(key)] = struct{}{}
		}
	}
	return lost
}

// isBack reports whether a kept object needs no keeping any more: it exists again; or somebody answers all its requests.
func (p *Publisher) isBack(o *Kept, exists bool, loss *guard.Loss, lost map[kube.Ref]struct{}) bool {
	switch {
	case o.Service != nil:
		_, still := lost[o.Ref]
		return !still
	case o.object() == nil:
		return !exists || !loss.Grows
	case o.Deleted && exists:
		return true
	}
	routes := p.cfg.Builder.RoutesOf(o.object())
	return routes != nil && !slices.ContainsFunc(routes, func(r table.Route) bool { return loss.Of(&r) })
}

// withServices adds the services that kept objects need and that have lost their endpoints meanwhile.
func (p *Publisher) withServices(c Candidate, list keptList, now time.Time) keptList {
	served := p.snapshot()
	needed := make(map[kube.ServiceKey]*Kept)
	for _, o := range list {
		if object := o.object(); object != nil {
			for _, key := range p.cfg.Builder.ServicesOf(object) {
				needed[key] = o
			}
		}
	}
	if len(needed) == 0 || served == nil {
		return list
	}
	var keys []kube.ServiceKey
	for _, key := range p.cfg.Builder.LostServices(&served.Backends, &c.Snapshot.Backends) {
		if needed[key] != nil && !list.has(serviceRef(key)) {
			keys = append(keys, key)
		}
	}
	for key, s := range compile.ServicesAt(&served.Backends, keys) {
		user := needed[key]
		list = append(list, &Kept{
			Ref: serviceRef(key), Service: s, Reason: user.Reason, Detail: "needed by " + user.Ref.String() + ", which is kept",
			By: keptBy, Since: now.UTC(), From: now.UTC(), Endless: user.Endless,
		})
	}
	return list.sorted()
}

// lostObjects returns the Ingresses and RouteGroups whose change loses what makes a table suspicious, at their served versions.
func (p *Publisher) lostObjects(next made, loss *guard.Loss) keptList {
	served := p.snapshot()
	if served == nil || loss.Reason == guard.BackendsLost {
		return nil
	}
	var found keptList
	concerns := func(was, is kube.Object) bool {
		if loss.Grows {
			return is != nil && (was == nil || len(p.cfg.Builder.RoutesOf(is)) > len(p.cfg.Builder.RoutesOf(was)))
		}
		return was != nil && slices.ContainsFunc(p.cfg.Builder.RoutesOf(was), func(r table.Route) bool { return loss.Of(&r) })
	}
	for ref, c := range changes(served, next.snapshot) {
		if concerns(c.was, c.is) {
			found = append(found, keptObject(ref, c.was, c.is == nil))
		}
	}
	return found
}

// objects calls yield for each Ingress and RouteGroup of a snapshot.
func objects(s *kube.Snapshot) iter.Seq[kube.Object] {
	return func(yield func(kube.Object) bool) {
		for _, o := range s.Ingresses {
			if !yield(o) {
				return
			}
		}
		for _, o := range s.RouteGroups {
			if !yield(o) {
				return
			}
		}
	}
}

// changed is an object that differs between two snapshots. One that does not exist is nil.
type changed struct{ was, is kube.Object }

// changes returns the Ingresses and RouteGroups that differ.
func changes(before, now *kube.Snapshot) map[kube.Ref]changed {
	same := make(map[kube.Object]struct{})
	for o := range objects(before) {
		same[o] = struct{}{}
	}
	found := make(map[kube.Ref]changed)
	for o := range objects(now) {
		if _, ok := same[o]; ok {
			delete(same, o)
		} else {
			found[o.Ref()] = changed{is: o}
		}
	}
	for o := range same {
		found[o.Ref()] = changed{was: o, is: found[o.Ref()].is}
	}
	return found
}

// lostServices returns the services that have lost their endpoints, as they were.
func (p *Publisher) lostServices(next made, loss *guard.Loss) keptList {
	served := p.snapshot()
	if served == nil || loss.Grows {
		return nil
	}
	keys := slices.DeleteFunc(p.cfg.Builder.LostServices(&served.Backends, &next.newest.Snapshot.Backends), func(key kube.ServiceKey) bool {
		return next.list.has(serviceRef(key))
	})
	exist := namesOf(next.newest.Snapshot)
	var found keptList
	for key, s := range compile.ServicesAt(&served.Backends, keys) {
		_, is := exist[serviceRef(key)]
		found = append(found, &Kept{Ref: serviceRef(key), Service: s, Deleted: !is})
	}
	return found
}
