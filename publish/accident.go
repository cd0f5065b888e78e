package publish

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// losses are what was lost within the window and published, because it was below the limit. Further losses restore them. It
// is immutable.
type losses map[kube.Ref]lostObject

// lostObject is an object as it was served last: an Ingress or RouteGroup, or a service.
type lostObject struct {
	version  kube.Object
	routes   []*table.Route
	services []kube.ServiceKey // that it referred to
	service  *compile.KeptService
	at       time.Time
}

// recent returns the losses that are less than a window ago.
func (l losses) recent(now time.Time, window time.Duration) losses {
	if len(l) == 0 {
		return nil
	}
	l = maps.Clone(l)
	maps.DeleteFunc(l, func(_ kube.Ref, o lostObject) bool { return now.Sub(o.at) >= window })
	return l
}

// remember returns the losses with what a decision loses.
func (p *policy) remember(s *situation, d *decision, loss *guard.Loss, lost lostServices) losses {
	next := make(losses)
	maps.Copy(next, s.lost)
	gone, fresh := s.served.Snapshot.Intent.Difference(&d.snapshot.Intent)
	now := objectsOf(&kube.Snapshot{Intent: *fresh})
	for was := range gone.Objects() {
		if is := now[was.Ref()]; next[was.Ref()].version == kube.Object(was) || is != nil && len(p.builder.RoutesOf(is)) > 0 {
			continue // it still has routes, or was lost before, and the loss soaks
		}
		if routes := p.builder.RoutesOf(was); slices.ContainsFunc(routes, loss.Of) {
			next[was.Ref()] = lostObject{version: was, routes: routes, services: p.builder.ServicesOf(was), at: s.now}
		}
	}
	for key, version := range s.servicesAt(lost, d.list) {
		next[serviceRef(key)] = lostObject{service: version, at: s.now}
	}
	return next
}

// lostObjects returns new entries for objects that lose all their routes in a suspicious table, or make it grow, now or
// within the window; if partly is set, for those that lose any request; and for those that another replica keeps.
func (p *policy) lostObjects(s *situation, d *decision, loss *guard.Loss, partly bool) (found keptList) {
	if loss.Reason == "" && len(s.peers) == 0 {
		return nil
	}
	newest, accident := objectsOf(d.wanted.Snapshot), s.list.accident(s.now, p.window)
	if accident.IsZero() {
		accident = s.now.UTC()
	}
	add := func(ref kube.Ref, was kube.Object, like *Kept) {
		k := keptObject(ref, was, newest[ref] == nil)
		k.By, k.Since = keptBy, s.now.UTC()
		if like != nil {
			k.Reason, k.Detail, k.Accident, k.Until = like.Reason, like.Detail, like.Accident, like.Until
		} else if k.Reason, k.Detail, k.Until = loss.Reason, loss.Detail, p.until(loss.Reason, s.now); loss.Reason.Loses() {
			k.Accident, k.Until = accident, p.until(loss.Reason, accident)
		}
		found = append(found, k)
	}
	if before := s.served.Snapshot; before != nil && loss.Reason != "" && loss.Reason != guard.BackendsLost {
		p.lostNow(before, d, loss, partly, func(ref kube.Ref, was kube.Object) { add(ref, was, nil) })
	}
	for ref, o := range s.lost {
		like, is := s.peers.find(ref), newest[ref]
		if o.version == nil || !loss.Reason.Loses() && like == nil || is != nil && len(p.builder.RoutesOf(is)) > 0 {
			continue
		}
		if slices.ContainsFunc(o.routes, loss.Unanswered) {
			add(ref, o.version, like)
		}
	}
	var was map[kube.Ref]kube.Object
	for _, k := range s.peers {
		if is, isLost := s.lost[k.Ref]; isLost && is.version != nil || newest[k.Ref] != nil || d.list.has(k.Ref) || s.served.Snapshot == nil {
			continue
		}
		if was == nil {
			was = objectsOf(s.served.Snapshot)
		}
		if o := was[k.Ref]; o != nil && slices.ContainsFunc(p.builder.RoutesOf(o), loss.Of) {
			add(k.Ref, o, k)
		}
	}
	return slices.CompactFunc(found.sorted(), func(a, b *Kept) bool { return a.Ref == b.Ref })
}

// lostNow calls add for the objects whose change loses what makes a table suspicious, or makes it grow past a ceiling.
func (p *policy) lostNow(before *kube.Snapshot, d *decision, loss *guard.Loss, partly bool, add func(kube.Ref, kube.Object)) {
	was := objectsOf(before)
	concerns := func(was, is kube.Object) bool {
		grown := loss.Grows && is != nil && (was == nil || len(p.builder.RoutesOf(is)) > len(p.builder.RoutesOf(was)))
		loses := loss.Reason.Loses() && was != nil && (partly || is == nil || len(p.builder.RoutesOf(is)) == 0)
		return grown || loses && slices.ContainsFunc(p.builder.RoutesOf(was), loss.Of)
	}
	for is := range d.snapshot.Objects() {
		old := was[is.Ref()]
		if delete(was, is.Ref()); old != is && concerns(old, is) {
			add(is.Ref(), old)
		}
	}
	for ref, old := range was {
		if concerns(old, nil) {
			add(ref, old)
		}
	}
}

