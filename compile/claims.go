package compile

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
)

// claim is a route that wants an id.
type claim struct {
	section *section
	at      int // in the section
}

func (c claim) route() *rules.Route { return &c.section.routes[c.at] }

func compareClaims(a, b claim) int {
	x, y := a.section.order, b.section.order
	return cmp.Or(cmp.Compare(x.rank, y.rank), strings.Compare(x.host, y.host), cmp.Compare(x.at, y.at), cmp.Compare(a.at, b.at))
}

// oldest sorts claims in the order of the reference and moves that of the oldest object to the front. If creation times are equal or
// missing, the order of the reference decides. It returns the list.
func oldest(all []claim) []claim {
	slices.SortStableFunc(all, compareClaims)
	first, created := 0, all[0].section.created()
	for i, c := range all[1:] {
		if at := c.section.created(); at != 0 && created != 0 && at < created {
			first, created = i+1, at
		}
	}
	winner := all[first]
	copy(all[1:first+1], all[:first])
	all[0] = winner
	return all
}

// claims decides which route gets an id that several want, and finds the routes that match the same.
type claims struct {
	all          []claim
	ids, matches *byHash

	// losers do not get their id; rivals are the routes that want an id, the winner first, by id.
	losers map[*rules.Route]struct{}
	rivals map[string][]claim
}

// claimsOf yields the routes of sections.
func claimsOf(sections []section) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for i := range sections {
			for at := range sections[i].routes {
				if !yield(claim{&sections[i], at}) {
					return
				}
			}
		}
	}
}

func newClaims(all []claim) *claims {
	c := &claims{all: all, ids: newByHash(len(all)), matches: newByHash(len(all))}
	for n, claim := range all {
		r := claim.route()
		c.ids.add(r.ID, n)
		if r.Match != 0 && !r.LeftOut() {
			c.matches.add(r.Match, n)
		}
	}
	c.settle()
	return c
}

// with returns the routes with a hash, in no particular order. The caller owns the slice.
func (c *claims) with(in *byHash, hash uint64) []claim {
	var all []claim
	for _, n := range in.get(hash) {
		all = append(all, c.all[n])
	}
	return all
}

// settle gives each id to one route.
func (c *claims) settle() {
	c.losers, c.rivals = make(map[*rules.Route]struct{}), make(map[string][]claim)
	var texts rules.Texts
	for hash := range c.ids.several {
		for _, claim := range c.with(c.ids, hash) {
			id := texts.ID(claim.section.unit, claim.route())
			c.rivals[id] = append(c.rivals[id], claim)
		}
	}
	for id, all := range c.rivals {
		for _, loser := range oldest(all)[1:] {
			c.losers[loser.route()] = struct{}{}
		}
		if len(all) == 1 {
			delete(c.rivals, id) // two ids with the same hash
		}
	}
}

// wins reports whether the route is in the table: it has its id, and was not left out.
func (c *claims) wins(r *rules.Route) bool { return c.has(r) && !r.LeftOut() }

// has reports whether the route has its id.
func (c *claims) has(r *rules.Route) bool {
	_, lost := c.losers[r]
	return !lost
}

// byHash has numbers by a hash. Nearly every hash has one number.
type byHash struct {
	one     map[uint64]int32
	several map[uint64][]int32 // of a hash with more than one number
}

func newByHash(numbers int) *byHash {
	return &byHash{one: make(map[uint64]int32, numbers), several: make(map[uint64][]int32)}
}

func (b *byHash) add(hash uint64, n int) {
	if first, known := b.one[hash]; known {
		if b.several[hash] == nil {
			b.several[hash] = []int32{first}
		}
		b.several[hash] = append(b.several[hash], int32(n))
		return
	}
	b.one[hash] = int32(n)
}

// get returns the numbers that have the hash, in the order in which they were added.
func (b *byHash) get(hash uint64) []int32 {
	if several := b.several[hash]; several != nil {
		return several
	}
	if n, known := b.one[hash]; known {
		return []int32{n}
	}
	return nil
}
