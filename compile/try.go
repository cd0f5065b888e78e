package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// Trial is the result of compiling an object on trial.
type Trial struct {
	// Skipped means that the object has another class and produces no routes.
	Skipped bool
	// Routes is how many routes the object requests, not including its share of a catch-all.
	Routes int
	// Problems are the problems that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []rules.Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the latest snapshot, replacing an existing object of the same kind and
// name. It stores nothing. Before the first snapshot, lookups find nothing and there are no default filters.
//
// The problems are those that [Compiler.Compile] would report for the object, so the admission webhook and /problems agree. It
// costs as much as the object.
func (c *Compiler) Try(o kube.Object) (Trial, error) {
	switch o.(type) {
	case *kube.Ingress, *kube.RouteGroup:
	default:
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	tried := newObject(c.memo.rules, o)
	switch p := tried.refused; {
	case p == nil:
	case p.Reason == rules.NotSelected:
		return Trial{Skipped: true}, nil
	default:
		return Trial{Problems: []rules.Problem{*p}}, nil
	}
	a := &assembly{claims: newClaims(nil), view: c.memo.view}
	if c.latest != nil {
		a = c.latest.all
	}
	return a.try(c.memo.rules, tried), nil
}

// try compiles an object as if the assembly had it.
func (a *assembly) try(set *rules.Set, o *object) Trial {
	k := &a.ingresses
	if _, ok := o.Object.(*kube.RouteGroup); ok {
		k = &a.groups
	}
	var old *object
	i, found := k.search(o.meta)
	at := placed(i) - 1
	if found {
		old, at = k.sorted[i].object, placed(i)
	}
	u := set.Compile(o.Object, a.view.Before(at), at)

	t := trial{claims: a.claims, old: old, own: newClaims(compiled{o, u}.sections(nil, at)), ids: make(map[string][]claim)}
	result := Trial{Routes: len(t.own.places)}
	for _, p := range u.Problems() {
		if p.Severity > rules.Info {
			result.Problems = append(result.Problems, p)
		}
	}
	result.Problems = append(result.Problems, t.duplicates()...)
	result.Problems = append(result.Problems, t.shadows()...)
	return result
}

// trial is an object among the claims of all others.
type trial struct {
	claims *claims // with the replaced object
	old    *object // nil if the object is new
	own    *claims
	texts  rules.Texts
	ids    map[string][]claim // what rivals has found
}

// all returns the routes with a hash: those of the tried object, and of all others but the replaced one.
func (t *trial) all(hash uint64, in func(*claims) *chains) []claim {
	others := slices.DeleteFunc(t.claims.with(in(t.claims), hash), func(c claim) bool { return t.old != nil && c.section.asker() == t.old })
	return append(others, t.own.with(in(t.own), hash)...)
}

func idsOf(c *claims) *chains     { return c.ids }
func matchesOf(c *claims) *chains { return c.matches }

// rivals returns all routes that would want the id of a route, the winner first.
func (t *trial) rivals(of claim) (id string, all []claim) {
	id = t.texts.ID(of.section.unit, of.route())
	if known, ok := t.ids[id]; ok {
		return id, known
	}
	all = t.all(of.route().ID, idsOf)
	all = oldest(slices.DeleteFunc(all, func(c claim) bool { return t.texts.ID(c.section.unit, c.route()) != id }))
	t.ids[id] = all
	return id, all
}

// isOther reports whether a route belongs to another object.
func (t *trial) isOther(c claim) bool { return c.section.asker() != t.own.sections[0].object }

// duplicates reports the routes of the object that would not get their id.
func (t *trial) duplicates() []rules.Problem {
	var problems []rules.Problem
	for _, p := range t.own.places {
		t.rivals(t.own.claim(p))
	}
	for _, id := range slices.Sorted(maps.Keys(t.ids)) {
		all := t.ids[id]
		problems = appendDuplicates(problems, id, slices.Concat(all[:1], slices.DeleteFunc(slices.Clone(all[1:]), t.isOther)), &t.texts)
	}
	return problems
}

// shadows reports the routes of the object that would match the same as a route of an older object.
func (t *trial) shadows() []rules.Problem {
	var problems []rules.Problem
	seen := make(map[uint64]bool)
	out := func(c claim) bool {
		_, all := t.rivals(c)
		return c.route().LeftOut() || all[0].route() != c.route()
	}
	for _, p := range t.own.places {
		match := t.own.claim(p).route().Match
		if match == 0 || seen[match] {
			continue
		}
		seen[match] = true
		all := slices.DeleteFunc(t.all(match, matchesOf), out)
		if len(all) == 0 || !t.isOther(oldest(all)[0]) {
			continue
		}
		for _, c := range all[1:] {
			if !t.isOther(c) {
				problems = append(problems, shadow(c, all[0], &t.texts))
			}
		}
	}
	slices.SortStableFunc(problems, func(a, b rules.Problem) int { return strings.Compare(a.Route, b.Route) })
	return problems
}
