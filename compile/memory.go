package compile

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// memory is a snapshot with its compiled form, kept so that the next snapshot costs only the difference. A full compilation
// begins with an empty memory: there is one code path, and the cached data only saves steps.
type memory struct {
	set      *settings
	snapshot *kube.Snapshot
	result   *Result

	generation uint64 // number of the compilation
	cluster    *cluster
	borrowed   bool   // the cluster belongs to another memory, which advances it
	version    uint64 // version of the cluster that the units are valid for
	ingresses  objects
	groups     objects
	users      map[lookupKey][]*object // of services and secrets
	volatile   map[*object]struct{}    // objects whose unit depends on other objects
	hosts      map[string]*host
	faulty     map[string]struct{} // hosts whose catch-all has problems
	fixed      *fixedRoutes
	candidates candidates
	routes     table.List

	listed []Problem // the current problems
	stale  bool      // something has changed that they depend on, except conflicts, which the candidates track
}

// newMemory returns an empty memory. It shares routes and blocks with base where they turn out to be equal.
func newMemory(set *settings, filters *kube.DefaultFilters, base table.List) *memory {
	return &memory{
		set: set, cluster: newCluster(set.EndpointSlices, filters),
		snapshot:  &kube.Snapshot{Intent: kube.Intent{DefaultFilters: filters}},
		ingresses: newObjects(), groups: newObjects(),
		users: make(map[lookupKey][]*object), volatile: make(map[*object]struct{}),
		hosts: make(map[string]*host), faulty: make(map[string]struct{}), routes: base.Packed(),
		candidates: newCandidates(), stale: true,
	}
}

// object is an Ingress or a RouteGroup with its compiled form.
type object struct {
	kube.Object
	meta *kube.Meta
	at   int // position among the objects of its kind, by namespace and name: see placed

	// refused says why the object is not compiled; skipped says that it has a foreign class. At most one of them is not nil.
	refused, skipped *Problem

	unit       *unit // nil before it is compiled
	global     section
	companions *section // nil if it never had any

	listed uint64 // the last generation with the object
	dirty  uint64 // the last generation that must compile it
}

func compareObjects(a, b *object) int { return compareNames(a.meta, b.meta) }

func compareNames(a, b *kube.Meta) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// objects are the objects of one kind.
type objects struct {
	known   map[kube.Object]*object
	sorted  []*object // compiled objects by namespace and name
	refused []*object // in the order of the list
	skipped []*object // in the order of the list, or in any order if that is irrelevant
	// changed means that objects which have problems without being compiled may have changed.
	changed bool
	// distinct means that no two objects have the same name, and none is listed twice. Then the order of the list is irrelevant.
	distinct bool
}

func newObjects() objects { return objects{known: make(map[kube.Object]*object)} }

// fewChanges is how many differences are applied in place. With more, the whole list is processed.
const fewChanges = 64

// revise applies a changed list. It returns the removed objects, and marks those that must be compiled.
func revise[T comparable](k *objects, before, list []T, generation uint64, admit func(T) *object) (gone []*object) {
	less, more := difference(before, list)
	if k.distinct && len(less)+len(more) <= fewChanges {
		if gone, come, ok := fewEdits(k, less, more, admit); ok {
			k.edit(gone, come, generation)
			return gone
		}
	}
	return relist(k, list, generation, admit)
}

// fewEdits returns the removed and the added objects, if the order of the list is irrelevant before and after: no two objects
// have the same name, none is listed twice, and none is refused, since those are in the order of the list.
func fewEdits[T comparable](k *objects, less, more []T, admit func(T) *object) (gone, come []*object, ok bool) {
	for _, o := range less {
		old := k.known[any(o).(kube.Object)]
		if old.refused != nil {
			return nil, nil, false
		}
		gone = append(gone, old)
	}
	for _, o := range more {
		if k.known[any(o).(kube.Object)] != nil {
			return nil, nil, false // it already existed elsewhere in the list
		}
		now := admit(o)
		if now.refused != nil {
			return nil, nil, false
		}
		if i, found := k.search(now); found && !slices.Contains(gone, k.sorted[i]) {
			return nil, nil, false
		}
		if slices.ContainsFunc(come, func(other *object) bool { return compareObjects(other, now) == 0 }) {
			return nil, nil, false
		}
		come = append(come, now)
	}
	return gone, come, true
}

