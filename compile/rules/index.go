package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

type index struct {
	services *btree.BTreeG[*Service]
	problems *btree.BTreeG[findingsOf]
	// twice means that several objects have the same name; the last one counts. No other index is derived from this one.
	twice bool

	of kube.Backends // what the index was made from
}

type findingsOf struct {
	owner kube.Ref
	list  []Problem
}

// Service has the known parts of a service. Each may be missing.
type Service struct {
	Key kube.ServiceKey
	backing
}

type backing struct {
	Service    *kube.Service
	incomplete *kube.Service // which does not count
	endpoints  *kube.Endpoints
	slices     mergedSlices

	// No route uses these, and they may be why: slices without a list of ports, and objects of the other kind.
	unlisted mergedSlices
	unused   int
}

func (b *backing) same(o *backing) bool {
	return b.Service == o.Service && b.incomplete == o.incomplete && b.endpoints == o.endpoints && b.unused == o.unused &&
		slices.Equal(b.slices, o.slices) && slices.Equal(b.unlisted, o.unlisted)
}

func newIndex() *index {
	return &index{
		services: ordered(func(a, b *Service) bool { return a.Key.Compare(b.Key) < 0 }),
		problems: ordered(func(a, b findingsOf) bool { return a.owner.Compare(b.owner) < 0 }),
	}
}

