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
	RoutesOf(o kube.Object) []*table.Route
	ServicesOf(o kube.Object) []kube.ServiceKey
	// LostServices returns the services that had endpoints and have lost them.
	LostServices(before, now *kube.Backends) []kube.ServiceKey
	// Forget frees what CompileBeside keeps for its next call.
	Forget()
}

// keeper keeps objects at the versions that are served, while the guard finds what would be lost suspicious. It is guarded by mu of the
// Publisher.
type keeper struct {
	list   keptList
	digest table.Digest // names the list: that of its names when one was last added
	// served is the snapshot of the served table: the newest one with the kept objects. nil if unknown, as after a restart.
	served *kube.Snapshot
	reads  int // of this process with kept objects
	// newest is the last candidate as it was read. holding is what was made of it, if the guard holds that back as a whole.
	newest  Candidate
	holding made

	returned time.Time // when a kept object last came back
	missing  float64   // share of the served requests that the newest table lacks
	last     *guard.Release
}

// made is a table of the newest read in which some objects are kept.
type made struct {
	list     keptList
	snapshot *kube.Snapshot
	table    *table.Table
	due      keptList     // released by time
	base     *table.Table // what the table is compared with: the served one, or that without what is released
}

// keep returns the candidate with what the guard keeps of the served objects, and why it keeps more than before. The candidate stays as it
// is where nothing is known of objects. The caller holds mu.
func (p *Publisher) keep(newest Candidate, now time.Time) (c Candidate, m made) {
	c = newest
	k := &p.keeper
	base := p.Table()
	if base == nil {
		base = p.baseline
	}
	if p.cfg.Builder == nil || c.Snapshot == nil || base == nil {
		return c, made{snapshot: c.Snapshot, table: c.Table}
	}
	defer func() {
		if v := recover(); v != nil { // a defect: then the guard holds the whole table
			p.log.Error(LogKeepPanicked, "panic", fmt.Sprintf("%.200v", v), "stack", string(debug.Stack()))
			c, m = newest, made{snapshot: newest.Snapshot, table: newest.Table}
		}
	}()
	list, due, base := p.stays(c, base, now)
	next := p.build(c, list)
	p.guard.Keeping(list.since())
	if v, whole := p.guard.Held(); whole && len(list) == 0 {
		p.guard.Keeping(v.Since)
	}
	loss := p.guard.Compare(base, next.table, now)
	for _, find := range []func(Candidate, made, *guard.Loss) keptList{p.lostObjects, p.lostServices} {
		if loss.Reason == "" {
			break
		}
		found := find(c, next, loss)
		for _, o := range found {
			o.Reason, o.Detail, o.By, o.Since = loss.Reason, loss.Detail, keptBy, now.UTC()
			o.Endless = c.Table.Len() == 0 || guard.Generated(c.Table)
		}
		if len(found) > 0 {
			list = p.withServices(c, slices.Concat(list, found).sorted(), now)
			next = p.build(c, list)
			p.guard.Keeping(list.since())
			loss = p.guard.Compare(base, next.table, now)
		}
	}
	if loss.Reason == "" && k.served != nil {
		p.guard.Drop() // what a hold of the whole table was about is kept now, or back
	}
	p.until(next.list)
	next.due, next.base = due, base
	c.Table, c.Snapshot = next.table, next.snapshot
	return c, next
}

