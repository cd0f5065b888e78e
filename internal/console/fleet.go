package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// Limits for querying and showing the fleet.
const (
	fleetEvery   = 2 * time.Second // minimum time between queries
	fleetTimeout = 4 * time.Second // peers may be asked
	maxLaggards  = 12
	maxGroups    = 8
	maxClients   = 200
	maxMissing   = 3
)

// remembered caches the answer of the fleet for a moment, so that many pages cost no more than one.
type remembered struct {
	ask  func(context.Context, string) (fleet.View, error)
	turn chan struct{} // of capacity 1: full while a query runs

	// guarded by turn
	view fleet.View
	err  error
	at   time.Time
}

// all returns all clients.
func (m *remembered) all(ctx context.Context) (fleet.View, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return fleet.View{}, ctx.Err()
	}
	defer func() { <-m.turn }()
	if m.at.IsZero() || time.Since(m.at) > fleetEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fleetTimeout) // other pages wait for the answer, too
		defer cancel()
		m.view, m.err = m.ask(ctx, "")
		m.at = time.Now()
	}
	return m.view, m.err
}

// stateView shows a state as a word, a sign and a tone, so that it can be recognised without colour.
type stateView struct{ Word, Sign, Tone string }

// The tones of a page.
const (
	good    = "good"
	notice  = "notice"
	bad     = "bad"
	neutral = "neutral"
)

var fleetStates = map[fleet.State]stateView{
	fleet.Current:  {"current", "✓", good},
	fleet.Behind:   {"behind", "▲", notice},
	fleet.Rejected: {"rejected", "✕", bad},
	fleet.Silent:   {"silent", "○", neutral},
}

func stateOf(s fleet.State) stateView {
	if v, ok := fleetStates[s]; ok {
		return v
	}
	return stateView{text(string(s)), "?", neutral}
}

// count is the number of clients in a state, with a link to them.
type count struct {
	stateView
	N     int
	Link  string
	Share string // percent of all, for the width of a bar
	From  string // start position in the bar
}

func countsOf(c fleet.Counts, link url.Values) []count {
	all := []count{
		{stateView: stateOf(fleet.Rejected), N: c.Rejected}, {stateView: stateOf(fleet.Behind), N: c.Behind},
		{stateView: stateOf(fleet.Silent), N: c.Silent}, {stateView: stateOf(fleet.Current), N: c.Current},
	}
	total := max(c.Rejected+c.Behind+c.Silent+c.Current, 1)
	from := 0
	for i := range all {
		q := url.Values{}
		for k, v := range link {
			q[k] = v
		}
		q.Set("state", all[i].Word)
		all[i].Link = "fleet?" + q.Encode()
		all[i].From, all[i].Share = percent(from, total), percent(all[i].N, total)
		from += all[i].N
	}
	return all
}

// groupView is a zone or a version with its clients.
type groupView struct {
	Name   string
	Link   string
	Total  int
	Counts []count
}

func groupsOf(groups []fleet.Group, parameter string, limit int) (shown []groupView, more int) {
	groups = slices.Clone(groups)
	size := func(g fleet.Group) int {
		return g.Counts.Current + g.Counts.Behind + g.Counts.Rejected + g.Counts.Silent
	}
	slices.SortStableFunc(groups, func(a, b fleet.Group) int { return cmp.Compare(size(b), size(a)) })
	for i, g := range groups {
		if i == limit {
			return shown, len(groups) - limit
		}
		link := url.Values{parameter: {g.Name}}
		name := cut(g.Name, 60)
		if name == "" {
			name = "(none)"
		}
		shown = append(shown, groupView{name, "fleet?" + link.Encode(), size(g), countsOf(g.Counts, link)})
	}
	return shown, 0
}

// clientRow is a client in a list.
type clientRow struct {
	State    stateView
	ID       string
	Link     string
	Kind     string
	Inferred bool
	Stream   bool
	Node     string
	Zone     string
	Version  string
	Mode     string
	Replica  string
	Behind   string // how many tables and for how long
	Reason   string
	Revision uint64
	Digest   string
	Heard    moment
	Refused  uint64
	Unread   string // why the metrics of its proxy cannot be read
}