func ordered[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func indexOf(b *kube.Backends, endpointSlices bool) *index {
	x, _ := newIndex().with(b, endpointSlices)
	return x
}

func (x *index) with(b *kube.Backends, endpointSlices bool) (*index, []*Service) {
	gone, fresh := x.of.Difference(b)
	if gone.Size()+fresh.Size() == 0 {
		return x, nil
	}
	e := indexEdit{
		index:          &index{services: x.services.Copy(), problems: x.problems.Copy(), of: *b},
		endpointSlices: endpointSlices, services: make(map[kube.ServiceKey]*Service),
	}
	for _, s := range gone.Services {
		e.drop(s)
		of := e.of(s.ServiceKey())
		of.Service, of.incomplete = nil, nil
	}
	for _, o := range gone.Endpoints {
		e.drop(o)
		e.endpoints(o, -1)
	}
	for _, o := range gone.EndpointSlices {
		e.drop(o)
		e.slice(o, -1)
	}
	for _, s := range fresh.Services {
		problems := appendNulls(nil, s.Ref(), s.Nulls)
		of := e.of(s.ServiceKey())
		e.twice = e.twice || of.Service != nil || of.incomplete != nil
		if !s.Incomplete {
			of.Service = s
		} else {
			of.incomplete = s
			problems = append(problems, Problem{
				Owner: s.Ref(), Reason: InvalidService, Severity: Error, Plain: true, Message: "Invalid service resource detected.",
			})
		}
		e.report(s.Ref(), problems)
	}
	for _, o := range fresh.Endpoints {
		e.endpoints(o, 1)
	}
	for _, o := range fresh.EndpointSlices {
		e.slice(o, 1)
	}
	e.order(b.EndpointSlices)
	return e.index, e.done(x)
}

type indexEdit struct {
	*index
	endpointSlices bool
	services       map[kube.ServiceKey]*Service // services that may differ
}

func (e *indexEdit) of(key kube.ServiceKey) *Service {
	s := e.services[key]
	if s == nil {
		s = &Service{Key: key}
		if was, ok := e.index.services.Get(s); ok {
			*s = *was
		} else { // it may outlive the object with this key
			s.Key.Namespace, s.Key.Name = strings.Clone(key.Namespace), strings.Clone(key.Name)
		}
		e.services[key] = s
	}
	return s
}

func (e *indexEdit) drop(o kube.Object) { e.problems.Delete(findingsOf{owner: o.Ref()}) }

func (e *indexEdit) report(owner kube.Ref, list []Problem) {
	if len(list) > 0 {
		was, twice := e.problems.Get(findingsOf{owner: owner})
		e.twice = e.twice || twice
		e.problems.Set(findingsOf{owner, slices.Concat(was.list, list)})
	}
}

func (e *indexEdit) endpoints(o *kube.Endpoints, n int) {
	of := e.of(o.ServiceKey())
	switch {
	case e.endpointSlices:
		of.unused += n
	case n < 0:
		of.endpoints = nil
	default:
		e.report(o.Ref(), appendNulls(nil, o.Ref(), o.Nulls))
		e.twice = e.twice || of.endpoints != nil
		of.endpoints = o
	}
}

// slice adds a slice, or removes one. Its namespace does not default to "default".
func (e *indexEdit) slice(o *kube.EndpointSlice, n int) {
	of := e.of(o.ServiceKey())
	if !e.endpointSlices {
		of.unused += n
		return
	}
	list := &of.slices
	if o.NoPorts {
		list = &of.unlisted
	}
	*list = slices.Clone(*list)
	if n > 0 {
		e.report(o.Ref(), appendNulls(nil, o.Ref(), o.Nulls))
		*list = append(*list, o)
	} else if at := slices.Index(*list, o); at >= 0 {
		*list = slices.Delete(*list, at, at+1)
	}
}

func (e *indexEdit) order(list []*kube.EndpointSlice) {
	place := make(map[*kube.EndpointSlice]int)
	for _, of := range e.services {
		for _, several := range [2]mergedSlices{of.slices, of.unlisted} {
			for i := range several[min(1, len(several)):] {
				place[several[i]], place[several[i+1]] = 0, 0
			}
		}
	}
	if len(place) == 0 {
		return
	}
	for i, s := range list {
		if _, wanted := place[s]; wanted {
			place[s] = i
		}
	}
	for _, of := range e.services {
		for _, several := range [2]mergedSlices{of.slices, of.unlisted} {
			slices.SortStableFunc(several, func(a, b *kube.EndpointSlice) int { return cmp.Compare(place[a], place[b]) })
		}
	}
}

func (e *indexEdit) done(from *index) (differ []*Service) {
	for _, key := range slices.SortedFunc(maps.Keys(e.services), kube.ServiceKey.Compare) {
		s := e.services[key]
		was, _ := from.services.Get(s)
		switch {
		case was != nil && was.same(&s.backing):
			continue
		case s.same(new(backing)):
			e.index.services.Delete(s)
		default:
			e.index.services.Load(s)
		}
		differ = append(differ, s)
	}
	return differ
}

// View is what objects see of a snapshot while they are compiled.
type View struct {
	*index
	filters *kube.DefaultFilters // nil if services have none
	// beside are services that replace services of the snapshot; nil except in a view of [View.With].
	beside map[kube.ServiceKey]*Service

	// resolved is the reference's cache of endpoints for services with ambiguous ports (endpoints.go), for one build.
	resolved map[endpointsKey]resolution
	user     kube.Ref // the object that is compiled
}

// View returns what the objects of a snapshot see, derived from another view unless that is nil, and the services that differ.
func (s *Set) View(of *kube.Snapshot, from *View) (v *View, differ []*Service) {
	was := newIndex()
	if from != nil && !from.twice {
		was = from.index
	}
	v = &View{filters: of.DefaultFilters, resolved: make(map[endpointsKey]resolution)}
	v.index, differ = was.with(&of.Backends, s.EndpointSlices)
	return v, differ
}

// Ambiguous reports whether several backends of a kind have the same name. No other view can be derived from this one.
func (v *View) Ambiguous() bool { return v.twice }

// Problems returns the problems of the backends themselves.
func (v *View) Problems() (all []Problem) {
	v.problems.Scan(func(f findingsOf) bool {
		all = append(all, f.list...)
		return true
	})
	return all
}

// Before returns the view of an object without what the objects behind it have resolved, because it resolves before them.
func (v *View) Before(o kube.Ref) *View {
	sooner := *v
	sooner.resolved = make(map[endpointsKey]resolution)
	for key, r := range v.resolved {
		if r.user.Compare(o) < 0 {
			sooner.resolved[key] = r
		}
	}
	return &sooner
}

// With returns a view with more backends, which replace others with the same name and kind.
func (s *Set) With(v *View, b *kube.Backends) *View {
	next := *v
	next.resolved, next.beside = make(map[endpointsKey]resolution), make(map[kube.ServiceKey]*Service)
	indexOf(b, s.EndpointSlices).services.Scan(func(more *Service) bool {
		was, of := v.service(more.Key), *more
		if of.Service == nil {
			of.Service = was.Service
		}
		if of.endpoints == nil {
			of.endpoints = was.endpoints
		}
		if of.slices == nil {
			of.slices = was.slices
		}
		next.beside[more.Key] = &of
		return true
	})
	return &next
}

func (v *View) service(key kube.ServiceKey) *Service {
	if of, ok := v.beside[key]; ok {
		return of
	}
	none := &Service{Key: key}
	if of, ok := v.services.Get(none); ok {
		return of
	}
	return none
}

type lookups struct {
	view     *View      // set while the object is compiled
	services []*Service // and the empty ones of those that do not exist
	filters  *kube.DefaultFilters
	// volatile marks a result that also depends on other objects: the object is compiled again in each build.
	volatile bool
}

func (l *lookups) service(key kube.ServiceKey) *kube.Service { return l.backing(key).Service }

func (l *lookups) backing(key kube.ServiceKey) *backing {
	for _, s := range l.services {
		if s.Key == key {
			return &s.backing
		}
	}
	of := l.view.service(key)
	l.services = append(l.services, of)
	return &of.backing
}

func (l *lookups) defaultFilters(key kube.ServiceKey) ([]*eskip.Filter, error) {
	if l.view.filters == nil {
		return nil, nil
	}
	return eskip.ParseFilters(l.view.filters.Texts[key])
}

// Holds reports whether every lookup of the unit has the same result in another view.
func (u *Unit) Holds(v *View) bool {
	l := &u.lookups
	if l.volatile || v.filters != l.filters {
		return false
	}
	return !slices.ContainsFunc(l.services, func(s *Service) bool {
		now := v.service(s.Key)
		return now != s && !now.same(&s.backing)
	})
}

// Volatile reports whether the unit also depends on other objects: it is compiled again in each build.
func (u *Unit) Volatile() bool { return u.lookups.volatile }
