package compile

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Inspection describes one object of a snapshot. The data it points to is shared and immutable.
type Inspection struct {
	Object kube.Routed
	// Compiled is false if the class or validation refused the object.
	Compiled bool
	// Problems are in the order of detection.
	Problems []rules.Problem
	Routes   []InspectedRoute
	// Services are the services that the object references, including missing ones, in the order of the lookups.
	Services []rules.Service
}

// InspectedRoute is a route that an object requests.
type InspectedRoute struct {
	ID string
	// Route is nil if it was left out.
	Route *table.Route
	// Clones are the copies of the route by the clone rules, even if it was left out. They are in the table if Wins is true.
	Clones []*table.Route
	// Main is false for a companion of another route, such as a redirect.
	Main bool
	// Keeper is the other object that has the id; the zero Ref for this one, or for none.
	Keeper kube.Ref
	// Wins is false for a route that is not in the table because another one has its id.
	Wins bool
}

// ProblemsOf returns the problems of one object in the order of detection. The slice must not be changed.
func (r *Result) ProblemsOf(owner kube.Ref) []rules.Problem {
	from, _ := slices.BinarySearchFunc(r.Problems, owner, func(p rules.Problem, o kube.Ref) int { return p.Owner.Compare(o) })
	to := from
	for to < len(r.Problems) && r.Problems[to].Owner == owner {
		to++
	}
	return r.Problems[from:to:to]
}

// Inspect describes an Ingress or RouteGroup. ok is false if the snapshot has none with that name.
func (r *Result) Inspect(ref kube.Ref) (Inspection, bool) {
	o := r.state.find(ref)
	if o == nil {
		return Inspection{}, false
	}
	in := Inspection{Object: o.Routed, Compiled: !o.unit.Refused, Problems: r.ProblemsOf(ref), Routes: r.state.inspect(o)}
	for _, s := range o.unit.Services() {
		in.Services = append(in.Services, *s)
	}
	return in, true
}

func (s *state) inspect(o *object) (all []InspectedRoute) {
	var texts rules.Texts
	for i := range o.sections {
		for c := range o.sections[i].claims() {
			r := c.route()
			found := InspectedRoute{ID: texts.ID(o.unit, r), Route: texts.Route(o.unit, r), Main: r.Match != 0, Wins: s.has(c)}
			if !found.Wins {
				found.Keeper = s.contest(c).claims[0].section.owner()
			}
			found.Clones = slices.Collect(texts.Rows(o.unit, r))
			if found.Route != nil {
				found.Clones = found.Clones[1:]
			}
			all = append(all, found)
		}
	}
	return all
}

// Claims returns the compiled objects that have the host, sorted.
func (r *Result) Claims(host string) (owners []kube.Ref) {
	for one := range r.state.sharing(host) {
		if !one.object.unit.Refused {
			owners = append(owners, one.object.Ref())
		}
	}
	return slices.Compact(owners)
}

// Trial is the result of compiling an object on trial.
type Trial struct {
	// Skipped reports that the object has another class and produces no routes.
	Skipped bool
	// Routes are the routes that the object requests, not including its share of a catch-all.
	Routes []InspectedRoute
	// CatchAlls are the catch-alls that would replace others in the table. Some may already be in it.
	CatchAlls, ReplacedCatchAlls []*table.Route
	// Problems are the problems that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []rules.Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the snapshot, and stores nothing. It returns the problems that
// [Compiler.Compile] would report, so the admission webhook and /problems agree.
func (r *Result) Try(o kube.Object) (Trial, error) { return r.try(o, r.state.view) }

// Foresee is Try with more backends than the snapshot's; nil means none. The result also includes the routes that the object
// will have once each of its Services has endpoints and the ports that the object names.
func (r *Result) Foresee(o kube.Object, b *kube.Backends) (Trial, error) {
	view := r.state.view
	if b != nil {
		view = r.state.rules.With(view, b)
	}
	now, err := r.try(o, view)
	if err != nil || now.Skipped {
		return now, err
	}
	wanted := rules.Wanted(o.(kube.Routed))
	if view.Has(wanted) {
		return now, nil
	}
	later, err := r.try(o, r.state.rules.With(view, wanted))
	has := make(map[string]bool)
	for _, route := range now.Routes {
		has[route.ID] = true
	}
	for _, route := range later.Routes {
		if !has[route.ID] {
			now.Routes = append(now.Routes, route)
		}
	}
	now.CatchAlls, now.ReplacedCatchAlls = later.CatchAlls, later.ReplacedCatchAlls
	return now, err
}

func (r *Result) try(o kube.Object, view *rules.View) (Trial, error) {
	routed, ok := o.(kube.Routed)
	if !ok {
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	with := r.state.change()
	if old := with.find(o.Ref()); old != nil {
		with.remove(old)
	}
	tried := newObject(routed, r.state.rules.Compile(o, view.Before(o.Ref())), 0)
	with.add(tried)
	with.settle()

	result, problems := Trial{Routes: with.inspect(tried)}, with.problemsOf(tried)
	gone, fresh := with.differing()
	result.CatchAlls, result.ReplacedCatchAlls = catchAlls(fresh), catchAlls(gone)
	for _, p := range tried.unit.Problems() {
		result.Skipped = result.Skipped || p.Reason == rules.NotSelected
		if p.Severity > rules.Info {
			result.Problems = append(result.Problems, p)
		}
	}
	result.Problems = append(result.Problems, problems...)
	return result, nil
}

// problemsOf returns the problems of an object and its catch-alls caused by ids and by what its routes match.
func (c *change) problemsOf(o *object) []rules.Problem {
	var ofIDs, ofMatches []rules.Problem
	var texts rules.Texts
	contests, matches := make(map[*contest]bool), make(map[uint64]bool)
	for _, one := range c.added {
		if one.section.object != o {
			continue
		}
		if contest, _ := c.contests.Get(&contest{hash: one.route().ID}); contest != nil && !contests[contest] {
			contests[contest] = true
			ofIDs = append(ofIDs, contest.problems(&texts)...)
		}
		if hash := one.route().Match; !matches[hash] {
			matches[hash] = true
			found, _ := c.shadows.Get(shadow{hash: hash})
			ofMatches = append(ofMatches, found.problems...)
		}
	}
	all := slices.Concat(byRoute(ofIDs), byRoute(ofMatches))
	return slices.DeleteFunc(all, func(p rules.Problem) bool { return p.Owner != o.Ref() })
}

func catchAlls(among []claim) (rows []*table.Route) {
	var texts rules.Texts
	for _, one := range among {
		if one.section.catchAll {
			rows = slices.AppendSeq(rows, texts.Rows(one.section.unit, one.route()))
		}
	}
	return rows
}