// search returns the position of an object among the compiled ones.
func (k *objects) search(o *object) (at int, found bool) {
	return slices.BinarySearchFunc(k.sorted, o, compareObjects)
}

// edit applies the changes in place.
func (k *objects) edit(gone, come []*object, generation uint64) {
	for _, o := range slices.Concat(gone, come) {
		k.changed = k.changed || o.skipped != nil
	}
	for _, o := range gone {
		delete(k.known, o.Object)
		if o.skipped != nil {
			k.skipped = slices.DeleteFunc(k.skipped, func(other *object) bool { return other == o })
		}
		if i, found := k.search(o); found && k.sorted[i] == o {
			k.sorted = slices.Delete(k.sorted, i, i+1)
		}
	}
	for _, o := range come {
		o.dirty = generation
		k.known[o.Object] = o
		if o.skipped != nil {
			k.skipped = append(k.skipped, o)
			continue
		}
		i, _ := k.search(o)
		k.sorted = slices.Insert(k.sorted, i, o)
	}
	for i, o := range k.sorted {
		o.at = placed(i)
	}
}

// placed returns the number of a position. Odd numbers are between two positions, for an object that is only tried
// ([Compiler.Try]).
func placed(i int) int { return 2 * i }

// difference returns the elements that are in only one of the lists. It gives up after more than fewChanges of them, or if the
// lists differ in more than single places, and then returns more than fewChanges.
func difference[T comparable](before, now []T) (less, more []T) {
	i, j := 0, 0
	for i < len(before) && j < len(now) && len(less)+len(more) <= fewChanges {
		switch {
		case before[i] == now[j]:
			i, j = i+1, j+1
		case i+1 < len(before) && before[i+1] == now[j]:
			less, i = append(less, before[i]), i+1
		case j+1 < len(now) && before[i] == now[j+1]:
			more, j = append(more, now[j]), j+1
		default: // one element replaces another
			less, more = append(less, before[i]), append(more, now[j])
			i, j = i+1, j+1
		}
	}
	return append(less, before[i:]...), append(more, now[j:]...)
}

// relist processes a whole list. It marks new objects, and objects that share their name with others, whose order may have
// changed.
func relist[T comparable](k *objects, list []T, generation uint64, admit func(T) *object) (gone []*object) {
	k.changed = true
	k.sorted, k.refused, k.skipped, k.distinct = make([]*object, 0, len(list)), nil, nil, true
	listed := 0
	for _, o := range list {
		key := any(o).(kube.Object)
		known := k.known[key]
		switch {
		case known == nil:
			known = admit(o)
			known.dirty = generation
			k.known[key] = known
		case known.listed == generation:
			k.distinct = false
			continue // the same object listed again
		}
		known.listed = generation
		listed++
		switch {
		case known.refused != nil:
			k.refused = append(k.refused, known)
		case known.skipped != nil:
			k.skipped = append(k.skipped, known)
		default:
			k.sorted = append(k.sorted, known)
		}
	}
	if !slices.IsSortedFunc(k.sorted, compareObjects) {
		slices.SortStableFunc(k.sorted, compareObjects)
	}
	for i, o := range k.sorted {
		o.at = placed(i)
		if i > 0 && compareObjects(k.sorted[i-1], o) == 0 {
			k.sorted[i-1].dirty, o.dirty = generation, generation
			k.distinct = false
		}
	}
	if listed == len(k.known) {
		return nil
	}
	for key, o := range k.known {
		if o.listed != generation {
			delete(k.known, key)
			gone = append(gone, o)
		}
	}
	return gone
}

