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
// what is equal.
func changed(before table.List, was, is *assembly) table.List {
	e := edit{list: before, before: before, deletes: make(map[string]struct{})}
	if was != nil {
		for c := range was.notIn(is) {
			e.remove(c)
		}
	}
	for c := range is.notIn(was) {
		e.insert(c)
	}
	e.flush(slices.Collect(maps.Keys(e.deletes)))
	return e.list
}

// edit changes a list. The deletions come last, when it is known which ids no route has any more.
type edit struct {
	list    table.List
	before  table.List
	texts   rules.Texts
	deletes map[string]struct{}
	upserts []*table.Route
}

func (e *edit) remove(c claim) {
	for r := range e.texts.Rows(c.section.unit, c.route()) {
		e.deletes[r.ID] = struct{}{}
	}
}

func (e *edit) insert(c claim) {
	for r := range e.texts.Rows(c.section.unit, c.route()) {
		delete(e.deletes, r.ID)
		e.upserts = append(e.upserts, r)
	}
	if len(e.upserts) >= maxBatch {
		e.flush(nil)
	}
}

// flush changes the list. Routes that the list before has with the same text stay there; in the order of ids each of its blocks is unpacked
// once. The rules have checked each route when it was printed, as the list does, so an error is a defect.
func (e *edit) flush(deletes []string) {
	slices.SortFunc(e.upserts, func(a, b *table.Route) int { return strings.Compare(a.ID, b.ID) })
	before := e.before.Lookup()
	e.upserts = slices.DeleteFunc(e.upserts, func(r *table.Route) bool {
		was := before.Get(r.ID)
		return was != nil && *was == *r
	})
	next, err := e.list.With(e.upserts, deletes)
	if err != nil {
		panic(fmt.Sprintf("compile: a route that was checked is refused: %v", err))
	}
	e.list, e.upserts = next, nil
}