// lostServices returns the services, kept ones among them, that had endpoints and have none in the newest snapshot.
type lostServices func() map[kube.ServiceKey]bool

func (p *policy) lostServices(s *situation, newest *kube.Snapshot) lostServices {
	return sync.OnceValue(func() map[kube.ServiceKey]bool {
		before := s.served.Snapshot
		if before == nil { // after a restart only the services in the list are known
			before, _ = s.list.apply(new(kube.Snapshot))
		}
		lost := make(map[kube.ServiceKey]bool)
		for _, key := range p.builder.LostServices(&before.Backends, &newest.Backends) {
			lost[key] = true
		}
		return lost
	})
}

// servicesAt returns the lost services that are not in a list, as they are served.
func (s *situation) servicesAt(lost lostServices, list keptList) map[kube.ServiceKey]*compile.KeptService {
	var keys []kube.ServiceKey
	for key := range lost() {
		if !list.has(serviceRef(key)) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return compile.ServicesAt(&s.served.Snapshot.Backends, keys)
}

// withServices returns a list with the services that kept objects need and that have lost their endpoints meanwhile, or were deleted within the window.
func (p *policy) withServices(s *situation, list keptList, lost lostServices) keptList {
	if s.served.Snapshot == nil {
		return list
	}
	exists := sync.OnceValue(func() map[kube.ServiceKey]bool {
		all := make(map[kube.ServiceKey]bool)
		for _, o := range s.newest.Snapshot.Services {
			all[o.ServiceKey()] = true
		}
		return all
	})
	needed := make(map[kube.ServiceKey]*Kept)
	versions := make(map[kube.ServiceKey]*compile.KeptService)
	for _, k := range list {
		for _, key := range p.servicesOf(s, k) {
			if list.has(serviceRef(key)) {
				continue
			}
			// A service that exists, or was deleted before the object, has the endpoints that its team intended.
			o, user := s.lost[serviceRef(key)], s.lost[k.Ref]
			if o.service != nil && user.version != nil && !o.at.Before(user.at) && !exists()[key] {
				needed[key], versions[key] = k, o.service
			} else if lost()[key] {
				needed[key] = k
			}
		}
	}
	if len(needed) == 0 {
		return list
	}
	now := slices.DeleteFunc(slices.Collect(maps.Keys(needed)), func(key kube.ServiceKey) bool { return versions[key] != nil })
	maps.Copy(versions, compile.ServicesAt(&s.served.Snapshot.Backends, now))
	var more keptList
	for key, version := range versions {
		user := needed[key]
		k := &Kept{
			Ref: serviceRef(key), Service: version, Reason: user.Reason, Detail: "needed by " + user.Ref.String() + ", which is kept",
			By: user.By, Since: s.now.UTC(), Until: user.Until, Accident: user.Accident, Pending: user.Pending,
		}
		if was := s.list.find(k.Ref); was != nil {
			k.Since = was.Since
		}
		more = append(more, k)
	}
	return list.and(more)
}

// servicesOf returns the services that a kept object needs.
func (p *policy) servicesOf(s *situation, k *Kept) []kube.ServiceKey {
	object := k.Object()
	if object == nil {
		return nil
	}
	if o := s.lost[k.Ref]; o.version == kube.Object(object) {
		return o.services // it may no longer be compiled
	}
	return p.builder.ServicesOf(object)
}

// emptied returns new entries for the services that have lost their endpoints, now or within the window, if that makes a table suspicious.
func (p *policy) emptied(s *situation, d *decision, loss *guard.Loss, lost lostServices) (fresh keptList) {
	if s.served.Snapshot == nil || loss.Reason == "" || loss.Reason.Kind() == guard.TooManyRoutes {
		return nil
	}
	add := func(ref kube.Ref, version *compile.KeptService) {
		fresh = append(fresh, &Kept{
			Ref: ref, Service: version, Reason: loss.Reason, Detail: loss.Detail, By: keptBy, Since: s.now.UTC(),
			Until: p.until(loss.Reason, s.now), Accident: s.now.UTC(),
		})
	}
	for key, version := range s.servicesAt(lost, d.list) {
		add(serviceRef(key), version)
	}
	now := fresh.sorted()
	for ref, o := range s.lost {
		if o.service == nil || loss.Reason != guard.BackendsLost || d.list.has(ref) || now.has(ref) {
			continue
		}
		if empty := p.builder.LostServices(&o.service.Backends, &d.wanted.Snapshot.Backends); len(empty) > 0 {
			add(ref, o.service)
		}
	}
	newest := found(fresh.sorted(), d.wanted.Snapshot)
	for _, k := range fresh {
		k.Deleted = newest[k.Ref] == nil
	}
	return fresh.sorted()
}