// update compiles the snapshot. It takes units from peers that have already compiled them, and the whole cluster from the leader,
// if there is one with the same backends. Routes are settled if no other memory can share them.
func (m *memory) update(s *kube.Snapshot, all []*memory, leader *memory, settle bool) {
	m.generation++
	w := &step{memory: m, peers: peersOf(m, slices.Clone(all)), hosts: make(map[string]struct{})}
	before := m.snapshot
	m.snapshot = s
	m.stale = m.stale || len(before.Bad)+len(s.Bad) > 0
	m.ingresses.changed, m.groups.changed, m.cluster.faulty = false, false, false
	if !slices.Equal(before.Ingresses, s.Ingresses) {
		w.gone = append(w.gone, revise(&m.ingresses, before.Ingresses, s.Ingresses, m.generation, m.admitIngress)...)
	}
	if !slices.Equal(before.RouteGroups, s.RouteGroups) {
		w.gone = append(w.gone, revise(&m.groups, before.RouteGroups, s.RouteGroups, m.generation, m.admitRouteGroup)...)
	}
	m.follow(&s.Backends, w.peers, leader)
	m.stale = m.stale || m.ingresses.changed || m.groups.changed || m.cluster.faulty
	w.compile()
	w.assemble()
	m.routes = m.candidates.award(m.routes, m.sections(), m.texts(all...), settle)
}

// sections yields all sections in no particular order.
func (m *memory) sections() iter.Seq[*section] {
	return func(yield func(*section) bool) {
		if !yield(&m.fixed.section) {
			return
		}
		for _, k := range []*objects{&m.ingresses, &m.groups} {
			for _, o := range k.sorted {
				if !yield(&o.global) || o.companions != nil && !yield(o.companions) {
					return
				}
			}
		}
		for _, h := range m.hosts {
			if !yield(&h.section) {
				return
			}
		}
	}
}

// admitIngress creates the entry of a new Ingress.
func (m *memory) admitIngress(ing *kube.Ingress) *object {
	return &object{Object: ing, meta: &ing.Meta, skipped: m.set.foreignIngress(ing)}
}

// admitRouteGroup creates the entry of a new RouteGroup. It validates before it checks the class, so invalid RouteGroups of
// foreign classes are reported, too.
func (m *memory) admitRouteGroup(rg *kube.RouteGroup) *object {
	o := &object{Object: rg, meta: &rg.Meta}
	var err error
	if o.refused = isolated(func() { err = validateRouteGroup(rg) }); o.refused != nil {
		o.refused.Owner = rg.Ref()
		return o
	}
	if err != nil {
		o.refused = &Problem{
			Owner: rg.Ref(), Reason: InvalidObject, Severity: Error, Plain: true, Message: "[routegroup] " + err.Error(),
			detail: refusedBecause(err),
		}
		return o
	}
	if class := rg.Annotations.Get(routeGroupClassAnnotation); class != "" && !m.set.routeGroupClass.MatchString(class) {
		o.skipped = notSelected(rg.Ref(), class, "the annotation "+routeGroupClassAnnotation, m.set.routeGroupClass.String())
	}
	return o
}

// foreignIngress checks the annotation and the field: each one that is set must match. It returns nil for an Ingress of the right
// class.
func (s *settings) foreignIngress(ing *kube.Ingress) *Problem {
	if class := ing.Annotations.Get(ingressClassAnnotation); class != "" && !s.ingressClass.MatchString(class) {
		return notSelected(ing.Ref(), class, "the annotation "+ingressClassAnnotation, s.ingressClass.String())
	}
	if ing.Spec != nil && ing.Spec.IngressClassName != "" && !s.ingressClass.MatchString(ing.Spec.IngressClassName) {
		return notSelected(ing.Ref(), ing.Spec.IngressClassName, "spec.ingressClassName", s.ingressClass.String())
	}
	return nil
}

func notSelected(owner kube.Ref, class, where, wanted string) *Problem {
	return &Problem{
		Owner: owner, Reason: NotSelected, Severity: Info,
		Message: fmt.Sprintf("not selected: the class %q in %s does not match %s", class, where, wanted),
		detail:  fmt.Sprintf("its class is %q (%s), and only classes that match %q are served here, so nothing of it is served", class, where, wanted),
	}
}

