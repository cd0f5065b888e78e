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
	// Compiled is false for an object without routes because of its class, or because validation refused it.
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
	// Clones are the copies of the route by the clone rules of the options, even if it was left out. They are in the table if
	// Wins is true.
	Clones []*table.Route
	// Main is false for a companion of another route, such as a redirect.
	Main bool
	// Keeper is the other object that has the id. It is the zero Ref if this object has it, or if the other route belongs only
	// to the server.
	Keeper kube.Ref
	// Wins is false for a route that is not in the table because another one has its id.
	Wins bool
}

// ProblemsOf returns the problems of one object in the order of detection. The slice must not be changed. It costs O(log
// problems).
func (r *Result) ProblemsOf(owner kube.Ref) []rules.Problem {
	from, _ := slices.BinarySearchFunc(r.Problems, owner, func(p rules.Problem, o kube.Ref) int { return p.Owner.Compare(o) })
	to := from
	for to < len(r.Problems) && r.Problems[to].Owner == owner {
		to++
	}
	return r.Problems[from:to:to]
}

// Inspect describes an Ingress or RouteGroup. ok is false if the snapshot has none with that name. It searches all objects.
func (r *Result) Inspect(ref kube.Ref) (Inspection, bool) {
	a := r.all
	i, found := a.objects.search(ref)
	if !found {
		return Inspection{}, false
	}
	o := &a.objects[i]
	in := Inspection{Object: o.Routed, Compiled: !o.unit.Refused, Problems: r.ProblemsOf(o.Ref()), Services: o.unit.Services()}
	var texts rules.Texts
	for i := range a.sections {
		if s := &a.sections[i]; s.asker() == o {
			for at := range s.routes {
				in.Routes = append(in.Routes, a.claims.inspect(claim{s, at}, &texts))
			}
		}
	}
	return in, true
}

// inspect describes a route.
func (c *claims) inspect(of claim, texts *rules.Texts) InspectedRoute {
	u, r := of.section.unit, of.route()
	found := InspectedRoute{ID: texts.ID(u, r), Route: texts.Route(u, r), Main: r.Match != 0, Wins: c.has(r)}
	if !found.Wins {
		found.Keeper = c.contenders[found.ID][0].section.owner()
	}
	found.Clones = slices.Collect(texts.Rows(u, r))
	if found.Route != nil {
		found.Clones = found.Clones[1:]
	}
	return found
}

