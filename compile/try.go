package compile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Trial is what an object would compile to.
type Trial struct {
	// Skipped says that the object is of another class: it gives no routes.
	Skipped bool
	// Routes is how many routes the object asks for, its share of a catch-all not counted.
	Routes int
	// Problems are those that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the latest snapshot, in the place of the object of its kind with its
// name, if there is one. Nothing is remembered. Before the first snapshot there is nothing to look up, and no default filters.
//
// The problems are those that [Compiler.Compile] would report for the object: one admission and one reader of problems see the
// same. It costs what one object costs, unless it wants an id that another object has: then all routes are looked through.
func (c *Compiler) Try(o kube.Object) (Trial, error) {
	m := c.memory
	if m == nil {
		m = newMemory(c.set, nil, table.List{})
		m.candidates.watchMatches()
	}
	t := trial{memory: m}
	var kind *objects
	switch of := o.(type) {
	case *kube.Ingress:
		kind, t.object = &m.ingresses, m.admitIngress(of)
	case *kube.RouteGroup:
		kind, t.object = &m.groups, m.admitRouteGroup(of)
	default:
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	switch {
	case t.object.refused != nil:
		return Trial{Problems: []Problem{*t.object.refused}}, nil
	case t.object.skipped != nil:
		return Trial{Skipped: true}, nil
	}
	t.replace(kind)
	return t.compile(), nil
}

// trial is the attempt to put an object into a memory, which is only read.
type trial struct {
	*memory
	object *object
	old    *object // in whose place it would be; nil if it is new
}

// replace finds the place of the object.
func (t *trial) replace(kind *objects) {
	i, found := kind.search(t.object)
	if t.object.at = placed(i) - 1; found {
		t.old = kind.sorted[i]
		t.object.at = t.old.at
	}
}

func (t *trial) compile() Trial {
	resolved := t.cluster.resolved
	t.cluster.resolved = maps.Clone(resolved)
	// What the objects behind this one have resolved, and the one in its place, it would resolve before them.
	maps.DeleteFunc(t.cluster.resolved, func(_ endpointsKey, r resolution) bool { return r.at >= t.object.at })
	defer func() { t.cluster.resolved = resolved }()
	t.object.unit = (&step{memory: t.memory}).make(t.object)

	all := t.tried()
	result := Trial{Routes: len(all)}
	for _, p := range t.object.unit.list {
		if p.Severity > Info {
			result.Problems = append(result.Problems, p)
		}
	}
	result.Problems = append(result.Problems, t.duplicates(all)...)
	result.Problems = append(result.Problems, t.shadows(all)...)
	return result
}

// stand is a route with what decides who comes first.
type stand struct {
	route  *made
	object *object // that asked for it; nil if none did
	owner  kube.Ref
	order  order
}

// order is the place of a route in the order of the reference.
type order struct {
	rank   rank
	host   string
	object int
	at     int
}

func compareStands(a, b stand) int {
	x, y := a.order, b.order
	return cmp.Or(cmp.Compare(x.rank, y.rank), strings.Compare(x.host, y.host), cmp.Compare(x.object, y.object), cmp.Compare(x.at, y.at))
}

// oldestStand gives the one that comes first, by the rule of [oldest].
func oldestStand(all []stand) stand {
	slices.SortStableFunc(all, compareStands)
	first, created := all[0], all[0].created()
	for _, s := range all[1:] {
		if c := s.created(); c != 0 && created != 0 && c < created {
			first, created = s, c
		}
	}
	return first
}

func (s stand) created() int64 {
	if s.object == nil {
		return 0
	}
	return s.object.meta.Created
}

// tried are the routes of the object that is tried.
func (t *trial) tried() []stand {
	rank := fromIngress
	if _, ok := t.object.Object.(*kube.RouteGroup); ok {
		rank = fromRouteGroup
	}
	u := t.object.unit
	all := t.stands(nil, u.global, order{rank: rank})
	all = t.stands(all, u.companions, order{rank: fromCompanions})
	for i := range u.groups {
		all = t.stands(all, u.groups[i].routes, order{rank: fromHost, host: u.groups[i].host})
	}
	return all
}

func (t *trial) stands(all []stand, routes []made, at order) []stand {
	at.object = t.object.at
	for i := range routes {
		at.at = i
		all = append(all, stand{&routes[i], t.object, t.object.unit.owner, at})
	}
	return all
}

// known makes a stand of a route of the memory.
func known(p place) stand {
	s := stand{p.route(), p.asker(), p.owner(), order{p.section.rank, p.section.host, math.MaxInt, p.at}}
	if s.object != nil {
		s.order.object = s.object.at
	}
	return s
}

// others drops the routes of the object that would be replaced.
func (t *trial) others(places []place) []stand {
	var all []stand
	for _, p := range places {
		if s := known(p); t.old == nil || s.object != t.old {
			all = append(all, s)
		}
	}
	return all
}

// wanting gives the routes of other objects that want the id.
func (t *trial) wanting(id string) []stand {
	if rivals := t.candidates.rivals[id]; rivals != nil {
		return t.others(rivals)
	}
	if t.routes.Get(id) == nil && t.candidates.hidden[id] == 0 || t.oldWants(id) {
		return nil
	}
	for s := range t.sections() {
		for i := range s.routes {
			if s.routes[i].id() == id {
				return t.others([]place{{s, i}}) // it has no rivals
			}
		}
	}
	return nil
}

// oldWants reports whether the object that would be replaced has a route of the id.
func (t *trial) oldWants(id string) bool {
	if t.old == nil || t.old.unit == nil {
		return false
	}
	has := func(routes []made) bool {
		return slices.ContainsFunc(routes, func(m made) bool { return m.id() == id })
	}
	u := t.old.unit
	return has(u.global) || has(u.companions) ||
		slices.ContainsFunc(u.groups, func(g hostGroup) bool { return has(g.routes) })
}

// rivals are all routes that would want an id: those of the object, and those of the others.
func (t *trial) rivals(id string, own []stand) []stand {
	all := t.wanting(id)
	for _, s := range own {
		if s.route.id() == id {
			all = append(all, s)
		}
	}
	return all
}

// duplicates are the routes of the object that would not get their id.
func (t *trial) duplicates(own []stand) []Problem {
	ids := make(map[string]struct{}, len(own))
	for _, s := range own {
		ids[s.route.id()] = struct{}{}
	}
	var problems []Problem
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		all := t.rivals(id, own)
		winner := oldestStand(all)
		for _, s := range all {
			if s.object == t.object && s.route != winner.route && !s.route.sameAs(winner.route) {
				problems = append(problems, duplicate(s.route, s.owner, winner.route, winner.owner))
			}
		}
	}
	return problems
}

// shadows are the routes of the object that match what a route of another object matches, which was there first.
func (t *trial) shadows(own []stand) []Problem {
	inTable := func(s stand) bool {
		return s.route.Route != nil && oldestStand(t.rivals(s.route.id(), own)).route == s.route
	}
	var problems []Problem
	for _, s := range own {
		if s.route.match == 0 || !inTable(s) {
			continue
		}
		all := []stand{s}
		for _, other := range t.others(t.matching(s.route.match)) {
			if inTable(other) {
				all = append(all, other)
			}
		}
		if first := oldestStand(all); first.object != t.object {
			problems = append(problems, shadow(s.route, s.owner, first.route, first.owner))
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Route, b.Route) })
	return problems
}

// matching gives the routes of the memory that match the same.
func (t *trial) matching(match uint64) []place {
	if p, ok := t.candidates.matches.single[match]; ok {
		return []place{p}
	}
	return t.candidates.matches.rivals[match]
}
