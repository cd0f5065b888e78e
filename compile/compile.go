// Package compile compiles a snapshot of a cluster into the routes of a routing table, and reports problems of objects.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and after every
// restart. It does no I/O, has no clock and logs nothing; it returns findings as [Problem]s, with the text that the reference
// logs. Where the reference has a random order, this package has a fixed one: hosts are in sorted order.
//
// The reference is Skipper's route server, and comments in all packages use the word in this sense. For the same objects and
// options this package compiles the same routes as the reference; docs/differences.md lists the exceptions.
//
// # Rules and build
//
// The rules are package [rules]: they compile one object, with what it looks up (services with their endpoints, secrets, default
// filters), into a unit: its routes, printed, and its problems.
//
// The build, this package, assembles the units of a snapshot into one list of routes:
//
//   - memo.go has the unit of each object. It is compiled again only if the object or a result of its lookups is another one;
//   - assemble.go puts the units in the order of the reference, with the catch-alls of their hosts;
//   - claims.go gives each id to one route;
//   - conflicts.go reports the routes that want or match the same;
//   - list.go changes the previous list into the new one, so that both share what is equal.
//
// Only the memo and the previous list are kept from one build to the next, and they affect the cost of a result, never the result.
//
// # Isolation
//
// Every route is printed and parsed back on its own. A route that fails is left out and reported as a problem of its object, so
// no object can make the table unreadable for the fleet. A broken object loses only its own routes.
//
// # Order
//
// The order decides which route gets an id that several want: Ingresses by namespace and name; then hosts in sorted order, each
// with the routes of its objects and its catch-all; then the companions of default backends; then RouteGroups by namespace and
// name; then the routes that depend only on the options.
package compile

import (
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Result is the result of compiling a snapshot. It is immutable and shared.
type Result struct {
	// Routes share unchanged parts with the previous result. The list is packed.
	Routes table.List
	// Problems are sorted by owner. The slice must not be changed.
	Problems []rules.Problem
}

// Compiler compiles snapshots with one set of options. It is not safe for concurrent use, and must not be used after a panic.
type Compiler struct {
	memo   *memo
	latest *build // of the last Compile
	beside *build // of the last CompileBeside; nil after Forget
}

// build is a snapshot with what was made of it.
type build struct {
	snapshot *kube.Snapshot
	all      *assembly
	routes   table.List
	result   *Result // nil beside the latest snapshot
}

// New returns a Compiler. The error names an invalid option.
func New(o rules.Options) (*Compiler, error) {
	set, err := rules.New(o)
	if err != nil {
		return nil, err
	}
	return &Compiler{memo: newMemo(set)}, nil
}

// Compile compiles the snapshot. A snapshot with the same objects as the previous one returns the same *Result.
func (c *Compiler) Compile(s *kube.Snapshot) *Result {
	if c.latest != nil && s.SameObjects(c.latest.snapshot) {
		return c.latest.result
	}
	next := c.build(s, c.latest)
	problems := next.problems()
	if c.latest != nil && slices.Equal(problems, c.latest.result.Problems) {
		problems = c.latest.result.Problems // the same slice, by which callers see that nothing has changed
	}
	next.result = &Result{Routes: next.routes, Problems: problems}
	c.latest = next
	return next.result
}

// CompileBeside returns the routes of another snapshot than the latest one, such as one in which some objects have earlier versions. It
// costs as much as the differences from the latest snapshot, and from that of the previous call. It reports no problems: those are
// reported for the latest snapshot.
func (c *Compiler) CompileBeside(s *kube.Snapshot) table.List {
	if c.beside != nil && s.SameObjects(c.beside.snapshot) {
		return c.beside.routes
	}
	before := c.beside // lists beside the latest are a sequence of their own, because they are alike
	if before == nil {
		before = c.latest
	}
	c.beside = c.build(s, before)
	return c.beside.routes
}

// Forget frees what CompileBeside keeps for its next call.
func (c *Compiler) Forget() { c.beside = nil }

// build builds a snapshot. The list of routes is made from that of a build before, if there is one.
func (c *Compiler) build(s *kube.Snapshot, before *build) *build {
	next := &build{snapshot: s, all: c.memo.assemble(s)}
	if before == nil {
		before = &build{}
	}
	next.routes = changed(before.routes, before.all, next.all)
	c.memo.tidy()
	return next
}

// Latest returns the snapshot and the result of the last call of Compile, or nil before the first one.
func (c *Compiler) Latest() (*kube.Snapshot, *Result) {
	if c.latest == nil {
		return nil, nil
	}
	return c.latest.snapshot, c.latest.result
}

// ProblemsOf returns the problems of one object in the order of detection. The slice must not be changed. It costs O(log
// problems).
func (r *Result) ProblemsOf(owner kube.Ref) []rules.Problem {
	compare := func(p rules.Problem, o kube.Ref) int { return p.Owner.Compare(o) }
	from, found := slices.BinarySearchFunc(r.Problems, owner, compare)
	if !found {
		return nil
	}
	to := from
	for to < len(r.Problems) && r.Problems[to].Owner == owner {
		to++
	}
	return r.Problems[from:to:to]
}
