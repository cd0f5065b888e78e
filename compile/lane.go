package compile

import (
	"slices"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Lane compiles an intent beside the latest snapshot of its Compiler: the intent that goes on being served while a newer
// one waits. Lanes and Compiler keep once what they have in common: the units of objects that both have, their printed
// routes, and the blocks of tables. Like the Compiler, a Lane is not safe for concurrent use, and is not to be used any
// more after a panic of either.
type Lane struct {
	compiler *Compiler
	memory   *memory // nil before the first compilation
	base     table.List
}

// NewLane makes a lane. Base is a table that the lane is expected to resemble, such as the one that is served; it decides
// what is shared and never what a result is. A lane costs memory until [Compiler.Drop].
func (c *Compiler) NewLane(base table.List) *Lane {
	l := &Lane{compiler: c, base: base}
	c.lanes = append(c.lanes, l)
	return l
}

// Drop forgets a lane of this Compiler, which is not to be used any more.
func (c *Compiler) Drop(l *Lane) {
	c.lanes = slices.DeleteFunc(c.lanes, func(known *Lane) bool { return known == l })
}

// Compile gives the routes that a snapshot of both halves has, which cost what differs from the halves before. There are
// no problems: those are reported of the latest snapshot.
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
	m.update(&kube.Snapshot{Intent: *i, Backends: *b}, l.compiler.memories(), l.compiler.memory)
	if l.compiler.memory != nil {
		m.routes = m.routes.Sharing(l.compiler.memory.routes)
	}
	l.memory, l.base = m, table.List{}
	return m.routes
}

// memories are those of all lanes, the latest snapshot first.
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

// peersOf are the memories whose units mean the same here: they were made with the same default filters.
func peersOf(m *memory, all []*memory) []*memory {
	return slices.DeleteFunc(all, func(p *memory) bool {
		return p == m || p.snapshot.DefaultFilters != m.snapshot.DefaultFilters
	})
}

// borrow gives the unit that a peer has of the object, if it would come out the same here; else nil. A volatile unit
// depends on the other objects, and those are different ones.
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
