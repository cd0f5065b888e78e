// Package compile turns a snapshot of a cluster into the routes of a routing table, and into the problems that were
// met on the way.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and
// after every restart. It does no I/O, has no clock and logs nothing; what there is to say it returns as [Problem]s,
// with the text that the reference logs. What the reference leaves to chance is fixed here: host groups are taken in
// sorted order.
//
// # Isolation
//
// Every route is printed, and read back alone. A route that does not survive is left out and is a problem of the object
// that asked for it, so no object can make the table unreadable for the fleet; and an object that is broken in itself
// costs its own routes only.
//
// # Cost
//
// Each object is compiled by itself into a unit, which is remembered together with what it looked up: its services, their
// endpoints, its secrets. As long as all of these are the same pointers (see package kube), the unit is used again. What
// is shared between objects is put together anew each time: catch-all routes, duplicate ids, order. The memory changes the
// cost of a result and never the result.
//
// # Passes
//
// Ingresses in order of namespace and name, then RouteGroups likewise; then host groups with their catch-alls; then the
// global routes; then ids are made unique, the first route of an id winning; then everything is sorted by id.
package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Result is what a snapshot compiles to. It is immutable and shared: do not change the slices.
type Result struct {
	// Routes have unique ids and are sorted by them.
	Routes []table.Route
	// Problems are sorted by owner.
	Problems []Problem
}

// Compiler compiles snapshots with one set of options. It is not safe for concurrent use.
type Compiler struct {
	set *settings

	// Memory of the compilation before; all of it only saves work.
	snapshot *kube.Snapshot
	result   *Result
	cluster  *cluster
	units    map[kube.Object]*unit
	catchAll map[catchAllKey]*catchAllUnit
	fixed    *fixedRoutes
	size     int // routes before duplicates were left out
}

// New makes a Compiler. The error names the option that cannot be used.
func New(o Options) (*Compiler, error) {
	set, err := newSettings(o)
	if err != nil {
		return nil, err
	}
	return &Compiler{set: set}, nil
}

// Compile compiles the snapshot. A snapshot of the very same objects as the one before gives the same *Result.
func (c *Compiler) Compile(s *kube.Snapshot) *Result {
	if c.result != nil && s.SameObjects(c.snapshot) {
		return c.result
	}
	if c.snapshot != nil && c.snapshot.DefaultFilters != s.DefaultFilters {
		c.units = nil // every unit may have used them, and they hardly ever change
	}
	before := c.cluster
	cl, problems := newCluster(s, c.set.EndpointSlices, before)
	problems = append(problems, snapshotProblems(s)...)

	ingresses, groups, invalid := c.selectObjects(s)
	problems = append(problems, invalid...)
	kept := make(map[kube.Object]*unit, len(ingresses)+len(groups))
	units := make([]*unit, 0, len(ingresses)+len(groups))
	for _, ing := range ingresses {
		units = append(units, c.remember(kept, ing, cl, func() *unit { return compileIngress(c.set, cl, ing) }))
	}
	for _, rg := range groups {
		units = append(units, c.remember(kept, rg, cl, func() *unit { return compileRouteGroup(c.set, cl, rg) }))
	}
	for _, u := range units {
		problems = append(problems, u.list...)
	}
	problems = append(problems, registerCertificates(units)...)

	routes, more := c.assemble(units[:len(ingresses)], units[len(ingresses):])
	problems = append(problems, more...)
	sortProblems(problems)

	c.snapshot, c.cluster, c.units = s, cl, kept
	c.result = &Result{Routes: routes, Problems: problems}
	return c.result
}

// remember gives the unit of an object: the one from before if nothing that it depends on has changed.
func (c *Compiler) remember(kept map[kube.Object]*unit, o kube.Object, cl *cluster, build func() *unit) *unit {
	u := c.units[o]
	if u == nil || !u.lookups.holds(cl) {
		u = build()
	}
	u.lookups.cluster = cl // the next check is against what this cluster gives; the one before is let go
	kept[o] = u
	return u
}

// selectObjects picks the objects of the right class, in the order of namespace and name. RouteGroups are validated
// before their class is looked at, so those of foreign classes are reported, too.
func (c *Compiler) selectObjects(s *kube.Snapshot) (ingresses []*kube.Ingress, groups []*kube.RouteGroup, problems []Problem) {
	for _, ing := range s.Ingresses {
		if c.ingressClassFits(ing) {
			ingresses = append(ingresses, ing)
		}
	}
	slices.SortStableFunc(ingresses, func(a, b *kube.Ingress) int { return compareMeta(&a.Meta, &b.Meta) })

	for _, rg := range s.RouteGroups {
		if err := validateRouteGroup(rg); err != nil {
			problems = append(problems, Problem{
				Owner: rg.Ref(), Reason: InvalidObject, Severity: Error, Plain: true, Message: "[routegroup] " + err.Error(),
			})
			continue
		}
		if class := rg.Annotations[routeGroupClassAnnotation]; class == "" || c.set.routeGroupClass.MatchString(class) {
			groups = append(groups, rg)
		}
	}
	slices.SortStableFunc(groups, func(a, b *kube.RouteGroup) int { return compareMeta(&a.Meta, &b.Meta) })
	return ingresses, groups, problems
}

func compareMeta(a, b *kube.Meta) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// ingressClassFits looks at the annotation and at the field: each that is set has to match.
func (c *Compiler) ingressClassFits(ing *kube.Ingress) bool {
	if class := ing.Annotations[ingressClassAnnotation]; class != "" && !c.set.ingressClass.MatchString(class) {
		return false
	}
	return ing.Spec == nil || ing.Spec.IngressClassName == "" || c.set.ingressClass.MatchString(ing.Spec.IngressClassName)
}

// snapshotProblems are those that the read itself found.
func snapshotProblems(s *kube.Snapshot) []Problem {
	var problems []Problem
	for _, b := range s.Bad {
		problems = append(problems, Problem{
			Owner: b.Ref, Reason: Undecodable, Severity: Error, Plain: true, Message: b.Err.Error(),
		})
	}
	if f := s.DefaultFilters; f != nil && f.Err != nil {
		problems = append(problems, Problem{
			Reason: DefaultFilters, Severity: Error, Plain: true,
			Message: "could not fetch default filter configurations: " + f.Err.Error(),
		})
	}
	return problems
}
