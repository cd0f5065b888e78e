package compile

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// rank is the order of the reference. It decides who keeps an id that several routes want if creation times do not.
type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, where the reference's order of hosts is random
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// section is a run of routes that are adjacent in that order.
type section struct {
	rank   rank
	host   string      // for fromHost
	object *object     // for ranks ordered by object
	parts  *[]hostPart // for fromHost
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

// place is the position of a route.
type place struct {
	section *section
	at      int
}

func (p place) route() *made { return &p.section.routes[p.at] }

func comparePlaces(a, b place) int {
	return cmp.Or(compareSections(a.section, b.section), cmp.Compare(a.at, b.at))
}

// asker returns the object that requested the route, or nil for a route that no object requested and for the catch-all of a host.
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

// owner returns the asker as problems name it. The catch-all of a host belongs to the first object with the host.
func (p place) owner() kube.Ref {
	if o := p.asker(); o != nil {
		return o.unit.owner
	}
	if parts := p.section.parts; parts != nil {
		return (*parts)[0].object.unit.owner
	}
	return kube.Ref{}
}

// created returns when the asker was created, or 0 if unknown.
func (p place) created() int64 {
	if o := p.asker(); o != nil {
		return o.meta.Created
	}
	return 0
}

// oldest sorts routes in the order of the reference and moves the route of the oldest object to the front. If creation times are
// equal or missing, the order of the reference decides. It returns the list.
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

// candidates holds all routes, by the id that they want and by what they match.
//
// Nearly every id is wanted by a single route, which is then in the table. Such routes are found there and not stored again:
// candidates stores only ids that several routes want.
type candidates struct {
	rivals map[string][]place // by id, in no particular order
	hidden map[string]int     // how many omitted routes want an id
	// Routes that stopped wanting an id and routes that began to, since the last award.
	gone, come []wish
	awarded    bool // at least once

	matches *sharing // nil if problems are not needed

	// refused are the problems of routes that the table could not take, by id; nearly always empty.
	refused map[string]Problem
	// cloned are the clones in the table, by the id of their original.
	cloned map[string][]*table.Route
	// contested means that something has changed where several routes want an id or match the same.
	contested bool
	conflicts []Problem // from the last time that contested was set
}

// wish is an id that a route wants.
type wish struct {
	id    string
	place place
}

func newCandidates() candidates {
	return candidates{
		rivals: make(map[string][]place), hidden: make(map[string]int), cloned: make(map[string][]*table.Route),
		refused: make(map[string]Problem),
	}
}

// watchMatches turns on the problem for routes that match the same.
func (c *candidates) watchMatches() { c.matches = newSharing() }

// expect makes room for about that many routes more.
func (c *candidates) expect(routes int) {
	c.come = slices.Grow(c.come, routes)
	if c.matches != nil && len(c.matches.single) == 0 {
		c.matches.single = make(map[uint64]place, routes/2) // about half of the routes are companions
	}
}

// replace replaces the routes of a section, at most once between two awards.
func (c *candidates) replace(s *section, routes []made) {
	for i := range s.routes {
		r := &s.routes[i]
		c.gone = append(c.gone, wish{r.id(), place{s, i}})
		if r.printed == nil {
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
		if r.printed == nil {
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

// award returns the list with the winners of all changed ids, and with their clones. sections must contain all sections, and t must
// have the texts of all settled routes, first those of the list. The first list may come from elsewhere: routes that no section
// wants are removed. If alsoSettle is true, routes that have their id to themselves are settled.
func (c *candidates) award(list table.List, sections iter.Seq[*section], t texts, alsoSettle bool) table.List {
	for _, wishes := range [][]wish{c.gone, c.come} {
		slices.SortFunc(wishes, func(a, b wish) int { return strings.Compare(a.id, b.id) })
	}
	known := c.unseen(list, sections)
	e := edit{list: list, lookup: list.Lookup(), texts: t}
	var alone []*printed
	for w := range byID(c.gone, c.come) {
		all, met := known[w.id]
		if !met {
			all = c.wanting(w)
		}
		c.note(w.id, all)
		if _, was := c.refused[w.id]; was {
			delete(c.refused, w.id)
			c.contested = true
		}
		if len(all) > 1 {
			for _, p := range all {
				t.fill(p.route().printed)
			}
		}
		first := winner(all)
		e.award(c, w.id, first)
		if alsoSettle && len(all) == 1 && first.printed != nil && first.route != nil {
			alone = append(alone, first.printed)
		}
	}
	if !c.awarded {
		e.sweep(c)
	}
	c.gone, c.come, c.awarded = nil, nil, true
	next, refused := insert(list, e.upserts, e.deletes)
	c.refuse(refused, sections)
	settle(slices.DeleteFunc(alone, func(p *printed) bool { return refused[p.id()] != "" })) // a refused route is in no table
	return next
}

// wishes are the changes for one id.
type wishes struct {
	id         string
	gone, come []wish
}

// byID yields the changes by id, keeping their order. Both lists are sorted.
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

// unseen returns all routes that want an id, for each id that a new route wants and an unchanged route has. Those were not
// stored, so it searches all sections once for all such ids.
func (c *candidates) unseen(list table.List, sections iter.Seq[*section]) map[string][]place {
	if !c.awarded {
		return nil // no id is taken
	}
	var found map[string][]place
	lookup := list.Lookup()
	for w := range byID(c.gone, c.come) {
		if len(w.gone) == 0 && c.rivals[w.id] == nil && (lookup.Get(w.id) != nil || c.hidden[w.id] > 0) {
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

// wanting returns all routes that now want the id: its rivals, except those that stopped wanting it, and the new ones.
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

// note stores the routes that want an id, if there are several.
func (c *candidates) note(id string, all []place) {
	if c.contested = c.contested || c.rivals[id] != nil || len(all) > 1; len(all) > 1 {
		c.rivals[id] = all
	} else {
		delete(c.rivals, id)
	}
}

// winner returns the route that gets the id, or nil if none does.
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

// wins reports whether the route has its id.
func (c *candidates) wins(r *made) bool {
	all := c.rivals[r.id()]
	return all == nil || winner(all) == r
}

// edit collects the changes of a list by an award.
type edit struct {
	list    table.List
	lookup  *table.Lookup // in the list
	texts   texts
	upserts []*table.Route
	deletes []string
}

// award gives the id to the route; nil means that no route wants it.
func (e *edit) award(c *candidates, id string, winner *made) {
	before := e.lookup.Get(id)
	var now *printed
	var clones []*table.Route
	if winner != nil {
		now, clones = winner.printed, winner.clones()
	}
	switch {
	case now == nil && before != nil:
		e.deletes = append(e.deletes, id)
	case now != nil && !e.texts.are(before, now):
		e.upserts = append(e.upserts, e.texts.of(now))
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

// sweep removes routes that nothing wants. The wishes are sorted and complete.
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

// problems returns the problems of routes that want or match the same.
func (c *candidates) problems(t texts) []Problem {
	if c.contested {
		c.conflicts = slices.Concat(c.duplicates(t), c.shadows(), c.refusals())
		c.contested = false
	}
	return c.conflicts
}

// expression returns the text of a route without its id.
func expression(r *table.Route) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, r.ID+": "), ";")
}
