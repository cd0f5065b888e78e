// Package compile compiles a snapshot of a cluster into the routes of a routing table, and reports problems of objects. For the
// same objects and options it compiles the same routes as Skipper's route server, the reference; docs/reference/differences.md
// lists the exceptions. Where the reference has a random order, this package has a fixed one.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and after
// every restart. It does no I/O, has no clock and logs nothing.
//
// Package [rules] compiles one object, with what it looks up, into a unit: its printed routes and its problems. This package
// assembles the units of a snapshot into one list. state.go has the sets for that, which a build copies from an earlier one in
// constant time and changes by the difference between the two snapshots; so the cost is proportional to the difference from the
// most similar one of the last builds. Builds share only cached results, which never affect the result.
//
// Every route is printed and parsed back separately. One that fails is left out and reported, so no object can make the table
// unreadable for the fleet.
//
// The order decides which route gets an id that several claim: Ingresses by namespace and name; then hosts in sorted order,
// each with the routes of its objects and its catch-all; then the companions of default backends; then RouteGroups by namespace
// and name; then the routes that depend only on the options.
//
// Other modules should not import it: it may change with every release.
package compile

import (
	"slices"
	"sync/atomic"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Result is the result of compiling a snapshot. It is immutable and safe for concurrent use.
type Result struct {
	Snapshot *kube.Snapshot
	// Routes share unchanged parts with earlier results. The list is packed.
	Routes table.List
	// Problems are sorted by owner. The slice must not be changed.
	Problems []rules.Problem

	state *state
}

// Compiler compiles snapshots with one set of options. Only Latest and Known are safe for concurrent use.
type Compiler struct {
	set    *rules.Set
	fixed  *rules.Unit // the routes of the options
	latest atomic.Pointer[Result]
	recent atomic.Pointer[[]*Result] // of the last builds, the last one first; nil before the first one, and after a panic
}

// remembered is how many builds are cached: enough for a few snapshots in turn while objects are kept.
const remembered = 5

// New returns a Compiler. The error names an invalid option.
func New(o rules.Options) (*Compiler, error) {
	set, err := rules.New(o)
	if err != nil {
		return nil, err
	}
	return &Compiler{set: set, fixed: set.Fixed()}, nil
}

// Compile compiles the snapshot. A snapshot with the same objects as the previous one returns the same *Result.
func (c *Compiler) Compile(s *kube.Snapshot) *Result {
	before := c.latest.Load()
	if before != nil && s.SameObjects(before.Snapshot) {
		return before
	}
	next := *c.result(s)
	next.Problems = next.problems()
	c.latest.Store(&next)
	return &next
}

// CompileBeside returns the routes of a snapshot other than the latest one, such as one with objects at earlier versions.
func (c *Compiler) CompileBeside(s *kube.Snapshot) table.List { return c.result(s).Routes }

// Forget frees the results of all builds but the last two.
func (c *Compiler) Forget() {
	recent := slices.Clone(c.builds())
	recent = recent[:min(len(recent), 2)]
	c.recent.Store(&recent)
}

func (c *Compiler) builds() []*Result {
	if recent := c.recent.Load(); recent != nil {
		return *recent
	}
	return nil
}

func (c *Compiler) result(s *kube.Snapshot) *Result {
	recent := c.builds()
	c.recent.Store(nil) // restored at the end: no cached result may be used after a panic
	next := known(recent, s)
	if next == nil {
		next = c.build(s, recent)
	}
	recent = slices.DeleteFunc(slices.Clone(recent), func(r *Result) bool { return r == next })
	recent = slices.Insert(recent[:min(len(recent), remembered-1)], 0, next)
	c.recent.Store(&recent)
	return next
}

func known(recent []*Result, s *kube.Snapshot) *Result {
	for _, r := range recent {
		if s != nil && s.SameObjects(r.Snapshot) {
			return r
		}
	}
	return nil
}

// Latest returns the result of the last call of Compile, or nil before the first one.
func (c *Compiler) Latest() *Result { return c.latest.Load() }

// Known returns the result of one of the last builds with the same objects, without problems; nil if there is none.
func (c *Compiler) Known(s *kube.Snapshot) *Result { return known(c.builds(), s) }

// Beside compiles another snapshot with the same options. It changes nothing, and its cost is proportional to the differences.
func (r *Result) Beside(s *kube.Snapshot) *Result {
	c := &Compiler{set: r.state.rules, fixed: r.state.fixed.unit}
	next := c.build(s, []*Result{r})
	next.Problems = next.problems()
	return next
}

// Addresses returns the ready addresses of a service, sorted as strings.
func (r *Result) Addresses(namespace, name string) []string {
	return r.state.view.Addresses(namespace, name)
}

// RoutesOf returns the printed routes of an object in one of the last snapshots; none if it was not compiled.
func (c *Compiler) RoutesOf(o kube.Object) []*table.Route {
	if u := c.unitOf(o); u != nil {
		return u.Routes()
	}
	return nil
}

// ServicesOf returns the services that an object of one of the last snapshots referenced, including missing ones.
func (c *Compiler) ServicesOf(o kube.Object) []kube.ServiceKey {
	u := c.unitOf(o)
	if u == nil {
		return nil
	}
	var keys []kube.ServiceKey
	for _, s := range u.Services() {
		keys = append(keys, s.Key)
	}
	return keys
}

// unitOf returns the unit of an object. Those of the latest snapshot stay known, however many others are compiled.
func (c *Compiler) unitOf(o kube.Object) *rules.Unit {
	builds := slices.Clip(c.builds())
	if latest := c.latest.Load(); latest != nil {
		builds = append(builds, latest)
	}
	for _, r := range builds {
		if known := r.state.find(o.Ref()); known != nil && known.Routed == o {
			return known.unit
		}
	}
	return nil
}

// OwnersOf returns the owners of routes of the last build, by id. Ids of routes that belong only to the server are omitted.
func (c *Compiler) OwnersOf(ids []string) map[string]kube.Ref {
	owners := make(map[string]kube.Ref)
	if recent := c.builds(); len(recent) > 0 {
		for _, id := range ids {
			if owner, ok := recent[0].OwnerOf(id); ok {
				owners[id] = owner
			}
		}
	}
	return owners
}

// OwnerOf returns the owner of a route of the table, if it has one; of a catch-all it is the oldest object with the host.
func (r *Result) OwnerOf(id string) (owner kube.Ref, ok bool) {
	c, ok := r.claimOf(id)
	if !ok || c.section.object == nil {
		return kube.Ref{}, false
	}
	return c.section.owner(), true
}

// AskerOf returns the object that requested a route of the table. ok is false for the routes of none, such as catch-alls.
func (r *Result) AskerOf(id string) (asker kube.Ref, ok bool) {
	c, ok := r.claimOf(id)
	if !ok || c.section.asker() == nil {
		return kube.Ref{}, false
	}
	return c.section.owner(), true
}

func (r *Result) claimOf(id string) (found claim, ok bool) {
	for c := range with(r.state.ids, rules.HashID(routeid.Original(id))) {
		if r.state.has(c) {
			return c, true
		}
	}
	return found, false
}
