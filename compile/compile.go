// Package compile compiles a snapshot of a cluster into the routes of a routing table, and reports problems of objects.
//
// A [Compiler] is a pure function of options and snapshot: the same input gives the same bytes, on every replica and after every
// restart. It does no I/O, has no clock and logs nothing; it returns findings as [Problem]s, with the text that the reference
// logs. Where the reference has a random order, this package has a fixed one: it processes host groups in sorted order.
//
// The reference is Skipper's route server, and comments in all packages use the word in this sense. For the same objects and
// options this package compiles the same routes as the reference; docs/differences.md lists the exceptions.
//
// # Isolation
//
// Every route is printed and parsed back on its own. A route that fails is left out and reported as a problem of its object, so
// no object can make the table unreadable for the fleet. A broken object loses only its own routes.
//
// # Cost
//
// A snapshot costs as much as its difference from the previous one. Each object is compiled on its own into a unit, which is
// cached with the results of its lookups: services, their endpoints, secrets. As long as all these pointers are the same (see
// package kube), the unit is reused. The users of each service are known, so a changed EndpointSlice affects only its users. A
// host is rebuilt if one of its objects is recompiled, an id is reassigned if a route begins or stops to want it, and the sorted
// list of routes is edited in these places. A full compilation is the same with an empty cache: the cache affects the cost of a
// result, never the result.
//
// The table has the only copy of most texts, packed; the compiler keeps ids and hashes. A first compilation goes portion by portion,
// so that the texts are never all in memory.
//
// A [Lane] compiles another intent or other backends beside the latest ones. Common parts are stored once.
//
// # Order
//
// The order decides which route gets an id that several want: Ingresses by namespace and name; then hosts in sorted order, each
// with the routes of its objects and its catch-all; then the companions of default backends; then RouteGroups by namespace and
// name; then the routes that depend only on the options.
package compile

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Result is the result of compiling a snapshot. It is immutable and shared.
type Result struct {
	// Routes share unchanged parts with the previous result. The list is packed.
	Routes table.List
	// Problems are sorted by owner. The slice must not be changed.
	Problems []Problem
}

// Compiler compiles snapshots with one set of options. It is not safe for concurrent use, and must not be used after a panic.
type Compiler struct {
	set    *settings
	memory *memory // of the latest snapshot; nil before the first one
	lanes  []*Lane

	minPortion int // see begin
}

// New returns a Compiler. The error names an invalid option.
func New(o Options) (*Compiler, error) {
	set, err := newSettings(o)
	if err != nil {
		return nil, err
	}
	return &Compiler{set: set, minPortion: minPortion}, nil
}

// Compile compiles the snapshot. A snapshot with the same objects as the previous one returns the same *Result.
func (c *Compiler) Compile(s *kube.Snapshot) *Result {
	m := c.memory
	if m == nil || m.snapshot.DefaultFilters != s.DefaultFilters {
		// Every unit may have used default filters, and they hardly ever change.
		m = newMemory(c.set, s.DefaultFilters, table.List{})
		m.candidates.watchMatches()
		c.begin(m, s)
	} else if s.SameObjects(m.snapshot) {
		return m.result
	}
	m.update(s, c.memories(), nil, len(c.lanes) == 0)
	m.result = &Result{Routes: m.routes, Problems: m.problems()}
	c.memory = m
	return m.result
}

// portion is how many objects a first compilation adds at once: at least minPortion, and not more than maxPortions times, because
// each step costs O(objects).
const (
	minPortion  = 3000
	maxPortions = 8
)

// begin compiles most of a snapshot into an empty memory, portion by portion. The result is the same, and the texts of a portion are
// packed before those of the next one exist. Portions are in the order of names, which most ids have as well, so nearly every block
// of the table is packed once.
func (c *Compiler) begin(m *memory, s *kube.Snapshot) {
	count, ingresses := len(s.Ingresses)+len(s.RouteGroups), len(s.Ingresses)
	portion := max(c.minPortion, (count+maxPortions-1)/maxPortions)
	if count <= portion {
		return
	}
	some := *s
	some.Ingresses = slices.SortedStableFunc(slices.Values(s.Ingresses), func(a, b *kube.Ingress) int { return compareNames(&a.Meta, &b.Meta) })
	some.RouteGroups = slices.SortedStableFunc(slices.Values(s.RouteGroups), func(a, b *kube.RouteGroup) int { return compareNames(&a.Meta, &b.Meta) })
	for n := portion; n < count; n += portion {
		step := some
		step.Ingresses, step.RouteGroups = some.Ingresses[:min(n, ingresses)], some.RouteGroups[:max(0, n-ingresses)]
		m.update(&step, c.memories(), nil, len(c.lanes) == 0)
	}
}
