package compile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// rank is the order of the reference, which decides who keeps an id that several want and nobody wanted first.
type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, by object
	fromHost                   // by host, where the reference takes hosts at random
	fromCompanions             // by object
	fromRouteGroup             // by object
	fromOptions
)

// section is a run of routes that stand together in that order.
type section struct {
	rank   rank
	host   string      // of fromHost
	object *object     // of ranks by object
	parts  *[]hostPart // of fromHost
	routes []made
}

func compareSections(a, b *section) int {
	if a == b {
		return 0
	}
	order := cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.host, b.host))
	if order == 0 && a.object != nil && b.object != nil {
		order = cmp.Compare(a.object.at, b.object.at)
	}
	return order
}

// place is where a route stands.
type place struct {
	section *section
	at      int
}

func (p place) route() *made { return &p.section.routes[p.at] }

func comparePlaces(a, b place) int {
	return cmp.Or(compareSections(a.section, b.section), cmp.Compare(a.at, b.at))
}

// asker is the object that asked for the route; nil for those that no object asked for, and for the catch-all of a host.
func (p place) asker() *object {
	s := p.section
	if s.parts == nil {
		return s.object
	}
	at := p.at
	for _, part := range *s.parts {
		if at -= len(part.group.routes); at < 0 {
			return part.object
		}
	}
	return nil
}

// owner is the asker as problems name it. The catch-all of a host counts as asked for by the first object that has the host.
func (p place) owner() kube.Ref {
	if o := p.asker(); o != nil {
		return o.unit.owner
	}
	if parts := p.section.parts; parts != nil {
		return (*parts)[0].object.unit.owner
	}
	return kube.Ref{}
}

// created is when the asker was created, 0 if that is not known.
func (p place) created() int64 {
	if o := p.asker(); o != nil {
		return o.meta.Created
	}
	return 0
}

// oldest brings routes in the order of the reference and puts the one in front whose object was there first. Where times
// are equal or missing the order of the reference decides. It gives the list back.
func oldest(places []place) []place {
	slices.SortFunc(places, comparePlaces)
	first, created := 0, places[0].created()
	for i, p := range places[1:] {
		if c := p.created(); c != 0 && created != 0 && c < created {
			first, created = i+1, c
		}
	}
	if first > 0 {
		p := places[first]
		copy(places[1:first+1], places[:first])
		places[0] = p
	}
	return places
}

// claims are the routes that want something that one of them can have, by what they want.
type claims[K comparable] struct {
	single map[K]place   // of what one route wants
	rivals map[K][]place // of what several want, in no order
}

func newClaims[K comparable](size int) claims[K] {
	return claims[K]{single: make(map[K]place, size), rivals: make(map[K][]place)}
}

// remove drops all claims of a section to a key, and reports whether there were others.
func (c *claims[K]) remove(key K, s *section) bool {
	if p, ok := c.single[key]; ok {
		if p.section == s {
			delete(c.single, key)
		}
		return false
	}
	left, ok := c.rivals[key]
	if !ok {
		return false
	}
	left = slices.DeleteFunc(left, func(p place) bool { return p.section == s })
	switch len(left) {
	case 0:
		delete(c.rivals, key)
	case 1:
		delete(c.rivals, key)
		c.single[key] = left[0]
	default:
		c.rivals[key] = left
	}
	return true
}

// add adds a claim, and reports whether there are others.
func (c *claims[K]) add(key K, p place) bool {
	if all, ok := c.rivals[key]; ok {
		c.rivals[key] = append(all, p)
		return true
	}
	if other, ok := c.single[key]; ok {
		delete(c.single, key)
		c.rivals[key] = []place{other, p}
		return true
	}
	c.single[key] = p
	return false
}

// winner is the route that gets what it wants; nil if nobody wants it.
func (c *claims[K]) winner(key K) *made {
	if p, ok := c.single[key]; ok {
		return p.route()
	}
	if all := c.rivals[key]; len(all) > 0 {
		return oldest(slices.Clone(all))[0].route()
	}
	return nil
}

