package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

func (c *Compiler) build(s *kube.Snapshot, recent []*Result) *Result {
	base, least := &Result{Snapshot: new(kube.Snapshot), state: newState(c.set, c.fixed)}, -1
	for _, r := range recent {
		if r.state.ambiguous {
			continue
		}
		gone, fresh := r.Snapshot.Intent.Difference(&s.Intent)
		lost, added := r.Snapshot.Backends.Difference(&s.Backends)
		if n := gone.Size() + fresh.Size() + lost.Size() + added.Size(); n < least || least < 0 {
			base, least = r, n
		}
	}
	next := c.derive(base, s)
	if next == nil {
		return c.build(s, nil)
	}
	result := &Result{Snapshot: s, state: next.state}
	lists := []table.List{base.Routes}
	for _, r := range recent {
		lists = append(lists, r.Routes)
	}
	result.Routes = changed(base.Routes, next).Sharing(lists...)
	return result
}

// derive derives the state of a snapshot from another one. It returns nil if it can only be built from nothing.
func (c *Compiler) derive(base *Result, s *kube.Snapshot) *change {
	next := base.state.change()
	var services []*rules.Service
	next.view, services = c.set.View(s, base.state.view)
	next.ambiguous = next.view.Ambiguous()

	todo := make(map[kube.Ref][]kube.Routed)
	gone, fresh := base.Snapshot.Intent.Difference(&s.Intent)
	for o := range gone.Objects() {
		next.remove(next.find(o.Ref()))
	}
	for o := range fresh.Objects() {
		ref := o.Ref()
		next.ambiguous = next.ambiguous || todo[ref] != nil || next.find(ref) != nil
		if !slices.Contains(todo[ref], o) {
			todo[ref] = append(todo[ref], o)
		}
	}
	if next.ambiguous && base.state.objects.Len() > 0 {
		return nil // which objects count depends on the order of all
	}
	again := func(o *object) { todo[o.Ref()] = []kube.Routed{o.Routed} }
	for _, changed := range services {
		for u := range from(next.uses, use{key: changed.Key}) {
			if u.key != changed.Key {
				break
			}
			again(u.object)
		}
	}
	for o := range all(next.volatile) {
		again(o)
	}
	if s.DefaultFilters != base.Snapshot.DefaultFilters {
		for o := range all(next.objects) {
			again(o)
		}
	}
	// In order, because of what objects resolve for others.
	for _, ref := range slices.SortedFunc(maps.Keys(todo), kube.Ref.Compare) {
		for n, o := range todo[ref] {
			if was := next.find(ref); n == 0 && was != nil {
				if was.unit.Holds(next.view) {
					continue // its lookups have the same results
				}
				next.remove(was)
			}
			next.add(newObject(o, c.set.Compile(o, next.view), n))
		}
	}
	next.settle()
	return next
}

const maxBatch = 8000

// changed derives the list of routes of a state. Deletions come last, because only then are the unused ids known.
func changed(before table.List, c *change) table.List {
	gone, fresh := c.differing()
	var texts rules.Texts
	deletes := make(map[string]struct{})
	for _, one := range gone {
		for r := range texts.Rows(one.section.unit, one.route()) {
			deletes[r.ID] = struct{}{}
		}
	}
	list, upserts := before, []*table.Route(nil)
	for _, one := range fresh {
		for r := range texts.Rows(one.section.unit, one.route()) {
			delete(deletes, r.ID)
			upserts = append(upserts, r)
		}
		if len(upserts) >= maxBatch {
			list, upserts = replaced(list, upserts, nil), nil
		}
	}
	return replaced(list, upserts, slices.Collect(maps.Keys(deletes)))
}

// replaced changes a list. The rules have checked each route, so an error is a bug.
func replaced(list table.List, upserts []*table.Route, deletes []string) table.List {
	next, err := list.With(upserts, deletes)
	if err != nil {
		panic(fmt.Sprintf("compile: a route that was checked is refused: %v", err))
	}
	return next
}
