// Package compile turns a snapshot of a cluster into the routes of a routing table, and into the problems that were
// met on the way.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and
// after every restart. It does no I/O, has no clock and logs nothing; what there is to say it returns as [Problem]s,
// with the text that the reference logs. What the reference leaves to chance is fixed here: host groups are taken in
// sorted order.
//
// The reference is Skipper's route server: the routes of a cluster here are those that it makes of the same objects and
// options, and comments in all packages mean it by this word. Where it is not followed, docs/differences.md says so.
//
// # Isolation
//
// Every route is printed, and read back alone. A route that does not survive is left out and is a problem of the object
// that asked for it, so no object can make the table unreadable for the fleet; and an object that is broken in itself
// costs its own routes only.
//
// # Cost
//
// A snapshot costs what differs from the one before. Each object is compiled by itself into a unit, which is remembered
// together with what it looked up: its services, their endpoints, its secrets. As long as all of these are the same
// pointers (see package kube), the unit is used again; whoever uses a service is known, so a changed EndpointSlice leads
// to its users and to nobody else. Hosts are put together anew if one of their objects is, ids are awarded anew if somebody
// wants them who did not, or the other way round, and the sorted list of routes is changed in these places. A full
// compilation is the same with nothing remembered: the memory changes the cost of a result and never the result.
//
// A [Lane] compiles another intent beside the latest one, or other backends. What the two have in common is kept once.
//
// # Order
//
// It decides who gets an id that several routes want: Ingresses in order of namespace and name; then hosts in sorted
// order, each with the routes of its objects and its catch-all; then the companions of default backends; then RouteGroups
// by namespace and name; then the routes that depend on the options alone.
package compile

import (
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Result is what a snapshot compiles to. It is immutable and shared.
type Result struct {
	// Routes share what did not change with the result before.
	Routes table.List
	// Problems are sorted by owner. The slice must not be changed.
	Problems []Problem
}

// Compiler compiles snapshots with one set of options. It is not safe for concurrent use. After a panic it is not to be used
// any more.
type Compiler struct {
	set    *settings
	memory *memory // of the latest snapshot; nil before the first
	lanes  []*Lane
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
	m := c.memory
	if m == nil || m.snapshot.DefaultFilters != s.DefaultFilters {
		// Every unit may have used default filters, and they hardly ever change.
		m = newMemory(c.set, s.DefaultFilters, table.List{})
		m.candidates.watchMatches()
	} else if s.SameObjects(m.snapshot) {
		return m.result
	}
	m.update(s, c.memories(), nil)
	m.result = &Result{Routes: m.routes, Problems: m.problems()}
	c.memory = m
	return m.result
}