// candidates are all routes, by id and by what they match.
type candidates struct {
	ids     claims[string]
	matches claims[uint64]
	// cloned are the clones in the table, by the id of the route that they were made of.
	cloned map[string][]*table.Route
	// touched are the ids that somebody has come to want, or does not want any more, since the last settle.
	touched []string
	// contested says that something has changed where several routes want an id or match the same.
	contested bool
	conflicts []Problem // of the last time that this was so
}

// newCandidates has room for about as many routes.
func newCandidates(size int) candidates {
	return candidates{
		ids: newClaims[string](size), matches: newClaims[uint64](size / 2), // about half of the routes are companions
		cloned: make(map[string][]*table.Route), touched: make([]string, 0, size),
	}
}

// replace gives a section other routes.
func (c *candidates) replace(s *section, routes []made) {
	for i := range s.routes {
		r := &s.routes[i]
		c.touched = append(c.touched, r.id())
		c.contested = c.ids.remove(r.id(), s) || c.contested
		if r.match != 0 {
			c.contested = c.matches.remove(r.match, s) || c.contested
		}
	}
	s.routes = routes
	for i := range routes {
		r, p := &routes[i], place{s, i}
		c.touched = append(c.touched, r.id())
		c.contested = c.ids.add(r.id(), p) || c.contested
		if r.match != 0 {
			c.contested = c.matches.add(r.match, p) || c.contested
		}
	}
}

// settle gives the list with the winners of all ids that were touched, and with their clones.
func (c *candidates) settle(list table.List) table.List {
	slices.Sort(c.touched)
	var upserts []*table.Route
	var deletes []string
	for _, id := range slices.Compact(c.touched) {
		before := list.Get(id)
		var now *table.Route
		var clones []*table.Route
		if winner := c.ids.winner(id); winner != nil {
			now, clones = winner.Route, winner.clones()
		}
		switch {
		case now == before:
		case now == nil:
			deletes = append(deletes, id)
		case before == nil || *before != *now:
			upserts = append(upserts, now)
		}
		for _, clone := range c.cloned[id] {
			if !slices.ContainsFunc(clones, func(r *table.Route) bool { return r.ID == clone.ID }) {
				deletes = append(deletes, clone.ID)
			}
		}
		for _, clone := range clones {
			if before := list.Get(clone.ID); before == nil || *before != *clone {
				upserts = append(upserts, clone)
			}
		}
		if len(clones) > 0 {
			c.cloned[id] = clones
		} else {
			delete(c.cloned, id)
		}
	}
	c.touched = nil
	next, err := list.With(upserts, deletes)
	if err != nil {
		panic(err) // the routes were read back one by one, and the ids are distinct: a mistake of ours
	}
	return next
}

// sweep gives the list without the routes that nobody wants: those of objects that are not here.
func (c *candidates) sweep(list table.List) table.List {
	clones := make(map[string]struct{})
	for _, of := range c.cloned {
		for _, clone := range of {
			clones[clone.ID] = struct{}{}
		}
	}
	var deletes []string
	for r := range list.All() {
		if _, clone := clones[r.ID]; !clone && c.ids.winner(r.ID) == nil {
			deletes = append(deletes, r.ID)
		}
	}
	swept, err := list.With(nil, deletes)
	if err != nil {
		panic(err) // it only has fewer routes: a mistake of ours
	}
	return swept
}

// problems are those of routes that want the same.
func (c *candidates) problems() []Problem {
	if c.contested {
		c.conflicts = slices.Concat(c.duplicates(), c.shadows())
		c.contested = false
	}
	return c.conflicts
}

// expression is the text of a route without its id.
func expression(r *table.Route) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, r.ID+": "), ";")
}

// sortedRivals are the keys of what several want.
func sortedRivals[K cmp.Ordered](c *claims[K]) []K { return slices.Sorted(maps.Keys(c.rivals)) }
