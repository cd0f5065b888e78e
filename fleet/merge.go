package fleet

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// DefaultLimit is how many clients an answer has, unless the request sets a limit.
const DefaultLimit = 1000

// Query selects clients. The zero value matches all.
type Query struct {
	State                      State
	Kind                       Kind
	ID, Zone, Version, Replica string // exact; empty matches all
	Node                       string
	// Limit is the maximum number of clients; 0 means no limit.
	Limit int
}

// ParseQuery parses the parameters state, kind, id, zone, version, node, replica and limit of a request.
func ParseQuery(q url.Values) (Query, error) {
	one := Query{
		State: State(q.Get("state")), Kind: Kind(q.Get("kind")), ID: q.Get("id"), Zone: q.Get("zone"), Version: q.Get("version"),
		Node: q.Get("node"), Replica: q.Get("replica"), Limit: DefaultLimit,
	}
	if one.State != "" && !slices.Contains(States(), one.State) {
		return Query{}, fmt.Errorf("state %.40q must be current, behind, rejected or silent", q.Get("state"))
	}
	if k := one.Kind; k != "" && k != Sidecar && k != RelayKind && k != Proxy {
		return Query{}, fmt.Errorf("kind %.40q must be sidecar, relay or proxy", q.Get("kind"))
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > DefaultMax {
			return Query{}, fmt.Errorf("limit %.40q must be a number from 0 (counts only) to %d", text, DefaultMax)
		}
		one.Limit = n
		if n == 0 {
			one.Limit = -1
		}
	}
	return one, nil
}

func (q Query) chooses(c *Client) bool {
	return matches(q.State, c.State) && matches(q.Kind, c.Kind) && matches(q.ID, c.ID) && matches(q.Zone, c.Zone) &&
		matches(q.Version, c.Version) && matches(q.Node, c.Node) && matches(q.Replica, c.Replica)
}

func matches[T ~string](want, got T) bool { return want == "" || want == got }

// Answer is a peer's answer: its clients, or an error.
type Answer struct {
	Address string // host:port
	Clients *Clients
	Err     error
}

// Merge joins the clients of a replica with those of its peers. A client known to several replicas is shown as seen by the one
// that heard it last, with its newest report. A client that is current only for a lagging replica is behind. Relays among the
// peers contribute details of their clients; counts exclude them. Merge changes local.
func Merge(local *Clients, answers []Answer, q Query) *Clients {
	v := *local
	heard := []*Clients{local}
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Address, b.Address) })
	seen := map[string]bool{v.Replicas[0].Instance: true}
	for _, a := range answers {
		r := Replica{Name: a.Address, Error: "its answer names no replica"}
		switch {
		case a.Err != nil:
			r.Error = printable(a.Err.Error(), maxReason)
		case a.Clients != nil && len(a.Clients.Replicas) > 0:
			if r = a.Clients.Replicas[0]; seen[r.Instance] {
				continue
			}
			seen[r.Instance], r.Self = true, false
			heard = append(heard, a.Clients)
		}
		r.Address = a.Address
		v.Replicas = append(v.Replicas, r)
	}
	m := merger{clients: make(map[string]*Client), relays: make(map[string]*Relay), reference: newest(heard)}
	for _, one := range heard {
		m.join(one)
	}
	v.Clients, v.Relays = m.list()
	if m.reference != nil {
		v.Tables = m.reference.Tables
	}
	v.finish(q)
	return &v
}

// merger collects the clients of several replicas.
type merger struct {
	reference *Clients           // of the replica that is as new as any; nil if no replica has a table with a revision
	clients   map[string]*Client // by id
	relays    map[string]*Relay
}

// newest returns the answer of the replica with the highest revision, of relays only if there is no other; nil without one.
func newest(heard []*Clients) (newest *Clients) {
	for _, v := range heard {
		r := v.Replicas[0]
		if r.Table == nil || r.Relay && !heard[0].Replicas[0].Relay {
			continue
		}
		if newest == nil || r.Table.Revision > newest.Replicas[0].Table.Revision {
			newest = v
		}
	}
	return newest
}

func (m *merger) join(v *Clients) {
	self := v.Replicas[0]
	behind, since := m.behind(v)
	for i := range v.Clients {
		c := v.Clients[i]
		c.age = v.Time.Sub(c.LastHeard)
		if self.Relay {
			c.Relay = self.Name
		}
		if behind != 0 && c.State == Current && !c.Canary && (c.Holds == nil || c.Holds.Digest != m.reference.Replicas[0].Table.Digest) {
			c.State, c.BehindVersions, c.BehindSeconds = Behind, behind, since.Seconds()
		}
		if known := m.clients[c.ID]; known != nil {
			c = together(*known, c)
		}
		m.clients[c.ID] = &c
	}
	for _, one := range v.Relays {
		m.summary(one)
	}
	if self.Relay { // the relay's own answer is authoritative
		m.summary(Relay{ID: self.Name, Counts: v.Counts, Total: v.Counts.Total(), Heard: v.Time, State: Current, Details: true})
	}
}

