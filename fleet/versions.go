package fleet

import (
	"sort"
	"time"
)

const (
	// maxVersions is how many published tables are remembered: 25 minutes with a change in every poll of three seconds.
	maxVersions = 512
	// maxPending is for how many of them propagation is measured. Measuring older ones, too, would not add information: the newer
	// ones already show that propagation is slow.
	maxPending = 32
	// shownPublishes is how many of them a View contains.
	shownPublishes = 64
)

// version is a published table.
type version struct {
	Publication
	order uint64
	at    int64
	// The time until each share held it; notYet before that.
	took [len(shares)]time.Duration
	done bool // measurement has ended
}

// notYet means that a share has not been reached.
const notYet = time.Duration(-1)

// shares are the percentages of live clients for which the time since publication is measured.
var shares = [...]int{50, 99, 100}

// versions are the last published tables, in ascending order.
type versions struct{ list []version }

func (v *versions) add(one version) {
	if len(v.list) == maxVersions {
		copy(v.list, v.list[1:])
		v.list = v.list[:maxVersions-1]
	}
	for i := range one.took {
		one.took[i] = notYet
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

// after returns the number of versions after the one with the given order, and the time of the first of them. n is -1 if it is no
// longer known.
func (v *versions) after(order uint64) (n int, at int64) {
	i := sort.Search(len(v.list), func(i int) bool { return v.list[i].order > order })
	if i == len(v.list) {
		return 0, 0
	}
	if order == 0 || i == 0 && v.list[0].order > order+1 {
		return -1, v.list[i].at
	}
	return len(v.list) - i, v.list[i].at
}

// newerThan returns when the first version with a higher revision was published, or 0 if there is none.
func (v *versions) newerThan(revision uint64) int64 {
	for i := range v.list {
		if v.list[i].Revision > revision {
			return v.list[i].at
		}
	}
	return 0
}

// Publication is a table that is served from now on.
type Publication struct {
	Name
	Routes, Bytes int
	// Took is the time from the end of the read that first showed the table until it was served, including the time for which a
	// guard held it. It is negative if the table came from a last-known-good file.
	Took time.Duration
}

// Published records that a table is served from now on. order is higher than the order of all previous tables.
func (r *Registry) Published(order uint64, p Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions.add(version{Publication: p, order: order, at: r.cfg.Now().UnixNano()})
}

// CanaryPublished records that a table is served to the canary from now on. The orders are those of Config.CanaryOrder.
func (r *Registry) CanaryPublished(order uint64, p Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.canaries.add(version{Publication: p, order: order, at: r.cfg.Now().UnixNano()})
}

// versionsOf returns the tables that a client should have. Without a canary, all clients have those of the fleet.
func (r *Registry) versionsOf(c *client) *versions {
	if c.canary && len(r.canaries.list) > 0 {
		return &r.canaries
	}
	return &r.versions
}

// orderOf returns the last version with the table that a client holds.
func (r *Registry) orderOf(c *client, of *versions) uint64 {
	if of == &r.canaries {
		return r.cfg.CanaryOrder(c.holds.digest)
	}
	return c.holds.order
}

// judge returns the state of a client. If its table is unknown, versions is -1 and the duration counts from when the client was
// first known to be behind.
func (r *Registry) judge(c *client, now int64) (s State, versions int, behind time.Duration) {
	versions, behind = r.lag(c, now)
	if s = r.standing(c, versions); c.silent(now) {
		s = Silent
	}
	return s, versions, behind
}

// standing returns the state of a client that is not silent.
func (r *Registry) standing(c *client, versions int) State {
	switch {
	case c.rejects():
		return Rejected
	case versions != 0:
		return Behind
	default:
		return Current
	}
}

// rejects reports whether the client has reported that it does not accept the table, and has not been seen with another one
// since.
func (c *client) rejects() bool {
	return c.report != nil && c.report.said().rejected != "" && (c.holds == nil || c.since <= c.report.at)
}

// lag returns by how much a client is behind, or 0.
func (r *Registry) lag(c *client, now int64) (versions int, behind time.Duration) {
	all := r.versionsOf(c)
	last := all.last()
	switch {
	case last.order == 0:
		return 0, 0 // no table has been published
	case c.holds == nil:
		return -1, time.Duration(now - max(c.first, all.list[0].at))
	}
	order := max(r.orderOf(c, all), uint64(c.aheadOf))
	if order >= last.order {
		return 0, 0
	}
	if order > 0 {
		n, at := all.after(order)
		return n, time.Duration(now - at)
	}
	since := c.since
	if at := all.newerThan(c.revision); c.revision > 0 && at > 0 {
		since = at
	}
	return -1, time.Duration(now - since)
}

// reached reports whether the client holds the version with the number or a later one.
func (c *client) reached(order uint64) bool {
	return c.holds != nil && max(c.holds.order, uint64(c.aheadOf)) >= order
}

// look updates the versions of all tables that clients hold: a zone's table may also belong to a later version than the one for
// which it was named.
func (r *Registry) look() {
	for _, h := range r.tables {
		h.order = r.cfg.Order(h.digest)
	}
}
