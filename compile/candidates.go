package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// rank is the order of the reference, which decides who keeps an id that several want.
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
	routes []*table.Route
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

// owner is the object that asked for a route of the section. The catch-all of a host counts as asked for by the first
// object that has the host.
func (s *section) owner(at int) kube.Ref {
	switch {
	case s.object != nil:
		return s.object.unit.owner
	case s.parts == nil:
		return kube.Ref{}
	}
	for _, p := range *s.parts {
		if at -= len(p.group.routes); at < 0 {
			return p.object.unit.owner
		}
	}
	return (*s.parts)[0].object.unit.owner
}

// place is where a route that wants an id stands.
type place struct {
	section *section
	at      int
}

func (p place) route() *table.Route { return p.section.routes[p.at] }

func comparePlaces(a, b place) int {
	return cmp.Or(compareSections(a.section, b.section), cmp.Compare(a.at, b.at))
}

// candidates are all routes by id: the first in the order of the sections is the one of the table.
type candidates struct {
	single map[string]place   // of ids that one route wants
	rivals map[string][]place // of ids that several want, in no order
	// touched are the ids that somebody has come to want, or does not want any more, since the last settle.
	touched []string
}

func newCandidates() candidates {
	return candidates{single: make(map[string]place), rivals: make(map[string][]place)}
}

// replace gives a section other routes.
func (c *candidates) replace(s *section, routes []*table.Route) {
	for _, r := range s.routes {
		c.remove(r.ID, s)
	}
	s.routes = routes
	for i, r := range routes {
		c.add(r.ID, place{s, i})
	}
}

func (c *candidates) remove(id string, s *section) {
	c.touched = append(c.touched, id)
	if c.single[id].section == s {
		delete(c.single, id)
		return
	}
	left := slices.DeleteFunc(c.rivals[id], func(p place) bool { return p.section == s })
	switch len(left) {
	case 0:
		delete(c.rivals, id)
	case 1:
		delete(c.rivals, id)
		c.single[id] = left[0]
	default:
		c.rivals[id] = left
	}
}

func (c *candidates) add(id string, p place) {
	c.touched = append(c.touched, id)
	if all, ok := c.rivals[id]; ok {
		c.rivals[id] = append(all, p)
	} else if other, ok := c.single[id]; ok {
		delete(c.single, id)
		c.rivals[id] = []place{other, p}
	} else {
		c.single[id] = p
	}
}

// winner is the route that gets the id; nil if nobody wants it.
func (c *candidates) winner(id string) *table.Route {
	if p, ok := c.single[id]; ok {
		return p.route()
	}
	if all := c.rivals[id]; len(all) > 0 {
		return slices.MinFunc(all, comparePlaces).route()
	}
	return nil
}

// settle gives the list with the winners of all ids that were touched.
func (c *candidates) settle(list table.List) table.List {
	slices.Sort(c.touched)
	var upserts []*table.Route
	var deletes []string
	for _, id := range slices.Compact(c.touched) {
		before, now := list.Get(id), c.winner(id)
		switch {
		case now == before:
		case now == nil:
			deletes = append(deletes, id)
		case before == nil || *before != *now:
			upserts = append(upserts, now)
		}
	}
	c.touched = nil
	next, err := list.With(upserts, deletes)
	if err != nil {
		panic(err) // the routes were read back one by one, and the ids are distinct: a mistake of ours
	}
	return next
}

// duplicates are the routes that did not get their id, apart from those that are what the winner is.
func (c *candidates) duplicates() []Problem {
	var problems []Problem
	for _, id := range slices.Sorted(maps.Keys(c.rivals)) {
		all := slices.SortedFunc(slices.Values(c.rivals[id]), comparePlaces)
		winner := all[0].route()
		for _, p := range all[1:] {
			r := p.route()
			if r.Text == winner.Text {
				continue
			}
			problems = append(problems, Problem{
				Owner: p.section.owner(p.at), Route: id, Reason: DuplicateID, Severity: Error, Plain: true,
				Message: fmt.Sprintf("Ignoring route with the same id %s, existing: %s, ignored: %s",
					id, expression(winner), expression(r)),
			})
		}
	}
	return problems
}

// expression is the text of a route without its id.
func expression(r *table.Route) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, r.ID+": "), ";")
}
