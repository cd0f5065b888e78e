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
	sections     []section
	places       []place
	ids, matches *chains // of the numbers of places

	// losers do not get their id; rivals are the routes that want an id, the winner first, by id.
	losers map[*rules.Route]struct{}
	rivals map[string][]claim
}

// place is the position of a route in the sections.
type place struct{ section, route int32 }

func newClaims(sections []section) *claims {
	n := 0
	for i := range sections {
		n += len(sections[i].routes)
	}
	c := &claims{sections: sections, places: make([]place, 0, n), ids: newChains(n), matches: newChains(n)}
	for i := range sections {
		for j := range sections[i].routes {
			r := &sections[i].routes[j]
			c.ids.add(r.ID, len(c.places))
			if r.Match != 0 && !r.LeftOut() {
				c.matches.add(r.Match, len(c.places))
			}
			c.places = append(c.places, place{int32(i), int32(j)})
		}
	}
	c.settle()
	return c
}

func (c *claims) claim(p place) claim { return claim{&c.sections[p.section], int(p.route)} }

// with returns the routes with a hash, in no particular order.
func (c *claims) with(in *chains, hash uint64) []claim {
	var all []claim
	for n := range in.all(hash) {
		all = append(all, c.claim(c.places[n]))
	}
	return all
}

// settle gives each id to one route.
func (c *claims) settle() {
	c.losers, c.rivals = make(map[*rules.Route]struct{}), make(map[string][]claim)
	var texts rules.Texts
	for _, hash := range c.ids.several {
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

// chains is a hash table of numbers, with a chain for each of its buckets. A chain has numbers of several hashes. It takes less memory and
// time than a map.
type chains struct {
	heads   []int32  // by the low bits of the hash: 1 + the number that was added last; 0 for none
	next    []int32  // by number, in the same form
	hashes  []uint64 // by number
	several []uint64 // the hashes of several numbers, each once
}

func newChains(numbers int) *chains {
	size := 1
	for size < numbers {
		size *= 2
	}
	return &chains{heads: make([]int32, size), next: make([]int32, numbers), hashes: make([]uint64, numbers)}
}

func (c *chains) head(hash uint64) *int32 { return &c.heads[hash&uint64(len(c.heads)-1)] }

func (c *chains) add(hash uint64, n int) {
	same := 0
	for range c.all(hash) {
		if same++; same == 2 {
			break // thousands of routes may have one hash
		}
	}
	if same == 1 {
		c.several = append(c.several, hash)
	}
	head := c.head(hash)
	c.next[n], c.hashes[n] = *head, hash
	*head = int32(n + 1)
}

// all yields the numbers that have the hash.
func (c *chains) all(hash uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := *c.head(hash); n > 0; n = c.next[n-1] {
			if c.hashes[n-1] == hash && !yield(int(n-1)) {
				return
			}
		}
	}
}