// Claims returns the compiled objects that have the host, sorted. It searches all objects.
func (r *Result) Claims(host string) []kube.Ref {
	var owners []kube.Ref
	for _, o := range r.all.objects {
		if !o.unit.Refused && slices.Contains(o.Hosts(), host) {
			owners = append(owners, o.Ref())
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
	// CatchAlls are the catch-alls that would replace others in the table. Some of them may already be in the table.
	CatchAlls, ReplacedCatchAlls []*table.Route
	// Problems are the problems that the object would have, of severity warning and error, in the order of [Result.Problems].
	Problems []rules.Problem
}

// Try compiles an Ingress or a RouteGroup as if it were in the snapshot, replacing an existing object of the same kind and name.
// It stores nothing.
//
// It returns the problems that [Compiler.Compile] would report for the object, so the admission webhook and /problems agree. It
// takes time proportional to the size of the object.
func (r *Result) Try(o kube.Object) (Trial, error) { return r.try(o, r.all.view) }

// Foresee is Try with Services, Endpoints and slices in addition to the snapshot's; nil means none. The result also includes the
// routes that the object will have, without a change to it, once each of its Services has endpoints and the ports that the object
// names.
func (r *Result) Foresee(o kube.Object, b *kube.Backends) (Trial, error) {
	view := r.all.view
	if b != nil {
		view = r.all.rules.With(view, b)
	}
	now, err := r.try(o, view)
	if err != nil || now.Skipped {
		return now, err
	}
	wanted := rules.Wanted(o.(kube.Routed))
	if view.Has(wanted) {
		return now, nil
	}
	later, err := r.try(o, r.all.rules.With(view, wanted))
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

// try is Try with a view of the backends.
func (r *Result) try(o kube.Object, view *rules.View) (Trial, error) {
	a := r.all
	routed, ok := o.(kube.Routed)
	if !ok {
		return Trial{}, fmt.Errorf("%s has no routes", o.Ref())
	}
	tried := &object{Routed: routed}
	var old *object
	if i, found := a.objects.search(o.Ref()); found {
		old = &a.objects[i]
	}
	tried.unit = a.rules.Compile(o, view.Before(o.Ref()))
	was, is := a.hostsWith(tried, old)
	own := slices.Collect(claimsOf(append(tried.sections(nil), a.catchAlls(is, []*assembly{a})...)))
	var replaced []claim
	for c := range a.claims.all {
		if _, host := was[c.section.host]; old != nil && c.section.asker() == old || c.section.catchAll && host {
			replaced = append(replaced, c)
		}
	}
	others := a.claims.concerned(own, replaced)
	all := newClaims(slices.Values(slices.Concat(own, others)))

	var result Trial
	var texts rules.Texts
	for _, c := range own {
		if !c.section.catchAll {
			result.Routes = append(result.Routes, all.inspect(c, &texts))
		}
	}
	result.CatchAlls = all.catchAlls(slices.Concat(own, others), &texts)
	result.ReplacedCatchAlls = a.claims.catchAlls(slices.Concat(replaced, others), &texts)
	for _, p := range tried.unit.Problems() {
		result.Skipped = result.Skipped || p.Reason == rules.NotSelected
		if p.Severity > rules.Info {
			result.Problems = append(result.Problems, p)
		}
	}
	isOwn := func(c claim) bool { return c.section.object == tried }
	result.Problems = append(result.Problems, all.duplicates(isOwn)...)
	result.Problems = append(result.Problems, all.shadows(isOwn)...)
	return result, nil
}

// hostsWith returns the hosts of an object and of its old version, which may be nil: their current state, and their state with
// the object in place of the old version.
func (a *assembly) hostsWith(tried, old *object) (was, is hosts) {
	was, is = make(hosts), make(hosts)
	for _, o := range []*object{tried, old} {
		for host := range o.groups() {
			was[host] = a.hosts[host]
		}
	}
	add := func(o *object) {
		for host, g := range o.groups() {
			if _, concerned := was[host]; concerned {
				is.add(o, g)
			}
		}
	}
	at, _ := a.objects.search(tried.Ref())
	for i := range a.objects {
		if i == at {
			add(tried)
		}
		if o := &a.objects[i]; o != old {
			add(o)
		}
	}
	if at == len(a.objects) {
		add(tried)
	}
	return was, is
}

// catchAlls returns the catch-alls among some routes, as the table has them.
func (c *claims) catchAlls(among []claim, texts *rules.Texts) (rows []*table.Route) {
	for _, one := range among {
		if r := one.route(); one.section.catchAll && c.has(r) {
			rows = slices.AppendSeq(rows, texts.Rows(one.section.unit, r))
		}
	}
	return rows
}

// concerned returns the routes whose ids depend on some routes and on the routes that they replace: routes that claim the same
// ids or match the same requests, and routes that claim the ids of the latter.
func (c *claims) concerned(others, replaced []claim) []claim {
	ids, matches := make(map[uint64]bool), make(map[uint64]bool)
	without := make(map[*section]bool)
	for _, o := range others {
		ids[o.route().ID] = true
		matches[o.route().Match] = true
	}
	for _, o := range replaced {
		ids[o.route().ID] = true
		without[o.section] = true
	}
	delete(matches, 0)
	each := func(found func(claim)) {
		for other := range c.all {
			if !without[other.section] {
				found(other)
			}
		}
	}
	each(func(other claim) {
		if r := other.route(); matches[r.Match] && !r.LeftOut() {
			ids[r.ID] = true
		}
	})
	var all []claim
	each(func(other claim) {
		if ids[other.route().ID] {
			all = append(all, other)
		}
	})
	return all
}