func newClientRow(c fleet.Client, now time.Time) clientRow {
	r := clientRow{
		State: stateOf(c.State), ID: cut(c.ID, 120), Link: "client?" + url.Values{"id": {c.ID}}.Encode(), Kind: cut(string(c.Kind), 20),
		Inferred: c.Inferred, Stream: c.Stream, Node: cut(c.Node, 80), Zone: cut(c.Zone, 60), Version: cut(c.Version, 60), Mode: cut(c.Mode, 20),
		Replica: cut(c.Replica, 80), Behind: behind(c), Reason: cut(c.Reason, 300), Heard: newMoment(c.LastHeard, now),
	}
	if c.Holds != nil {
		r.Revision, r.Digest = c.Holds.Revision, shortDigest(c.Holds.Digest.String())
	}
	r.Unread = cut(c.FiguresError, 300)
	if c.Figures != nil {
		r.Refused = c.Figures.RefusedNew
	}
	if r.Refused > 0 && c.State == fleet.Current {
		r.State = stateView{"refuses routes", "▲", notice}
	}
	return r
}

// behind says how far a client is behind.
func behind(c fleet.Client) string {
	if c.State == fleet.Current || c.BehindVersions == 0 && c.BehindSeconds == 0 {
		return ""
	}
	for_ := short(time.Duration(c.BehindSeconds * float64(time.Second)))
	switch {
	case c.BehindVersions < 0:
		return "an unknown table, for " + for_
	default:
		return plural(c.BehindVersions, "table") + ", for " + for_
	}
}

// shortDigest returns the first characters of a digest, enough to distinguish tables by eye.
func shortDigest(digest string) string { return digest[:min(12, len(digest))] }

// fleetView is the fleet on a page.
type fleetView struct {
	Known       bool
	Error       string
	Total       int
	Counts      []count
	Missing     []string // replicas without an answer, with the reason
	MoreMissing int
	Zones       []groupView
	MoreZones   int
	Versions    []groupView
	MoreVers    int
	Replicas    []replicaRow
	Relays      []relayRow
	Laggards    []clientRow
	MoreLag     int
	Reached     string // time until the last table reached the fleet
	Sums        []figure
	Refusing    int // clients whose proxy has refused routes of its table
}

type replicaRow struct {
	Name, Address, Error string
	Self, Relay, Full    bool
	Clients              int
	Revision             uint64
	Digest               string
}

type relayRow struct {
	ID, Link string
	State    stateView
	Total    int
	Counts   []count
	Heard    moment
}

// maxReplicas is how many replicas and relays a page lists.
const maxReplicas = 40

// newFleetView queries the fleet.
func (c *Console) newFleetView(ctx context.Context, now time.Time) (fleetView, *fleet.View) {
	if c.cfg.Fleet == nil {
		return fleetView{}, nil
	}
	v, err := c.fleet.all(ctx)
	if err != nil {
		return fleetView{Known: true, Error: text(err.Error())}, nil
	}
	c.cfg.Publishes.reached(v.Publishes)
	out := fleetView{Known: true, Total: v.Total, Counts: countsOf(v.Counts, nil)}
	out.Zones, out.MoreZones = groupsOf(v.Zones, "zone", maxGroups)
	out.Versions, out.MoreVers = groupsOf(v.Versions, "version", maxGroups)
	for i, r := range v.Replicas {
		if r.Error != "" {
			if len(out.Missing) < maxMissing {
				out.Missing = append(out.Missing, cut(cmp.Or(r.Name, r.Address), 100)+": "+cut(r.Error, 300))
			} else {
				out.MoreMissing++
			}
		}
		if i < maxReplicas {
			row := replicaRow{cut(r.Name, 100), cut(r.Address, 100), cut(r.Error, 300), r.Self, r.Relay, r.Full, r.Clients, 0, ""}
			if r.Table != nil {
				row.Revision, row.Digest = r.Table.Revision, shortDigest(r.Table.Digest.String())
			}
			out.Replicas = append(out.Replicas, row)
		}
	}
	for i, r := range v.Relays {
		if i < maxReplicas {
			out.Relays = append(out.Relays, relayRow{
				cut(r.ID, 100), "client?" + url.Values{"id": {r.ID}}.Encode(), stateOf(r.State), r.Total, countsOf(r.Counts, nil), newMoment(r.Heard, now),
			})
		}
	}
	lagging := v.Counts.Behind + v.Counts.Rejected + v.Counts.Silent
	for _, one := range v.Clients {
		refuses := one.State == fleet.Current && one.Figures != nil && one.Figures.RefusedNew > 0
		if refuses {
			out.Refusing++
		}
		if (one.State != fleet.Current || refuses) && len(out.Laggards) < maxLaggards {
			out.Laggards = append(out.Laggards, newClientRow(one, now))
		}
	}
	out.MoreLag = max(lagging+out.Refusing-len(out.Laggards), 0)
	out.Sums = sumsOf(v.Clients)
	if len(v.Publishes) > 0 {
		out.Reached = reachedText(v.Publishes[0])
	}
	return out, &v
}

