package compile

import (
	"cmp"
	"iter"
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

// candidates are all routes, by the id that they want and by what they match.
//
// Nearly every id is wanted by one route, which is in the table then. Those are found there and not kept: only ids that
// several want are.
type candidates struct {
	rivals map[string][]place // by id, in no order
	hidden map[string]int     // how many routes that were left out want an id
	// gone and come are what is not wanted any more and what is, since the last award.
	gone, come []wish
	awarded    bool // at least once

	matches *sharing // nil if nobody asks for problems

	// cloned are the clones in the table, by the id of the route that they were made of.
	cloned map[string][]*table.Route
	// contested says that something has changed where several routes want an id or match the same.
	contested bool
	conflicts []Problem // of the last time that this was so
}

// wish is an id that a route wants.
type wish struct {
	id    string
	place place
}

func newCandidates() candidates {
	return candidates{
		rivals: make(map[string][]place), hidden: make(map[string]int), cloned: make(map[string][]*table.Route),
	}
}

// watchMatches makes routes that match the same problems.
func (c *candidates) watchMatches() { c.matches = newSharing() }

// expect makes room for about as many routes.
func (c *candidates) expect(routes int) {
	c.come = make([]wish, 0, routes)
	if c.matches != nil {
		c.matches.single = make(map[uint64]place, routes/2) // about half of the routes are companions
	}
}

// replace gives a section other routes, at most once between two awards.
func (c *candidates) replace(s *section, routes []made) {
	for i := range s.routes {
		r := &s.routes[i]
		c.gone = append(c.gone, wish{r.id(), place{s, i}})
		if r.Route == nil {
			c.hide(r.id(), -1)
		}
		if r.match != 0 && c.matches != nil {
			c.contested = c.matches.remove(r.match, s) || c.contested
		}
	}
	s.routes = routes
	for i := range routes {
		r, p := &routes[i], place{s, i}
		c.come = append(c.come, wish{r.id(), p})
		if r.Route == nil {
			c.hide(r.id(), 1)
		}
		if r.match != 0 && c.matches != nil {
			c.contested = c.matches.add(r.match, p) || c.contested
		}
	}
}

func (c *candidates) hide(id string, more int) {
	if c.hidden[id] += more; c.hidden[id] == 0 {
		delete(c.hidden, id)
	}
}

// award gives the list with the winners of all ids for which something has changed, and with their clones. Sections are
// all that there are. The first list may come from elsewhere: what nobody wants is taken out of it.
func (c *candidates) award(list table.List, sections iter.Seq[*section]) table.List {
	for _, wishes := range [][]wish{c.gone, c.come} {
		slices.SortFunc(wishes, func(a, b wish) int { return strings.Compare(a.id, b.id) })
	}
	known := c.unseen(list, sections)
	e := edit{list: list}
	for w := range byID(c.gone, c.come) {
		all, met := known[w.id]
		if !met {
			all = c.wanting(w)
		}
		c.note(w.id, all)
		e.award(c, w.id, winner(all))
	}
	if !c.awarded {
		e.sweep(c)
	}
	c.gone, c.come, c.awarded = nil, nil, true
	next, err := list.With(e.upserts, e.deletes)
	if err != nil {
		panic(err) // the routes were read back one by one, and the ids are distinct: a mistake of ours
	}
	return next
}

// wishes are what has changed for an id.
type wishes struct {
	id         string
	gone, come []wish
}

// byID yields what has changed, by id and in their order. Both lists are sorted.
func byID(gone, come []wish) iter.Seq[wishes] {
	return func(yield func(wishes) bool) {
		for len(gone)+len(come) > 0 {
			var id string
			if len(come) == 0 || len(gone) > 0 && gone[0].id < come[0].id {
				id = gone[0].id
			} else {
				id = come[0].id
			}
			of := func(all []wish) int {
				n := 0
				for n < len(all) && all[n].id == id {
					n++
				}
				return n
			}
			n, m := of(gone), of(come)
			if !yield(wishes{id, gone[:n], come[:m]}) {
				return
			}
			gone, come = gone[n:], come[m:]
		}
	}
}

// unseen gives all who want an id, for each id that a route has come to want and a route had that did not change. Who that
// is was not kept: all sections are looked through, for all such ids at once.
func (c *candidates) unseen(list table.List, sections iter.Seq[*section]) map[string][]place {
	if !c.awarded {
		return nil // nobody had an id
	}
	var found map[string][]place
	for w := range byID(c.gone, c.come) {
		if len(w.gone) == 0 && c.rivals[w.id] == nil && (list.Get(w.id) != nil || c.hidden[w.id] > 0) {
			if found == nil {
				found = make(map[string][]place)
			}
			found[w.id] = nil
		}
	}
	if found == nil {
		return nil
	}
	for s := range sections {
		for i := range s.routes {
			id := s.routes[i].id()
			if all, ok := found[id]; ok {
				found[id] = append(all, place{s, i})
			}
		}
	}
	return found
}

// wanting gives all who want the id now. Those who wanted it are its rivals, or are gone, or there were none.
func (c *candidates) wanting(w wishes) []place {
	var all []place
	for _, p := range c.rivals[w.id] {
		if !slices.ContainsFunc(w.gone, func(g wish) bool { return g.place.section == p.section }) {
			all = append(all, p)
		}
	}
	for _, wish := range w.come {
		all = append(all, wish.place)
	}
	return all
}

// note keeps who wants an id, if they are several.
func (c *candidates) note(id string, all []place) {
	if c.contested = c.contested || c.rivals[id] != nil || len(all) > 1; len(all) > 1 {
		c.rivals[id] = all
	} else {
		delete(c.rivals, id)
	}
}

// winner is who gets what all want, nil if nobody does.
func winner(all []place) *made {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0].route()
	default:
		return oldest(slices.Clone(all))[0].route()
	}
}

