package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/fleet"
)

// Limits for querying and showing the fleet.
const (
	fleetEvery   = 2 * time.Second // minimum time between queries
	fleetTimeout = 4 * time.Second // including peers
	maxLaggards  = 12
	maxClients   = 200
)

// remembered caches the answer of the fleet briefly: many pages cost one query.
type remembered struct {
	ask  func(context.Context, fleet.Query) (fleet.Clients, error)
	turn httpserve.Turns // of one query

	// guarded by turn
	view fleet.Clients
	err  error
	at   time.Time
}

func (m *remembered) all(ctx context.Context) (fleet.Clients, error) {
	done, ok := m.turn.Wait(ctx, 0)
	if !ok {
		return fleet.Clients{}, ctx.Err()
	}
	defer done()
	if m.at.IsZero() || time.Since(m.at) > fleetEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fleetTimeout) // other pages wait for the answer, too
		defer cancel()
		m.view, m.err = m.ask(ctx, fleet.Query{})
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

type count struct {
	stateView
	N     int
	Share string // percent of all, for the width of a bar
	From  string // start position in the bar
}

func countsOf(c fleet.Counts) []count {
	all := []count{
		{stateView: stateOf(fleet.Rejected), N: c.Rejected}, {stateView: stateOf(fleet.Behind), N: c.Behind},
		{stateView: stateOf(fleet.Silent), N: c.Silent}, {stateView: stateOf(fleet.Current), N: c.Current},
	}
	from := 0
	for i := range all {
		all[i].From, all[i].Share = percent(from, c.Total()), percent(all[i].N, c.Total())
		from += all[i].N
	}
	return all
}

func percent(n, of int) string {
	return strconv.FormatFloat(100*float64(n)/float64(max(of, 1)), 'f', 2, 64) + "%"
}

type clientRow struct {
	fleet.Client
	State  stateView
	Behind string // how many tables and for how long
}

func newClientRow(c fleet.Client) clientRow {
	r := clientRow{Client: c, State: stateOf(c.State), Behind: behind(c)}
	if r.Refused > 0 && c.State == fleet.Current {
		r.State = stateView{"refuses routes", "▲", notice}
	}
	return r
}

// behind describes how far a client is behind.
func behind(c fleet.Client) string {
	tables := plural(c.BehindVersions, "table")
	switch {
	case c.State == fleet.Current, c.BehindVersions == 0 && c.BehindSeconds == 0:
		return ""
	case c.BehindVersions < 0:
		tables = "an unknown table"
	}
	return tables + ", for " + short(time.Duration(c.BehindSeconds*float64(time.Second)))
}

type fleetView struct {
	fleet.Clients
	Known    bool
	Error    string
	States   []count
	Laggards []clientRow
	MoreLag  int
	Refusing int // clients whose proxy has refused routes of its table
}

func (c *Console) newFleetView(ctx context.Context) fleetView {
	if c.cfg.Fleet == nil {
		return fleetView{}
	}
	v, err := c.fleet.all(ctx)
	if err != nil {
		return fleetView{Known: true, Error: text(err.Error())}
	}
	out := fleetView{Clients: v, Known: true, States: countsOf(v.Counts)}
	for _, one := range v.Clients {
		row := newClientRow(one)
		refuses := one.State == fleet.Current && row.Refused > 0
		if refuses {
			out.Refusing++
		}
		if (one.State != fleet.Current || refuses) && len(out.Laggards) < maxLaggards {
			out.Laggards = append(out.Laggards, row)
		}
	}
	out.MoreLag = max(v.Counts.Behind+v.Counts.Rejected+v.Counts.Silent+out.Refusing-len(out.Laggards), 0)
	return out
}

// Missing returns the replicas that did not answer.
func (v fleetView) Missing() (missing []fleet.Replica) {
	for _, r := range v.Replicas {
		if r.Error != "" {
			missing = append(missing, r)
		}
	}
	return missing
}

type clientsPage struct {
	Fleet        fleetView
	State, Query string // filter values; empty means all
	Shown        []clientRow
	Matched      int // of the searched clients
	Cut          bool
	All          []stateView
}

func (c *Console) fleetPage(ctx context.Context, r *http.Request) answer {
	state, query := fleet.State(r.URL.Query().Get("state")), r.URL.Query().Get("q")
	b := clientsPage{Fleet: c.newFleetView(ctx), State: text(string(state)), Query: text(query)}
	for _, s := range fleet.States() {
		b.All = append(b.All, stateOf(s))
	}
	from := b.Fleet.Clients
	if from.Truncated && slices.Contains(fleet.States(), state) {
		ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
		defer cancel()
		var err error
		if from, err = c.cfg.Fleet(ctx, fleet.Query{State: state}); err != nil {
			b.Fleet.Error = text(err.Error())
		}
	}
	b.Cut = from.Truncated
	for _, one := range from.Clients {
		texts := strings.Join([]string{one.ID, one.Node, one.Address, one.Pod, one.Zone, one.Version}, "\n")
		if state != "" && one.State != state || !strings.Contains(strings.ToLower(texts), strings.ToLower(query)) {
			continue
		}
		if b.Matched++; len(b.Shown) < maxClients {
			b.Shown = append(b.Shown, newClientRow(one))
		}
	}
	return answer{Title: "fleet", Body: b, Live: true}
}
