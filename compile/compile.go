// Package compile compiles a snapshot of a cluster into the routes of a routing table, and reports problems of objects.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and after every
// restart. It does no I/O, has no clock and logs nothing; it returns findings as [Problem]s, with the text that the reference
// logs. Where the reference has a random order, this package has a fixed one: hosts are in sorted order.
//
// The reference is Skipper's route server, and comments in all packages use the word in this sense. For the same objects and
// options this package compiles the same routes as the reference; docs/reference/differences.md lists the exceptions.
//
// # Rules and build
//
// The rules are package [rules]: they compile one object, with what it looks up (services with their endpoints, default
// filters), into a unit: its routes, printed, and its problems.
//
// The build, this package, assembles the units of a snapshot into one list of routes:
//
//   - objects.go holds the unit of each object, which is recompiled only if the object or a result of its lookups changed, and the
//     order of the reference;
//   - claims.go gives each id to one route, and reports the routes that claim the same id or match the same requests;
//   - assemble.go combines the units with the catch-alls of their hosts, and derives the new list from the previous one, so that the two
//     share equal blocks.
//
// Builds share only cached results, which affect the cost of a build, never its result.
//
// # Isolation
//
// Every route is printed and parsed back separately. A route that fails is left out and reported as a problem of its object, so
// no object can make the table unreadable for the fleet. A broken object loses only its own routes.
//
// # Order
//
// The order decides which route gets an id that several claim: Ingresses by namespace and name; then hosts in sorted order, each
// with the routes of its objects and its catch-all; then the companions of default backends; then RouteGroups by namespace and
// name; then the routes that depend only on the options.
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
	// Routes share unchanged parts with the previous result. The list is packed.
	Routes table.List
	// Problems are sorted by owner. The slice must not be changed.
	Problems []rules.Problem

	all *assembly
}

// Compiler compiles snapshots with one set of options. Latest is safe for concurrent use; the other methods are not. After a
// panic it discards its cached results, because they can no longer be trusted.
type Compiler struct {
	set    *rules.Set
	fixed  *rules.Unit // the routes of the options
	latest atomic.Pointer[Result]
	beside *Result // of the last CompileBeside, without problems; nil after Forget
	recent []memo  // of the last builds, the last one first; nil before the first one, and after a panic
	newest memo    // of latest: the units of its objects stay known, however many other snapshots are compiled
}

// remembered is how many builds are cached: each read of a cluster needs a few builds while objects are kept at earlier versions.
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
	next := c.build(s, before, true)
	c.latest.Store(next)
	c.newest = c.recent[0]
	return next
}

// CompileBeside returns the routes of a snapshot other than the latest one, such as one in which some objects have earlier
// versions. Its cost is proportional to the differences from the latest snapshot and from the snapshot of the previous call. It
// reports no problems: Compile reports them for the latest snapshot.
func (c *Compiler) CompileBeside(s *kube.Snapshot) table.List {
	before := c.beside // successive calls have similar lists, so each is derived from the previous one
	if before == nil {
		before = c.latest.Load()
	} else if s.SameObjects(before.Snapshot) {
		return before.Routes
	}
	c.beside = c.build(s, before, false)
	return c.beside.Routes
}

// Forget frees what CompileBeside keeps for its next call.
func (c *Compiler) Forget() { c.beside = nil }

// build compiles a snapshot. It derives the list of routes from the list of before, unless before is nil.
func (c *Compiler) build(s *kube.Snapshot, before *Result, report bool) *Result {
	recent := c.recent
	c.recent = nil // restored at the end: no cached result may be used after a panic
	var from []*assembly
	for _, r := range []*Result{before, c.latest.Load()} {
		if r != nil && recent != nil {
			from = append(from, r.all)
		}
	}
	if before == nil || recent == nil {
		before = &Result{}
	}
	next := &Result{Snapshot: s, all: c.assemble(s, from, recent)}
	next.Routes = changed(before.Routes, before.all, next.all)
	if report {
		next.Problems = next.problems()
	}
	c.recent = slices.Insert(recent[:min(len(recent), remembered-1)], 0, next.all.objects.memo())
	return next
}

// Latest returns the result of the last call of Compile, or nil before the first one.
func (c *Compiler) Latest() *Result { return c.latest.Load() }

// Beside compiles another snapshot with the same options, such as one in which some objects have earlier versions. It changes nothing, and
// its cost is proportional to the differences. The Result and the compiler may be used meanwhile.
func (r *Result) Beside(s *kube.Snapshot) *Result {
	c := &Compiler{set: r.all.rules, fixed: r.all.fixed, recent: []memo{r.all.objects.memo()}}
	return c.build(s, r, true)
}

// Addresses returns the ready addresses of a service, sorted as strings.
func (r *Result) Addresses(namespace, name string) []string {
	return r.all.view.Addresses(namespace, name)
}

// RoutesOf returns the printed routes of an object in one of the last snapshots. The result is empty for an object that was not
// compiled. It takes time proportional to the size of the object.
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
	services := u.Services()
	keys := make([]kube.ServiceKey, len(services))
	for i := range services {
		keys[i] = services[i].Key
	}
	return keys
}

// OwnersOf returns the owners of routes of the last build, by id. The owner of a catch-all is the first object with the host. Ids
// of routes that belong only to the server are omitted. It takes time proportional to the number of routes.
func (c *Compiler) OwnersOf(ids []string) map[string]kube.Ref {
	last := c.beside
	if last == nil {
		last = c.latest.Load()
	}
	owners := make(map[string]kube.Ref)
	if last == nil {
		return owners
	}
	wanted := make(map[uint64][]string)
	for _, id := range ids {
		h := rules.HashID(routeid.Original(id))
		wanted[h] = append(wanted[h], id)
	}
	for one := range claimsOf(last.all.sections) {
		for _, id := range wanted[one.route().ID] {
			if one.section.object != nil && last.all.claims.has(one.route()) {
				owners[id] = one.section.owner()
			}
		}
	}
	return owners
}

// unitOf returns the unit that an object had in the last build with it; nil if it has none.
func (c *Compiler) unitOf(o kube.Object) *rules.Unit {
	for _, known := range append(slices.Clip(c.recent), c.newest) {
		if u := known[o]; u != nil {
			return u
		}
	}
	return nil
}
