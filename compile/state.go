package compile

import (
	"iter"
	"sync"

	"github.com/tidwall/btree"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// state is everything from which the list of routes of a snapshot is built, in ordered sets. States derived from each other
// share all nodes of sets that do not differ. It is immutable once it is settled.
type state struct {
	rules *rules.Set
	view  *rules.View
	fixed *section // the routes of the options

	objects  *set[*object] // by name
	volatile *set[*object] // whose units are compiled in each build
	faulty   *set[*object] // with problems
	uses     *set[use]
	shares   *set[share]
	hosts    *set[*host]
	// faultyHosts have catch-alls with problems.
	faultyHosts *set[*host]
	// ids are all routes by the hashes of their ids, matches by the hashes of what they match. contests are the ids that
	// several routes claim, shadows the problems of routes that match the same.
	ids, matches *set[entry]
	contests     *set[*contest]
	shadows      *set[shadow]

	// ambiguous means that several objects have the same name. No other state is derived from this one.
	ambiguous bool
	// ordinary and companions are the numbers of routes that the reference logs.
	ordinary, companions int

	copying sync.Mutex // copying a set changes it
}

// set is an ordered set that is copied in constant time. Copies share the nodes that neither has changed.
type set[T any] = btree.BTreeG[T]

func newSet[T any](compare func(a, b T) int) *set[T] {
	return btree.NewBTreeGOptions(func(a, b T) bool { return compare(a, b) < 0 }, btree.Options{NoLocks: true})
}

func from[T any](s *set[T], pivot T) iter.Seq[T] {
	return func(yield func(T) bool) { s.Ascend(pivot, yield) }
}

func all[T any](s *set[T]) iter.Seq[T] { return s.Scan }

func newState(set *rules.Set, fixed *rules.Unit) *state {
	s := &state{
		rules: set, fixed: &section{rank: fromOptions, unit: fixed, routes: fixed.Global},
		objects: newSet(compareObjects), volatile: newSet(compareObjects), faulty: newSet(compareObjects),
		uses: newSet(use.compare), shares: newSet(share.compare), hosts: newSet((*host).compare), faultyHosts: newSet((*host).compare),
		ids: newSet(entry.compare), matches: newSet(entry.compare),
		contests: newSet((*contest).compare), shadows: newSet(shadow.compare),
	}
	return s
}

func (s *state) change() *change {
	s.copying.Lock()
	defer s.copying.Unlock()
	return &change{before: s, touched: make(map[string]struct{}), state: &state{
		rules: s.rules, view: s.view, fixed: s.fixed, ordinary: s.ordinary, companions: s.companions,
		objects: s.objects.Copy(), volatile: s.volatile.Copy(), faulty: s.faulty.Copy(), uses: s.uses.Copy(), shares: s.shares.Copy(),
		hosts: s.hosts.Copy(), faultyHosts: s.faultyHosts.Copy(), ids: s.ids.Copy(), matches: s.matches.Copy(),
		contests: s.contests.Copy(), shadows: s.shadows.Copy(),
	}}
}

func (s *state) find(ref kube.Ref) *object {
	o, _ := s.objects.Get(named(ref))
	return o
}

type use struct {
	key    kube.ServiceKey
	object *object // nil in a pivot
}

func (u use) compare(o use) int {
	if c := u.key.Compare(o.key); c != 0 {
		return c
	}
	return comparePivots(u.object, o.object)
}

// change is a state that is being derived from another one.
type change struct {
	*state
	before         *state
	touched        map[string]struct{} // hosts whose objects differ
	removed, added []claim
}

func (c *change) remove(o *object) {
	c.objects.Delete(o)
	c.volatile.Delete(o)
	c.faulty.Delete(o)
	for _, s := range o.unit.Services() {
		c.uses.Delete(use{s.Key, o})
	}
	for s := range o.shares() {
		c.shares.Delete(s)
		c.touched[s.host] = struct{}{}
	}
	for i := range o.sections {
		c.count(&o.sections[i], -1)
		for one := range o.sections[i].claims() {
			c.removed = append(c.removed, one)
		}
	}
}

func (c *change) add(o *object) {
	c.objects.Load(o)
	if o.unit.Volatile() {
		c.volatile.Set(o)
	}
	if len(o.unit.Problems()) > 0 {
		c.faulty.Set(o)
	}
	for _, s := range o.unit.Services() {
		c.uses.Set(use{s.Key, o})
	}
	for s := range o.shares() {
		c.shares.Set(s)
		c.touched[s.host] = struct{}{}
	}
	for i := range o.sections {
		c.count(&o.sections[i], 1)
		for one := range o.sections[i].claims() {
			c.added = append(c.added, one)
		}
	}
}

func (c *change) count(s *section, sign int) {
	switch s.rank {
	case fromIngress, fromHost:
		c.ordinary += sign * len(s.routes)
	case fromCompanions:
		c.companions += sign * len(s.routes)
	}
}

func (c *change) settle() {
	if c.before.ids.Len() == 0 {
		for one := range c.fixed.claims() {
			c.added = append(c.added, one)
		}
	}
	c.settleHosts()
	c.settleIDs()
}
