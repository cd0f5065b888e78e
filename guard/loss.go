package guard

import "github.com/routesrv/routesrv/table"

// change lists the members that a set loses and gains from one table to the next.
type change[K comparable] struct {
	gone []K // lost
	come []K // gained
	left []K // no longer in the set, but not lost either
}

// difference is what the rules about losses need to know about two tables.
type difference struct {
	counts deltas

	requests change[request]
	backends change[request] // requests that had endpoints
	hosts    change[string]
	objects  [kinds]change[object]
	ids      change[string] // only with Config.Namespaces

	// missing is how many of the lost requests no object can take back: those of routes whose object has none any more. What an
	// object no longer wants is lost, but not missing.
	missing int
	// own means that all lost requests were those of one object, which still exists: its team gave them up. In a cluster of a few objects
	// that would be a large share.
	own bool
	// missingRoutes is the same for routes of objects; only with Config.Namespaces.
	missingRoutes int
}

// lostObjects returns how many objects have lost all their routes.
func (d *difference) lostObjects() (n int) {
	for k := range kinds {
		n += len(d.objects[k].gone)
	}
	return n
}

// deltas are changes of counts, without zeros.
type deltas struct {
	requests map[request]answers
	objects  [kinds]map[object]int32
}

// tally collects the changed routes of two tables.
type tally struct {
	reader
	deltas
	removed, added []*table.Route
	changed        []*table.Route // as they were, if they answer other requests now
	hosts          bool           // hosts may have changed
}

// read counts the changed routes. It costs as much as the changed blocks.
func (t *tally) read(before, after *table.Table) {
	for was, is := range table.Changes(before.Routes(), after.Routes()) {
		switch {
		case was == nil:
			t.hosts = true
			t.added = append(t.added, is)
			t.count(is, 1)
		case is == nil:
			t.hosts = true
			t.removed = append(t.removed, was)
			t.count(was, -1)
		case !sameAnswer(was, is):
			t.hosts = t.hosts || was.Hosts != is.Hosts
			t.changed = append(t.changed, was)
			t.count(was, -1)
			t.count(is, 1)
		}
	}
	for q, a := range t.deltas.requests {
		if a == (answers{}) {
			delete(t.deltas.requests, q)
		}
	}
}

// sameAnswer reports whether two states of a route have the same place in a census, as after most changes: of endpoints and
// filters.
func sameAnswer(was, is *table.Route) bool {
	if was.Hosts != is.Hosts || backendOf(was) != backendOf(is) {
		return false
	}
	oldPath, oldExpr := was.Path()
	newPath, newExpr := is.Path()
	return oldPath == newPath && oldExpr == newExpr
}

func (t *tally) count(r *table.Route, n int32) {
	if !counts(r) {
		return
	}
	if t.deltas.requests == nil {
		t.deltas.requests = make(map[request]answers)
	}
	adds := answersOf(r, n)
	t.reader.requests(r, func(q request) { t.deltas.requests[q] = t.deltas.requests[q].plus(adds) })
	if k, o, known := t.object(r); known {
		if t.objects[k] == nil {
			t.objects[k] = make(map[object]int32)
		}
		if t.objects[k][o] += n; t.objects[k][o] == 0 {
			delete(t.objects[k], o)
		}
	}
}

// left returns which objects still have a route after the changes to the table of the census.
func (t *tally) left(c *census) func(kind, object) bool {
	return func(k kind, o object) bool { return c.objects[k][o]+t.objects[k][o] > 0 }
}

// difference derives the changes from the census of the table before.
func (t *tally) difference(c *census) (d difference) {
	d.counts = t.deltas
	for q, delta := range t.deltas.requests {
		d.request(q, c.requests[q], c.requests[q].plus(delta))
	}
	after := func(q request) int32 { return c.requests[q].plus(t.deltas.requests[q]).routes }
	left := t.left(c)
	hurt := make(map[object]bool)
	missing := make(map[request]bool)
	d.own = true
	var one object
	loses := func(r *table.Route, removed bool) {
		_, named, _ := t.object(r)
		o, exists := t.owner(r, left)
		t.reader.requests(r, func(q request) {
			if after(q) > 0 {
				return
			}
			d.own = d.own && exists && (one == 0 || one == o)
			if one = o; !removed {
				return
			}
			if !exists { // else named may only be a part of the name of a custom route
				hurt[named] = true
				missing[q] = true
			}
		})
	}
	for _, r := range t.changed {
		if counts(r) {
			loses(r, false)
		}
	}
	for _, r := range t.removed {
		if counts(r) {
			loses(r, true)
		}
	}
	d.missing = len(missing)
	for k := range kinds {
		for o, delta := range t.objects[k] {
			was, is := c.objects[k][o], c.objects[k][o]+delta
			switch {
			case was == 0 && is > 0:
				d.objects[k].come = append(d.objects[k].come, o)
			case was > 0 && is == 0 && hurt[o]:
				d.objects[k].gone = append(d.objects[k].gone, o)
			case was > 0 && is == 0:
				d.objects[k].left = append(d.objects[k].left, o)
			}
		}
	}
	return d
}

// request records the change of one request.
func (d *difference) request(q request, was, is answers) {
	switch {
	case was.routes == 0 && is.routes > 0:
		d.requests.come = append(d.requests.come, q)
	case was.routes > 0 && is.routes == 0:
		d.requests.gone = append(d.requests.gone, q)
		d.backends.left = append(d.backends.left, q)
		return
	}
	switch had, has := was.endpoints > 0, is.endpoints > 0; {
	case has && !had:
		d.backends.come = append(d.backends.come, q)
	case had && !has && is.others == 0:
		d.backends.gone = append(d.backends.gone, q)
	case !has && is.others > 0:
		d.backends.left = append(d.backends.left, q)
	}
}

// byID records the changed ids, for the rule about namespaces. One whose requests a new route answers has left: it was renamed. If only
// others answer them that did so before, they are another team's, and the route is lost.
func (d *difference) byID(t *tally, c *census) {
	left := t.left(c)
	taken := make(map[request]bool)
	for _, r := range t.added {
		d.ids.come = append(d.ids.come, r.ID)
		t.reader.requests(r, func(q request) { taken[q] = true })
	}
	for _, r := range t.removed {
		lost := false
		t.reader.requests(r, func(q request) { lost = lost || !taken[q] })
		if !lost {
			d.ids.left = append(d.ids.left, r.ID)
			continue
		}
		d.ids.gone = append(d.ids.gone, r.ID)
		_, exists := t.owner(r, left)
		if _, _, known := t.object(r); known && !exists {
			d.missingRoutes++
		}
	}
}
