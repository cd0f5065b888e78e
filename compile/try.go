package compile

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Trial is the result of compiling an object on trial.
type Trial struct {
	// Skipped means that the object has another class and produces no routes.
	Skipped bool
	// Routes are the routes that the object requests, not including its share of a catch-all.
	Routes []InspectedRoute
	// CatchAlls are the catch-alls of hosts that no object of the snapshot has.
	CatchAlls []*table.Route
	// Problems are the problems that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []rules.Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the snapshot, replacing an existing object of the same kind and name. It
// stores nothing.
//
// The problems are those that [Compiler.Compile] would report for the object, so the admission webhook and /problems agree. It
// costs as much as the object.
func (r *Result) Try(o kube.Object) (Trial, error) {
	a := r.all
	tried := &object{Object: o}
	if tried.meta() == nil {
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	var old *object
	if i, found := a.objects.search(o.Ref()); found {
		old = &a.objects[i]
	}
	tried.unit = a.rules.Compile(o, a.view.Before(o.Ref()))
	own := slices.Collect(claimsOf(tried.sections(nil)))
	all := newClaims(slices.Values(slices.Concat(own, a.claims.concerned(own, old))))

	var result Trial
	var texts rules.Texts
	for _, c := range own {
		result.Routes = append(result.Routes, all.inspect(c, &texts))
	}
	for _, p := range tried.unit.Problems() {
		result.Skipped = result.Skipped || p.Reason == rules.NotSelected
		if p.Severity > rules.Info {
			result.Problems = append(result.Problems, p)
		}
	}
	for i := range tried.unit.Groups {
		g := &tried.unit.Groups[i]
		if a.hosts[g.Host] == nil && !g.CatchAll && !a.rules.DisableCatchAllRoutes {
			result.CatchAlls = append(result.CatchAlls, a.rules.CatchAll(g.Host, g.Redirect, g.FirstHosts).Routes()...)
		}
	}
	isOwn := func(c claim) bool { return c.section.asker() == tried }
	result.Problems = append(result.Problems, all.duplicates(isOwn)...)
	result.Problems = append(result.Problems, all.shadows(isOwn)...)
	return result, nil
}

// concerned returns the routes that decide about some others: those that want the same ids or match the same, and those that want the
// ids of the latter. Routes of the object without, if it is not nil, are left out.
func (c *claims) concerned(of []claim, without *object) []claim {
	ids, matches := make(map[uint64]bool), make(map[uint64]bool)
	for _, o := range of {
		ids[o.route().ID] = true
		matches[o.route().Match] = true
	}
	delete(matches, 0)
	others := func(found func(claim)) {
		for other := range c.all {
			if without == nil || other.section.asker() != without {
				found(other)
			}
		}
	}
	others(func(other claim) {
		if r := other.route(); matches[r.Match] && !r.LeftOut() {
			ids[r.ID] = true
		}
	})
	var all []claim
	others(func(other claim) {
		if ids[other.route().ID] {
			all = append(all, other)
		}
	})
	return all
}