// summary keeps the newest summary of a relay.
func (m *merger) summary(one Relay) {
	if known := m.relays[one.ID]; known != nil {
		one.Details = one.Details || known.Details
		if known.Heard.After(one.Heard) {
			known.Details = one.Details
			return
		}
	}
	m.relays[one.ID] = &one
}

// behind returns by how many versions the replica lags behind the newest one; 0 if it does not, -1 if unknown.
func (m *merger) behind(v *Clients) (versions int, since time.Duration) {
	if m.reference == nil || m.reference == v || v.Replicas[0].Table == nil {
		return 0, 0
	}
	own, newest := v.Replicas[0].Table, m.reference.Replicas[0].Table
	if own.Digest == newest.Digest || own.Revision >= newest.Revision {
		return 0, 0
	}
	first := newest.Since
	for i, t := range m.reference.Tables {
		if t.Digest == own.Digest {
			return i, m.reference.Time.Sub(first)
		}
		first = t.Since
	}
	return -1, m.reference.Time.Sub(newest.Since)
}

// together merges the data of two replicas about one client. It is silent only if neither has heard it for three of its
// intervals: its stream, its polls and its reports may reach different replicas.
func together(a, b Client) Client {
	age, pace := min(a.age, b.age), max(a.IntervalSeconds, b.IntervalSeconds)
	c := newer(a, b)
	if pace == 0 {
		return c
	}
	c.age, c.IntervalSeconds = age, pace
	switch {
	case age > 3*seconds(pace):
		c.State = Silent
	case c.State != Silent:
	case a.State != Silent:
		c.State = a.State
	case b.State != Silent:
		c.State = b.State
	default:
		c.State = Current
	}
	return c
}

// newer merges the data of two replicas about one client.
func newer(a, b Client) Client {
	if a.LastHeard.After(b.LastHeard) || a.LastHeard.Equal(b.LastHeard) && a.Replica < b.Replica {
		a, b = b, a
	}
	if b.Reported.Before(a.Reported) { // the older sighting has the newer report
		b.Reported, b.Proven, b.Refused, b.MetricsError = a.Reported, a.Proven, a.Refused, a.MetricsError
		if a.State != Silent && b.State != Silent && (b.Holds == nil || !b.Holds.Since.After(a.Reported)) {
			// The report has what the client applied. The replica that serves its stream knows only what was sent.
			b.State, b.Reason, b.Holds, b.BehindVersions, b.BehindSeconds = a.State, a.Reason, a.Holds, a.BehindVersions, a.BehindSeconds
		}
	}
	if len(b.Suspects) == 0 { // the newer report may be a forged one
		b.Suspects = a.Suspects
	}
	if a.FirstHeard.Before(b.FirstHeard) {
		b.FirstHeard = a.FirstHeard
	}
	b.Stream = b.Stream || a.Stream && a.State != Silent
	if b.Holds == nil {
		b.Holds = a.Holds
	}
	return b
}

func (m *merger) list() (clients []Client, relays []Relay) {
	for _, c := range m.clients {
		clients = append(clients, *c)
	}
	for id, one := range m.relays {
		if c := m.clients[id]; c != nil && c.Kind == RelayKind {
			one.State = c.State
		}
		relays = append(relays, *one)
	}
	return clients, relays
}

// finish counts the clients, then filters and sorts them.
func (v *Clients) finish(q Query) {
	v.Counts, v.Clients, v.Relays = Counts{}, append([]Client{}, v.Clients...), append([]Relay{}, v.Relays...) // never null in JSON
	zones, versions := make(map[string]Counts), make(map[string]Counts)
	behindRelay := v.Replicas[0].Relay
	v.Suspects = suspectTables(v.Clients, v.Time)
	chosen := v.Clients[:0]
	for _, c := range v.Clients {
		if c.Relay == "" || behindRelay && c.Relay == v.Replicas[0].Name { // a relay reports for its clients
			v.Counts.add(c.State)
			zones[c.Zone] = zones[c.Zone].with(c.State)
			versions[c.Version] = versions[c.Version].with(c.State)
		}
		if q.chooses(&c) {
			chosen = append(chosen, c)
		}
	}
	v.Total, v.Zones, v.Versions = v.Counts.Total(), groups(zones), groups(versions)
	slices.SortFunc(chosen, func(a, b Client) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Relay, b.Relay))
	})
	v.Matched = len(chosen)
	if q.Limit != 0 {
		chosen = chosen[:min(len(chosen), max(q.Limit, 0))]
	}
	v.Clients, v.Truncated = chosen, len(chosen) < v.Matched
	slices.SortFunc(v.Relays, func(a, b Relay) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(v.Replicas[1:], func(a, b Replica) int { return cmp.Compare(a.Address, b.Address) })
}

func rank(s State) int { return slices.Index([]State{Rejected, Behind, Silent, Current}, s) }

func groups(all map[string]Counts) []Group {
	list := make([]Group, 0, len(all))
	for name, n := range all {
		list = append(list, Group{name, n})
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Counts.Total(), a.Counts.Total()), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), MaxGroups)]
}
