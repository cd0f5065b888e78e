package fleet

import (
	"cmp"
	"slices"
	"time"
)

// Clients returns all clients of this replica only, sorted by id.
func (r *Registry) Clients() *Clients {
	now := r.now()
	r.mu.Lock()
	r.look()
	v := &Clients{Time: now, Tables: r.tables(), Clients: make([]Client, 0, len(r.clients))}
	if len(v.Tables) > 0 {
		v.Table = &v.Tables[0]
	}
	keys := make([]string, 0, len(r.clients))
	for k, c := range r.clients {
		if c.counts() {
			keys = append(keys, k)
		}
	}
	v.Replicas = []Replica{{
		Name: r.cfg.Name, Instance: r.instance, Self: true, Relay: r.cfg.Relay, Table: v.Table, Clients: len(keys), Full: r.full,
	}}
	r.mu.Unlock()
	for some := range slices.Chunk(keys, showAtOnce) {
		r.showSome(v, some, now)
	}
	slices.SortFunc(v.Clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	v.finish(Query{})
	return v
}

// showAtOnce is how many clients are copied without releasing the lock, which requests of clients also need.
const showAtOnce = 256

// showSome adds some clients to an answer, except those removed meanwhile.
func (r *Registry) showSome(v *Clients, keys []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		c := r.clients[k]
		if c == nil {
			continue
		}
		one := r.show(c, now)
		v.Clients = append(v.Clients, one)
		if n := c.below; n != nil {
			v.Relays = append(v.Relays, Relay{ID: one.ID, Counts: *n, Total: n.Total(), Heard: c.Reported, State: one.State})
		}
	}
}

func (r *Registry) tables() []Table {
	shown := []Table{}
	for _, v := range slices.Backward(r.versions.list[max(0, len(r.versions.list)-shownTables):]) {
		shown = append(shown, Table{Digest: v.Digest, Revision: v.Revision, Since: v.at})
	}
	return shown
}

func (r *Registry) show(c *client, now time.Time) Client {
	one := c.Client
	one.Address, one.Replica, one.Stream = c.address.String(), r.cfg.Name, c.streams > 0
	one.IntervalSeconds, one.Suspects = c.pace().Seconds(), c.showSuspects(now)
	var behind time.Duration
	one.State, one.BehindVersions, behind = r.judge(c, now)
	one.BehindSeconds = behind.Seconds()
	if !c.rejects() {
		one.Reason = ""
	}
	return one
}

// Counts returns how many clients are in each state: the summary that a relay reports.
func (r *Registry) Counts() Counts {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	var n Counts
	for _, c := range r.clients {
		if c.counts() {
			state, _, _ := r.judge(c, now)
			n.add(state)
		}
	}
	return n
}

// Share returns how many of the live clients that have named a table hold the version or a later one, and how many there are.
func (r *Registry) Share(order uint64) (holders, live int) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	for _, c := range r.clients {
		if c.Holds == nil || c.silent(now) || !c.counts() {
			continue
		}
		live++
		if max(c.order, c.aheadOf) >= order {
			holders++
		}
	}
	return holders, live
}
