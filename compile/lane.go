package compile

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Lane compiles an intent beside the latest snapshot of its Compiler: the intent that stays served while a newer one waits. Lanes
// and Compiler store common parts once: the units of objects that both have, their printed routes, and the blocks of tables. Like
// the Compiler, a Lane is not safe for concurrent use. After a panic of either, neither may be used any more.
type Lane struct {
	compiler *Compiler
	memory   *memory // nil before the first compilation
	base     table.List
}

// NewLane returns a lane. base is a table that the lane probably resembles, such as the served one; it affects what is shared,
// never the result. A lane takes memory until [Compiler.Drop].
func (c *Compiler) NewLane(base table.List) *Lane {
	l := &Lane{compiler: c, base: base}
	c.lanes = append(c.lanes, l)
	return l
}

// Drop frees a lane of this Compiler, which must not be used afterwards. With the last lane it costs O(routes).
func (c *Compiler) Drop(l *Lane) {
	c.lanes = slices.DeleteFunc(c.lanes, func(known *Lane) bool { return known == l })
	if len(c.lanes) == 0 && c.memory != nil {
		c.memory.settle()
	}
}

// Compile returns the routes of a snapshot with both halves. The cost depends on the difference from the previous halves. It
// reports no problems: those are reported for the latest snapshot.
func (l *Lane) Compile(i *kube.Intent, b *kube.Backends) table.List {
	m := l.memory
	switch {
	case m == nil:
		m = newMemory(l.compiler.set, i.DefaultFilters, l.base)
	case m.snapshot.DefaultFilters != i.DefaultFilters:
		m = newMemory(l.compiler.set, i.DefaultFilters, m.routes)
	case m.snapshot.Intent.SameAs(i) && m.snapshot.Backends.SameAs(b):
		return m.routes
	}
	m.update(&kube.Snapshot{Intent: *i, Backends: *b}, l.compiler.memories(), l.compiler.memory, false)
	if l.compiler.memory != nil {
		m.routes = m.routes.Sharing(l.compiler.memory.routes)
	}
	l.memory, l.base = m, table.List{}
	return m.routes
}

// memories returns the memories of all lanes, the latest snapshot first.
func (c *Compiler) memories() []*memory {
	var all []*memory
	if c.memory != nil {
		all = append(all, c.memory)
	}
	for _, l := range c.lanes {
		if l.memory != nil {
			all = append(all, l.memory)
		}
	}
	return all
}

// peersOf returns the memories whose units are valid for m: those with the same default filters.
func peersOf(m *memory, all []*memory) []*memory {
	return slices.DeleteFunc(all, func(p *memory) bool {
		return p == m || p.snapshot.DefaultFilters != m.snapshot.DefaultFilters
	})
}

// borrow returns a peer's unit of the object if it would be the same here, else nil. A volatile unit depends on the other
// objects, which differ.
func (w *step) borrow(o *object) *unit {
	for _, p := range w.peers {
		known := p.ingresses.known[o.Object]
		if known == nil {
			known = p.groups.known[o.Object]
		}
		if known != nil && known.unit != nil && !known.unit.lookups.volatile && known.unit.lookups.hold(w.cluster) {
			return known.unit
		}
	}
	return nil
}