// wins reports whether the route has got its id.
func (c *candidates) wins(r *made) bool {
	all := c.rivals[r.id()]
	return all == nil || winner(all) == r
}

// edit is what an award changes in a list.
type edit struct {
	list    table.List
	upserts []*table.Route
	deletes []string
}

// award gives the id to the route, which is nil if nobody wants it.
func (e *edit) award(c *candidates, id string, winner *made) {
	before := e.list.Get(id)
	var now *table.Route
	var clones []*table.Route
	if winner != nil {
		now, clones = winner.Route, winner.clones()
	}
	switch {
	case now == before:
	case now == nil:
		e.deletes = append(e.deletes, id)
	case before == nil || *before != *now:
		e.upserts = append(e.upserts, now)
	}
	for _, clone := range c.cloned[id] {
		if !slices.ContainsFunc(clones, func(r *table.Route) bool { return r.ID == clone.ID }) {
			e.deletes = append(e.deletes, clone.ID)
		}
	}
	for _, clone := range clones {
		if before := e.list.Get(clone.ID); before == nil || *before != *clone {
			e.upserts = append(e.upserts, clone)
		}
	}
	if len(clones) > 0 {
		c.cloned[id] = clones
	} else {
		delete(c.cloned, id)
	}
}

// sweep takes out what nobody wants. The wishes are sorted, and all that there are.
func (e *edit) sweep(c *candidates) {
	clones := make(map[string]struct{})
	for _, of := range c.cloned {
		for _, clone := range of {
			clones[clone.ID] = struct{}{}
		}
	}
	come := c.come
	for r := range e.list.All() {
		for len(come) > 0 && come[0].id < r.ID {
			come = come[1:]
		}
		if _, clone := clones[r.ID]; !clone && (len(come) == 0 || come[0].id != r.ID) {
			e.deletes = append(e.deletes, r.ID)
		}
	}
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