// build compiles the newest snapshot with kept objects.
func (p *Publisher) build(c Candidate, list keptList) made {
	if len(list) == 0 {
		return made{snapshot: c.Snapshot, table: c.Table}
	}
	s, list := list.apply(c.Snapshot)
	return made{list: list, snapshot: s, table: p.tableOf(p.cfg.Builder.CompileBeside(s), c)}
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

// stays returns the objects that stay kept, with the services that these need, and those that time releases; and the table that the next
// one is compared with.
func (p *Publisher) stays(c Candidate, base *table.Table, now time.Time) (list, due keptList, _ *table.Table) {
	k := &p.keeper
	if len(k.list) == 0 {
		return nil, nil, base
	}
	k.reads++
	loss := p.guard.Compare(base, c.Table, now)
	k.missing = loss.Share
	newest := namesOf(c.Snapshot)
	lost := p.lostOf(k.list, &c.Snapshot.Backends)
	var stay, back keptList
	for _, o := range k.list {
		_, exists := newest[o.Ref]
		switch {
		case p.isBack(o, exists, loss, lost):
			back = append(back, o)
		case !o.Until.IsZero() && !now.Before(o.Until) && k.reads > 1:
			due = append(due, o)
		default:
			if o.Deleted == exists {
				changed := *o
				changed.Deleted = !exists
				o = &changed
			}
			stay = append(stay, o)
		}
	}
	if len(back) > 0 {
		k.returned = now
		p.log.Info(LogKeptBack, "count", len(back), "objects", back.names(), "kept", len(stay))
	}
	if len(due) > 0 {
		// What was lost with them is no loss any more: compare with what would be served without.
		base = p.build(c, stay).table
		p.guard.Forgive(base)
	}
	return p.withServices(c, stay, now), due, base
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
	return routes != nil && !slices.ContainsFunc(routes, func(r *table.Route) bool { return loss.Of(r) })
}

// withServices adds the services that kept objects need and that have lost their endpoints meanwhile.
func (p *Publisher) withServices(c Candidate, list keptList, now time.Time) keptList {
	k := &p.keeper
	needed := make(map[kube.ServiceKey]*Kept)
	for _, o := range list {
		if served := o.object(); served != nil {
			for _, key := range p.cfg.Builder.ServicesOf(served) {
				needed[key] = o
			}
		}
	}
	if len(needed) == 0 || k.served == nil {
		return list
	}
	var keys []kube.ServiceKey
	for _, key := range p.cfg.Builder.LostServices(&k.served.Backends, &c.Snapshot.Backends) {
		if needed[key] != nil && !list.has(serviceRef(key)) {
			keys = append(keys, key)
		}
	}
	for key, s := range compile.ServicesAt(&k.served.Backends, keys) {
		user := needed[key]
		list = append(list, &Kept{
			Ref: serviceRef(key), Service: s, Reason: user.Reason, Detail: "needed by " + user.Ref.String() + ", which is kept",
			By: keptBy, Since: now.UTC(), Endless: user.Endless,
		})
	}
	return list.sorted()
}

// lostObjects returns the Ingresses and RouteGroups whose change loses what makes a table suspicious, at their served versions.
func (p *Publisher) lostObjects(c Candidate, next made, loss *guard.Loss) keptList {
	served := p.keeper.served
	if served == nil || loss.Reason == guard.BackendsLost {
		return nil
	}
	var found keptList
	concerns := func(was, is kube.Object) bool {
		if loss.Grows {
			return is != nil && (was == nil || len(p.cfg.Builder.RoutesOf(is)) > len(p.cfg.Builder.RoutesOf(was)))
		}
		return was != nil && slices.ContainsFunc(p.cfg.Builder.RoutesOf(was), func(r *table.Route) bool { return loss.Of(r) })
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
func (p *Publisher) lostServices(c Candidate, next made, loss *guard.Loss) keptList {
	served := p.keeper.served
	if served == nil || loss.Grows {
		return nil
	}
	keys := slices.DeleteFunc(p.cfg.Builder.LostServices(&served.Backends, &c.Snapshot.Backends), func(key kube.ServiceKey) bool {
		return next.list.has(serviceRef(key))
	})
	exist := namesOf(c.Snapshot)
	var found keptList
	for key, s := range compile.ServicesAt(&served.Backends, keys) {
		_, is := exist[serviceRef(key)]
		found = append(found, &Kept{Ref: serviceRef(key), Service: s, Deleted: !is})
	}
	return found
}

// hold returns how long objects are kept.
func (p *Publisher) hold() time.Duration {
	if p.cfg.Guard.Hold == 0 {
		return guard.DefaultKeep
	}
	return p.cfg.Guard.Hold
}

// until sets when time releases the objects of a list.
func (p *Publisher) until(list keptList) {
	hold := p.hold()
	// If nearly everything is back, the rest is not suspicious: it need not wait as long as an accident.
	settled := !p.keeper.returned.IsZero() && p.keeper.missing <= guard.ReturnTolerance
	for i, o := range list {
		until := o.Since
		if p.keeper.returned.After(until) {
			until = p.keeper.returned
		}
		switch {
		case p.cfg.Guard.Manual, o.Endless && !settled:
			until = time.Time{}
		case settled:
			until = until.Add(min(hold, guard.DefaultWindow))
		default:
			until = until.Add(hold)
		}
		if !until.Equal(o.Until) {
			changed := *o
			changed.Until = until.UTC()
			list[i] = &changed
		}
	}
}
