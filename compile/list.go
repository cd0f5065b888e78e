package compile

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/table"
)

// notIn yields the routes that are in the table of this assembly and not in that of another one, which may be nil.
func (a *assembly) notIn(o *assembly) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for i := range a.sections {
			s := &a.sections[i]
			shared := false
			if o != nil {
				_, shared = o.units[s.unit]
			}
			for j := range s.routes {
				r := &s.routes[j]
				if !a.claims.has(r) || shared && o.claims.has(r) || r.LeftOut() {
					continue
				}
				if !yield(claim{s, j}) {
					return
				}
			}
		}
	}
}

// maxBatch is how many texts are unpacked at once while a list is made.
const maxBatch = 8000

// changed returns the list of the routes of an assembly, from a list before and the assembly that this one was made of. Both lists share
// what is equal. The deletions come last, when it is known which ids no route has any more.
func changed(before table.List, was, is *assembly) table.List {
	var texts rules.Texts
	deletes := make(map[string]struct{})
	if was != nil {
		for c := range was.notIn(is) {
			for r := range texts.Rows(c.section.unit, c.route()) {
				deletes[r.ID] = struct{}{}
			}
		}
	}
	list, upserts := before, []*table.Route(nil)
	for c := range is.notIn(was) {
		for r := range texts.Rows(c.section.unit, c.route()) {
			delete(deletes, r.ID)
			upserts = append(upserts, r)
		}
		if len(upserts) >= maxBatch {
			list, upserts = replaced(list, newIn(before, upserts), nil), nil
		}
	}
	return replaced(list, newIn(before, upserts), slices.Collect(maps.Keys(deletes)))
}

// newIn returns the routes that a list does not have with the same text. In the order of ids each block of the list is unpacked once.
func newIn(before table.List, routes []*table.Route) []*table.Route {
	slices.SortFunc(routes, func(a, b *table.Route) int { return strings.Compare(a.ID, b.ID) })
	has := before.Lookup()
	return slices.DeleteFunc(routes, func(r *table.Route) bool {
		was := has.Get(r.ID)
		return was != nil && *was == *r
	})
}

// replaced changes a list. The rules have checked each route when it was printed, as the list does, so an error is a defect.
func replaced(list table.List, upserts []*table.Route, deletes []string) table.List {
	next, err := list.With(upserts, deletes)
	if err != nil {
		panic(fmt.Sprintf("compile: a route that was checked is refused: %v", err))
	}
	return next
}
