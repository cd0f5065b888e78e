package compile

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/routesrv/routesrv/table"
)

// printed is a printed route. It is either whole or settled: then only the table of a memory has the text, packed, which takes a
// tenth of the memory.
//
// A route is settled when it is awarded its id without rivals. It is made whole again before a rival can take its place in the
// table. So in each memory every route is whole or in the memory's table. Memories share routes; while there are several, none is
// settled, because each has a different table.
type printed struct {
	sum   uint64       // see sum
	route *table.Route // nil if settled
	// of and number are the id of a settled route.
	of     *ids
	number int
}

// id returns the id of the route.
func (p *printed) id() string {
	if p.route != nil {
		return p.route.ID
	}
	return p.of.at(p.number)
}

// settle drops the texts, which must be in the table. Routes whose ids are neighbours should be neighbours in the list.
func settle(all []*printed) {
	var list []string
	var memory []byte
	for some := range slices.Chunk(all, maxIDs) {
		list = list[:0]
		for _, p := range some {
			list = append(list, p.id())
		}
		group := newIDs(&memory, list)
		for i, p := range some {
			p.of, p.number, p.route = &group, i, nil
		}
	}
}

// texts finds the texts of settled routes.
type texts struct {
	seed  maphash.Seed
	lists []table.List // of all memories, the own one first
}

// sum returns a hash of everything in a route. Only routes of one id are compared by it.
func sum(seed maphash.Seed, r *table.Route) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, r.Text) // with their lengths: hostile texts have every byte
	maphash.WriteComparable(&h, r.Hosts)
	maphash.WriteComparable(&h, r.Backend)
	return h.Sum64()
}

// of returns the whole route.
func (t texts) of(p *printed) *table.Route {
	if p.route != nil {
		return p.route
	}
	id := p.id()
	for _, list := range t.lists {
		if r := list.Get(id); t.are(r, p) {
			return r
		}
	}
	panic(fmt.Sprintf("compile: no table has the settled route %s", id)) // cannot happen: see printed
}

// are reports whether r, which may be nil, is the same route as p.
func (t texts) are(r *table.Route, p *printed) bool {
	switch {
	case r == nil:
		return false
	case p.route != nil:
		return *r == *p.route
	default:
		return sum(t.seed, r) == p.sum && r.ID == p.id()
	}
}

// fill makes a route whole.
func (t texts) fill(p *printed) {
	if p != nil {
		p.route = t.of(p)
		p.of = nil
	}
}

// texts returns the texts of a memory. Others are memories that it shares routes with.
func (m *memory) texts(others ...*memory) texts {
	t := texts{m.set.seed, []table.List{m.routes}}
	for _, o := range others {
		if o != m {
			t.lists = append(t.lists, o.routes)
		}
	}
	return t
}

// settle settles all routes that can be.
func (m *memory) settle() {
	var alone []*printed
	for s := range m.sections() {
		for i := range s.routes {
			r := &s.routes[i]
			if r.printed == nil || r.route == nil || m.candidates.rivals[r.id()] != nil {
				continue
			}
			if _, refused := m.candidates.refused[r.id()]; !refused { // else no table has it
				alone = append(alone, r.printed)
			}
		}
	}
	settle(alone)
}