// follow updates the cluster to the backends, and marks the objects whose lookups have new results.
func (m *memory) follow(now *kube.Backends, peers []*memory, leader *memory) {
	had := m.cluster
	switch {
	case leader != nil && leader.cluster.now.SameAs(now) && leader.snapshot.DefaultFilters == m.snapshot.DefaultFilters:
		m.cluster, m.borrowed = leader.cluster, true
	case m.borrowed:
		m.cluster, m.borrowed = newCluster(m.set.EndpointSlices, m.snapshot.DefaultFilters), false
		m.cluster.advance(now, peers)
	default:
		m.cluster.advance(now, peers)
	}
	if m.cluster == had && m.cluster.version <= m.version+1 {
		markUsers(m, m.cluster.touched)
	} else {
		markUsers(m, m.users)
	}
	m.version = m.cluster.version
}

// markUsers marks the objects whose lookups for one of the keys have new results.
func markUsers[T any](m *memory, touched map[lookupKey]T) {
	for key := range touched {
		for _, o := range m.users[key] {
			if !o.unit.lookups.hold(m.cluster) {
				o.dirty = m.generation
			}
		}
	}
	for o := range m.volatile {
		o.dirty = m.generation
	}
}

// use records the lookups of an object's new unit, instead of those of the previous one.
func (m *memory) use(o *object, now *unit) {
	if o.unit != nil {
		for key := range o.unit.lookups.keys() {
			m.users[key] = slices.DeleteFunc(m.users[key], func(user *object) bool { return user == o })
			if len(m.users[key]) == 0 {
				delete(m.users, key)
			}
		}
	}
	if now != nil {
		for key := range now.lookups.keys() {
			users := m.users[key]
			if users == nil {
				key.ServiceKey = ownKey(key.ServiceKey)
			}
			m.users[key] = append(users, o)
		}
	}
	if now != nil && now.lookups.volatile {
		m.volatile[o] = struct{}{}
	} else {
		delete(m.volatile, o)
	}
	o.unit = now
}

// problems returns all problems, sorted by owner. While nothing has changed that they depend on, it returns the same slice.
func (m *memory) problems() []Problem {
	if !m.stale && !m.candidates.contested && !m.set.EastWest {
		return m.listed
	}
	m.stale = false
	m.listed = m.collect()
	return m.listed
}

// collect rebuilds the list of problems: most objects have none.
func (m *memory) collect() []Problem {
	problems := snapshotProblems(m.snapshot)
	for _, kind := range []kube.Kind{kube.KindService, kube.KindEndpoints, kube.KindEndpointSlice} {
		problems = append(problems, m.cluster.problems[kind]...)
	}
	for _, o := range m.groups.refused {
		problems = append(problems, *o.refused)
	}
	for _, k := range []*objects{&m.ingresses, &m.groups} {
		for _, o := range k.skipped {
			problems = append(problems, *o.skipped)
		}
		for _, o := range k.sorted {
			problems = append(problems, o.unit.list...)
		}
	}
	if m.set.TLS {
		problems = append(problems, m.registerCertificates()...)
	}
	problems = append(problems, m.catchAllProblems()...)
	if m.set.EastWest {
		problems = append(problems, m.eastWestProblems()...)
	}
	problems = append(problems, m.fixed.list...)
	problems = append(problems, m.candidates.problems(m.texts())...)
	sortProblems(problems)
	return problems
}

// snapshotProblems returns the problems that the read found.
func snapshotProblems(s *kube.Snapshot) []Problem {
	var problems []Problem
	for _, b := range s.Bad {
		problems = append(problems, BadObject(b))
	}
	if f := s.DefaultFilters; f != nil && f.Err != nil {
		problems = append(problems, Problem{
			Reason: DefaultFilters, Severity: Error, Plain: true,
			Message: "could not fetch default filter configurations", Cause: f.Err.Error(),
		})
	}
	return problems
}
