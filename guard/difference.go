package guard

import (
	"slices"

	"github.com/routesrv/routesrv/table"
)

type change struct {
	gone []member // lost
	come []member // gained
	left []member // no longer among them, but not lost either
}

type difference struct {
	before, after []*table.Block

	reader  reader
	served  *census // of the table before
	counts  census  // by how much its counts change
	changes [aspects]change

	// missing counts the lost requests of objects without any routes: other objects gave theirs up.
	missing int
	// losers are the objects that lost requests, whether they still exist or not. A route without an object counts as one.
	losers map[member]bool
	// own means that all lost requests belonged to one object, which still exists: its team gave them up.
	own bool
}

// difference compares the base with another table. Its cost is proportional to the changed blocks.
func (g *Guard) difference(after *table.Table) *difference {
	was, is := g.base.Routes().Blocks(), after.Routes().Blocks()
	if g.memo == nil || !slices.Equal(g.memo.before, was) || !slices.Equal(g.memo.after, is) {
		g.memo = g.compare(g.base, after)
		g.memo.before, g.memo.after = was, is
	}
	return g.memo
}

func (g *Guard) compare(before, after *table.Table) *difference {
	d := &difference{reader: g.reader, losers: make(map[member]bool), own: true}
	var removed, changed []*table.Route // as they were
	differs := false
	for was, is := range table.Changes(before.Routes(), after.Routes()) {
		switch {
		case was == nil:
		case is == nil:
			removed = append(removed, was)
		case sameAnswer(was, is):
			continue
		default:
			changed = append(changed, was)
		}
		differs = true
		if was != nil {
			d.counts.add(g.reader, was, -1)
		}
		if is != nil {
			d.counts.add(g.reader, is, 1)
		}
	}
	if !differs {
		return d
	}
	d.served = g.counted()
	hurt := d.loses(changed, removed)
	for q := range d.counts[requests] {
		d.request(q)
	}
	for _, k := range []aspect{hosts, ingresses, routeGroups} {
		for m := range d.counts[k] {
			lost := k == hosts || hurt[m]
			d.changes[k].move(m, d.had(k, m), d.has(k, m), lost)
		}
	}
	// A lost host has lost more than its catch-all; and if no host has a catch-all, a setting switched them off.
	off := !d.has(catchAlls, 0)
	for m := range d.counts[rests] {
		d.changes[rests].move(m, d.had(rests, m), d.has(rests, m), d.has(hosts, m) && !off)
	}
	return d
}

// sameAnswer reports whether a change matters to no census, as most do: of endpoints and filters.
func sameAnswer(was, is *table.Route) bool {
	if was.Hosts != is.Hosts || backendOf(was) != backendOf(is) {
		return false
	}
	oldPath, oldExpr := was.Path()
	newPath, newExpr := is.Path()
	return oldPath == newPath && oldExpr == newExpr
}

func (d *difference) had(k aspect, m member) bool { return d.served[k][m] > 0 }
func (d *difference) has(k aspect, m member) bool { return d.served[k][m]+d.counts[k][m] > 0 }

// loses sets own, losers and missing, and returns the removed objects with unanswered requests.
func (d *difference) loses(changed, removed []*table.Route) (hurt map[member]bool) {
	hurt = make(map[member]bool)
	missing := make(map[member]bool)
	var one member
	for i, r := range slices.Concat(removed, changed) {
		if !answers(r) {
			continue
		}
		owner, exists := d.reader.owner(r, d.has)
		d.reader.requests(r, func(q member) {
			if d.has(requests, q) {
				return
			}
			d.own = d.own && exists && (one == 0 || one == owner)
			if one = owner; owner != 0 {
				d.losers[owner] = true
			} else {
				d.losers[d.reader.hash(r.ID)] = true
			}
			if i < len(removed) && !exists { // otherwise the object may be a part of the name of a custom route
				hurt[owner] = true
				missing[q] = true
			}
		})
	}
	d.missing = len(missing)
	return hurt
}

func (c *change) move(m member, was, is, lost bool) {
	switch {
	case !was && is:
		c.come = append(c.come, m)
	case was && !is && lost:
		c.gone = append(c.gone, m)
	case was && !is:
		c.left = append(c.left, m)
	}
}

// request records a request. A lost one does not count as one without endpoints, nor does another backend.
func (d *difference) request(q member) {
	was, is := d.had(requests, q), d.has(requests, q)
	d.changes[requests].move(q, was, is, true)
	had, has := d.had(backends, q), d.has(backends, q)
	if was && !is || !has && d.has(others, q) {
		d.changes[backends].left = append(d.changes[backends].left, q)
		return
	}
	d.changes[backends].move(q, had, has, true)
}