// sumsOf adds up what the proxies of live clients say of themselves, since each of them started. It is empty if none says anything.
func sumsOf(clients []fleet.Client) []figure {
	var proxies int
	var requests, noRoute, failed, refused uint64
	add := func(sum, n *uint64) {
		if n != nil {
			*sum += *n
		}
	}
	for _, c := range clients {
		if f := c.Figures; f != nil && c.State != fleet.Silent {
			proxies++
			add(&requests, f.Requests)
			add(&noRoute, f.NoRoute)
			add(&failed, f.Errors)
			add(&refused, &f.RefusedNew)
		}
	}
	if proxies == 0 {
		return nil
	}
	show := func(name string, n uint64, tone string) figure {
		if n == 0 {
			tone = ""
		}
		return figure{name, thousands(int(min(n, 1<<62))), tone}
	}
	return []figure{
		show("requests, according to "+plural(proxies, "client"), requests, ""), show("404 without a route", noRoute, notice),
		show("answers with 5xx", failed, notice), show("routes refused of the tables in use", refused, bad),
	}
}

// reached calls Reached unless p is nil.
func (p *Publishes) reached(tables []fleet.Publish) {
	if p != nil {
		p.Reached(tables)
	}
}

// reachedText says how much of the fleet has the last table.
func reachedText(p fleet.Publish) string {
	switch {
	case p.All != nil:
		return "The last table reached all live clients in " + durationText(seconds(p.All)) + "."
	case p.Most != nil:
		return "The last table reached 99 % of the live clients in " + durationText(seconds(p.Most)) + ", and not yet all of them."
	case p.Half != nil:
		return "The last table reached half of the live clients in " + durationText(seconds(p.Half)) + ", and not yet 99 % of them."
	}
	return ""
}

// clientsPage is the body of the page of the fleet.
type clientsPage struct {
	Fleet             fleetView
	State             string
	Zone              string
	Version           string
	Query             string
	Filtered          bool
	InZone, OfVersion bool // Zone and Version were chosen; they may be empty
	Shown             []clientRow
	Matched           int // of the searched clients
	Cut               bool
	All               []stateView
}

// fleetPage lists the clients that match the query.
func (c *Console) fleetPage(ctx context.Context, r *http.Request) (answer, error) {
	now, q := time.Now(), r.URL.Query()
	b := clientsPage{State: text(q.Get("state")), Zone: text(q.Get("zone")), Version: text(q.Get("version")), Query: text(q.Get("q"))}
	for _, s := range []fleet.State{fleet.Rejected, fleet.Behind, fleet.Silent, fleet.Current} {
		b.All = append(b.All, stateOf(s))
	}
	var view *fleet.View
	b.Fleet, view = c.newFleetView(ctx, now)
	if view == nil {
		return answer{Title: "fleet", Body: b, Live: true}, nil
	}
	clients, truncated := view.Clients, view.Truncated
	if state := q.Get("state"); truncated && slices.Contains(fleet.States(), fleet.State(state)) {
		ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
		defer cancel()
		chosen, err := c.cfg.Fleet(ctx, state)
		if err != nil {
			b.Fleet.Error = text(err.Error())
			return answer{Title: "fleet", Body: b, Live: true}, nil
		}
		clients, truncated = chosen.Clients, chosen.Truncated
	}
	b.Cut = truncated
	want := strings.ToLower(q.Get("q"))
	b.InZone, b.OfVersion = q.Has("zone"), q.Has("version")
	b.Filtered = b.InZone || b.OfVersion || q.Get("state") != "" || q.Get("q") != ""
	for _, one := range clients {
		switch {
		case q.Get("state") != "" && string(one.State) != q.Get("state"),
			b.InZone && one.Zone != q.Get("zone"),
			b.OfVersion && one.Version != q.Get("version"),
			want != "" && !strings.Contains(strings.ToLower(one.ID+" "+one.Node+" "+one.Address+" "+one.Pod), want):
			continue
		}
		if b.Matched++; len(b.Shown) < maxClients {
			b.Shown = append(b.Shown, newClientRow(one, now))
		}
	}
	return answer{Title: "fleet", Body: b, Live: true}, nil
}
