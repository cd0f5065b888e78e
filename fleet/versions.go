package fleet

import (
	"sort"
	"time"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxVersions is how many published tables are remembered: 25 minutes with a change in every poll of three seconds.
	maxVersions = 512
	// shownTables is how many of them an answer contains.
	shownTables = 64
)

// version is a published table.
type version struct {
	Name
	order uint64
	at    time.Time
}

// versions are the last published tables, in ascending order.
type versions struct {
	list  []version
	order func(table.Digest) uint64 // of the last version with a table; 0 if it is not remembered
}

func (v *versions) add(one version) {
	if len(v.list) == maxVersions {
		copy(v.list, v.list[1:])
		v.list = v.list[:maxVersions-1]
	}
	v.list = append(v.list, one)
}

// last returns the served table, or the zero value before the first one.
func (v *versions) last() version {
	if len(v.list) == 0 {
		return version{}
	}
	return v.list[len(v.list)-1]
}

// after returns the number of versions after the one with the order, -1 if unknown, and the time of the first of them.
func (v *versions) after(order uint64) (n int, at time.Time) {
	i := sort.Search(len(v.list), func(i int) bool { return v.list[i].order > order })
	if i == len(v.list) {
		return 0, at
	}
	if order == 0 || i == 0 && v.list[0].order > order+1 {
		return -1, v.list[i].at
	}
	return len(v.list) - i, v.list[i].at
}

// newerThan returns when the first version with a higher revision was published, or the zero time if there is none.
func (v *versions) newerThan(revision uint64) time.Time {
	for i := range v.list {
		if v.list[i].Revision > revision {
			return v.list[i].at
		}
	}
	return time.Time{}
}

// Published records that a table is served, or served to the canary, from now on. order is higher than the order of all previous
// tables.
func (r *Registry) Published(order uint64, n Name, canary bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &r.versions
	if canary {
		all = &r.canaries
	}
	all.add(version{n, order, r.now()})
}

func (r *Registry) versionsOf(c *client) *versions {
	if c.Canary {
		return &r.canaries
	}
	return &r.versions
}

// judge returns the state of a client. versions is -1 if its table is unknown.
func (r *Registry) judge(c *client, now time.Time) (s State, versions int, behind time.Duration) {
	versions, behind = r.lag(c, now)
	switch {
	case c.silent(now):
		s = Silent
	case c.rejects():
		s = Rejected
	case versions != 0:
		s = Behind
	default:
		s = Current
	}
	return s, versions, behind
}

// lag returns by how much a client is behind, or 0.
func (r *Registry) lag(c *client, now time.Time) (versions int, behind time.Duration) {
	all := r.versionsOf(c)
	last := all.last()
	switch {
	case last.order == 0:
		return 0, 0 // no table has been published
	case c.Holds == nil:
		since := all.list[0].at
		if c.FirstHeard.After(since) {
			since = c.FirstHeard
		}
		return -1, now.Sub(since)
	case c.order >= last.order || c.aheadOf == last.order:
		return 0, 0
	}
	if order := max(c.order, c.aheadOf); order > 0 {
		n, at := all.after(order)
		return n, now.Sub(at)
	}
	if at := all.newerThan(c.Holds.Revision); c.Holds.Revision > 0 && !at.IsZero() {
		return -1, now.Sub(at)
	}
	return -1, now.Sub(c.Holds.Since)
}

// look updates the versions of all tables that clients hold: a zone's table may also belong to a later version.
func (r *Registry) look() {
	for _, c := range r.clients {
		if c.Holds != nil {
			c.order = r.versionsOf(c).order(c.Holds.Digest)
		}
	}
}
