package compile

import (
	"fmt"
	"slices"

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

// Try compiles an Ingress or a RouteGroup as if it were in the snapshot, replacing an existing object of the same kind and name. It
// stores nothing.
//
// The problems are those that [Compiler.Compile] would report for the object, so the admission webhook and /problems agree. It
// costs as much as the object.
func (r *Result) Try(o kube.Object) (Trial, error) {
	a := r.all
	k := &a.ingresses
	switch o.(type) {
	case *kube.Ingress:
	case *kube.RouteGroup:
		k = &a.groups
	default:
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	tried := newObject(a.rules, o)
	switch p := tried.refused; {
	case p == nil:
	case p.Reason == rules.NotSelected:
		return Trial{Skipped: true}, nil
	default:
		return Trial{Problems: []rules.Problem{*p}}, nil
	}
	var old *object
	i, found := k.search(tried.meta)
	at := placed(i) - 1
	if found {
		old, at = k.sorted[i].object, placed(i)
	}
	u := a.rules.Compile(o, a.view.Before(at), at)
	own := slices.Collect(claimsOf(compiled{tried, u}.sections(nil, at)))
	all := newClaims(slices.Concat(own, a.claims.concerned(own, old)))

	result := Trial{Routes: len(own)}
	for _, p := range u.Problems() {
		if p.Severity > rules.Info {
			result.Problems = append(result.Problems, p)
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
	var all []claim
	known := make(map[*rules.Route]bool)
	add := func(claims []claim) {
		for _, claim := range claims {
			if r := claim.route(); !known[r] && (without == nil || claim.section.asker() != without) {
				known[r] = true
				all = append(all, claim)
			}
		}
	}
	for _, claim := range of {
		add(c.with(c.ids, claim.route().ID))
		add(c.with(c.matches, claim.route().Match))
	}
	for _, claim := range all {
		add(c.with(c.ids, claim.route().ID))
	}
	return all
}
