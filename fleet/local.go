package fleet

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"
	"time"
	"unique"
)

// newInstance returns a random name for a Registry, so that it recognises itself among its peers.
func newInstance() string { return rand.Text() }

// View returns all clients of this replica only, sorted by id.
func (r *Registry) View() *View {
	at := r.cfg.Now()
	now := at.UnixNano()
	r.mu.Lock()
	r.look()
	v := &View{Time: at, Table: r.served(), Publishes: r.publishes(), Clients: make([]Client, 0, len(r.clients))}
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

// showSome adds some clients to a view, except those removed meanwhile.
func (r *Registry) showSome(v *View, keys []string, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		c := r.clients[k]
		if c == nil {
			continue
		}
		one := r.show(c, now)
		v.Clients = append(v.Clients, one)
		if n, reports := r.relays[k]; reports {
			v.Relays = append(v.Relays, Relay{ID: one.ID, Counts: n, Total: n.Total(), Heard: timeOf(c.report.at), State: one.State})
		}
	}
}

// served returns the served table, or nil before the first one.
func (r *Registry) served() *Table {
	last := r.versions.last()
	if last.order == 0 {
		return nil
	}
	return &Table{Digest: last.Digest, Revision: last.Revision, Since: timeOf(last.at)}
}

// publishes returns the last tables, newest first.
func (r *Registry) publishes() []Publish {
	list := r.versions.list
	shown := make([]Publish, 0, min(len(list), shownPublishes))
	for i := len(list) - 1; i >= max(0, len(list)-shownPublishes); i-- {
		v := &list[i]
		p := Publish{Digest: v.Digest, Revision: v.Revision, Time: timeOf(v.at), Routes: v.Routes, Bytes: v.Bytes}
		if v.Took >= 0 {
			took := v.Took.Seconds()
			p.Took = &took
		}
		for share, to := range []**float64{&p.Half, &p.Most, &p.All} {
			if took := v.took[share]; took != notYet {
				s := took.Seconds()
				*to = &s
			}
		}
		if h := r.tables[v.Digest]; h != nil && h.order == v.order {
			p.Holders = h.holders
		}
		shown = append(shown, p)
	}
	return shown
}

// show returns the public form of a client.
func (r *Registry) show(c *client, now int64) Client {
	one := Client{
		ID: c.key, Kind: kinds[c.kind], Node: c.node, Zone: text(c.zone), Version: text(c.version), Mode: text(c.mode),
		Address: c.address.String(), Replica: r.cfg.Name, Stream: c.streams > 0,
		FirstHeard: timeOf(c.first), LastHeard: timeOf(c.heard), IntervalSeconds: c.pace().Seconds(),
	}
	if c.pod {
		one.Pod = c.key
	}
	if c.inferred() {
		agent := printable(c.key[agentAt:], maxAgent)
		one.ID, one.Version, one.Inferred = strings.TrimSpace(one.Address+" "+agent), agent, true
	}
	if c.holds != nil {
		one.Holds = &Table{Digest: c.holds.digest, Revision: c.revision, Since: timeOf(c.since)}
	}
	var behind time.Duration
	one.State, one.BehindVersions, behind = r.judge(c, now)
	if one.State == Silent {
		one.Otherwise = r.standing(c, one.BehindVersions)
	}
	one.BehindSeconds = behind.Seconds()
	if p := c.report; p != nil {
		one.Applied, one.Reported = applieds[c.applied], timeOf(p.at)
		if p.figures != nil {
			one.Figures = p.figures.show()
		}
		one.FiguresError, one.Suspects, one.Pre = p.said().unread, p.said().suspects, p.said().pre
		if one.State == Rejected || one.Otherwise == Rejected {
			one.Reason = p.said().rejected
		}
		if p.proven != nil {
			one.Proven = &Table{Digest: p.proven.digest}
		}
		if p.fetched != nil {
			one.Fetched = &Table{Digest: p.fetched.digest, Since: timeOf(p.took)}
		}
	}
	return one
}

func text(h unique.Handle[string]) string {
	if h == (unique.Handle[string]{}) {
		return ""
	}
	return h.Value()
}

func timeOf(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// Counts returns how many clients are in each state: the summary that a relay reports.
func (r *Registry) Counts() Counts {
	now := r.cfg.Now().UnixNano()
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

// Share returns how many of the live clients that have named a table hold the version with the number or a later one, and how
// many such clients there are.
func (r *Registry) Share(order uint64) (holders, live int) {
	now := r.cfg.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	for _, c := range r.clients {
		if c.holds == nil || c.silent(now) || !c.counts() {
			continue
		}
		live++
		if c.reached(order) {
			holders++
		}
	}
	return holders, live
}
