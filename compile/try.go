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

// Trial is the result of compiling an object on trial.
type Trial struct {
	// Skipped means that the object has another class and produces no routes.
	Skipped bool
	// Routes is how many routes the object requests, not including its share of a catch-all.
	Routes int
	// Problems are the problems that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the latest snapshot, replacing an existing object of the same kind and
// name. It stores nothing. Before the first snapshot, lookups find nothing and there are no default filters.
//
// The problems are those that [Compiler.Compile] would report for the object, so the admission webhook and /problems agree. It
// costs as much as one object, unless it wants an id that another object has: then it searches all routes.
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

// trial is the attempt to add an object to a memory, which it does not change.
type trial struct {
	*memory
	object *object
	old    *object // the object that it would replace; nil if it is new
}

// replace finds the position of the object.
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
	// Drop what the replaced object and those after it have resolved: the tried object would resolve before them.
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

// stand is a route with the data that decides the order.
type stand struct {
	route  *made
	object *object // that requested it; nil if none did
	owner  kube.Ref
	order  order
}

// order is the position of a route in the order of the reference.
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

// oldestStand returns the first route by the rule of [oldest].
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

// tried returns the routes of the tried object.
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

// known returns the stand of a route of the memory.
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

// wanting returns the routes of other objects that want the id.
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

// oldWants reports whether the replaced object has a route with the id.
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

// rivals returns all routes that would want an id: the tried object's and those of others.
func (t *trial) rivals(id string, own []stand) []stand {
	all := t.wanting(id)
	for _, s := range own {
		if s.route.id() == id {
			all = append(all, s)
		}
	}
	return all
}

// duplicates reports the routes of the object that would not get their id.
func (t *trial) duplicates(own []stand) []Problem {
	ids := make(map[string]struct{}, len(own))
	for _, s := range own {
		ids[s.route.id()] = struct{}{}
	}
	var problems []Problem
	texts := t.texts()
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		all := t.rivals(id, own)
		winner := oldestStand(all)
		for _, s := range all {
			if s.object == t.object && s.route != winner.route && !s.route.sameAs(winner.route, texts) {
				problems = append(problems, duplicate(s.route, s.owner, winner.route, winner.owner, texts))
			}
		}
	}
	return problems
}

// shadows reports the routes of the object that match the same as a route of an older object.
func (t *trial) shadows(own []stand) []Problem {
	inTable := func(s stand) bool {
		return s.route.printed != nil && oldestStand(t.rivals(s.route.id(), own)).route == s.route
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

// matching returns the routes of the memory that match the same.
func (t *trial) matching(match uint64) []place {
	if p, ok := t.candidates.matches.single[match]; ok {
		return []place{p}
	}
	return t.candidates.matches.rivals[match]
}
