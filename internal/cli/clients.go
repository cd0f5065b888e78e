package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/config"
)

type clientsJob struct {
	state     string
	maxBehind time.Duration
}

func clientsCommand() command {
	states := make([]string, 0, 4)
	for _, s := range fleet.States() {
		states = append(states, string(s))
	}
	return command{
		name: "clients", summary: "Lists the proxies that ask for the table, and which table each one holds.",
		intro: `Asks every replica for its clients and prints each client once, those with faults first. A client is ` + strings.Join(states[:3], ", ") + `
or ` + states[3] + ` (no request for three of its intervals; it is forgotten after an hour, so deleted pods are listed for that long).
A name in brackets is inferred from address and user agent, because the client does not give its name.

The exit status is 0 if no client has rejected a table or is behind for longer than --max-behind, 1 if one is, and 2 if a
cluster, a replica or one of its peers does not answer: clients may be missing then. Silent clients do not count,
because they may be deleted pods.`,
		examples: []example{
			{"Which proxy holds which table?", "clients @"},
			{"Who is behind, in all clusters?", "clients --contexts 'prod-*' --state behind @"},
			{"With the state that the proxies report", "clients -o wide @"},
		},
		outputs: []string{"text", "wide", "json"},
		job:     func() job { return &clientsJob{maxBehind: 30 * time.Second} },
	}
}

func (j *clientsJob) define(g config.Section) {
	words := []string{""}
	for _, s := range fleet.States() {
		words = append(words, string(s))
	}
	g.Ask("state", "", config.Choice(&j.state, words...), "Only clients in this state.")
	g.Ask("max-behind", "", config.Duration(&j.maxBehind, j.maxBehind, 100*time.Millisecond, 10*time.Minute), "How long a client may be behind.")
}

func askClients(state string) func(context.Context, Replica) (*fleet.View, error) {
	q := url.Values{}
	if state != "" {
		q.Set("state", state)
	}
	return func(ctx context.Context, r Replica) (*fleet.View, error) {
		v := &fleet.View{}
		if _, err := r.Support.get(ctx, "/clients", q, v); err != nil {
			return nil, err
		}
		if v.Time.IsZero() {
			return nil, errors.New("/clients: the answer is not that of a route server")
		}
		return v, nil
	}
}

func (j *clientsJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askClients(j.state))
	status := Healthy
	docs := make([]documentCluster, len(replies))
	views := make([]*fleet.View, len(replies))
	for i, r := range replies {
		views[i] = mergeViews(r)
		docs[i] = j.judge(r, views[i])
		status = max(status, statusOf(docs[i].Result))
	}
	if s.output == "json" {
		return status, writeDocument(s.std.Out, "clients", status, docs)
	}
	return status, j.write(s, replies, docs, views)
}

// mergeViews merges the views of the replicas. Of a client that several know, it keeps the entry heard most recently. It counts
// the clients if the answers contain all of them; otherwise it takes the counts of the replica that knows most.
func mergeViews(r reply[*fleet.View]) *fleet.View {
	var merged *fleet.View
	whole := true
	clients := make(map[string]fleet.Client)
	replicas := make(map[string]fleet.Replica)
	relays := make(map[string]fleet.Relay)
	for _, a := range r.answered() {
		v := a.value
		if merged == nil || v.Total > merged.Total {
			c := *v
			merged = &c
		}
		whole = whole && !v.Truncated && v.Matched == v.Total+behindRelays(v)
		for _, c := range v.Clients {
			if before, ok := clients[c.ID]; !ok || c.LastHeard.After(before.LastHeard) {
				clients[c.ID] = c
			}
		}
		for _, p := range v.Replicas {
			p.Self = false
			if before, ok := replicas[p.Name]; !ok || before.Error != "" && p.Error == "" {
				replicas[p.Name] = p
			}
		}
		for _, l := range v.Relays {
			if before, ok := relays[l.ID]; !ok || l.Heard.After(before.Heard) {
				relays[l.ID] = l
			}
		}
	}
	if merged == nil {
		return nil
	}
	rank := func(c fleet.Client) int {
		return slices.Index([]fleet.State{fleet.Rejected, fleet.Behind, fleet.Silent, fleet.Current}, c.State)
	}
	merged.Clients = slices.SortedFunc(maps.Values(clients), func(a, b fleet.Client) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.ID, b.ID))
	})
	merged.Replicas = slices.SortedFunc(maps.Values(replicas), func(a, b fleet.Replica) int { return strings.Compare(a.Name, b.Name) })
	merged.Relays = slices.SortedFunc(maps.Values(relays), func(a, b fleet.Relay) int { return strings.Compare(a.ID, b.ID) })
	merged.Matched = max(merged.Matched, len(merged.Clients))
	merged.Truncated = merged.Truncated || len(merged.Clients) < merged.Matched
	if whole {
		recount(merged)
	}
	return merged
}

// behindRelays returns how many of the clients in a view ask a relay. The counts do not include them.
func behindRelays(v *fleet.View) (n int) {
	for _, c := range v.Clients {
		if c.Relay != "" {
			n++
		}
	}
	return n
}

// recount counts the clients that ask a replica.
func recount(v *fleet.View) {
	v.Counts, v.Total = fleet.Counts{}, 0
	zones, versions := make(map[string]*fleet.Counts), make(map[string]*fleet.Counts)
	for _, c := range v.Clients {
		if c.Relay != "" {
			continue
		}
		v.Total++
		for _, counts := range []*fleet.Counts{&v.Counts, group(zones, c.Zone), group(versions, c.Version)} {
			switch c.State {
			case fleet.Current:
				counts.Current++
			case fleet.Behind:
				counts.Behind++
			case fleet.Rejected:
				counts.Rejected++
			case fleet.Silent:
				counts.Silent++
			}
		}
	}
	v.Zones, v.Versions = groups(zones), groups(versions)
}

func group(all map[string]*fleet.Counts, name string) *fleet.Counts {
	if all[name] == nil {
		all[name] = &fleet.Counts{}
	}
	return all[name]
}

func groups(all map[string]*fleet.Counts) []fleet.Group {
	list := []fleet.Group{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, fleet.Group{Name: name, Counts: *all[name]})
	}
	return list
}

func (j *clientsJob) judge(r reply[*fleet.View], v *fleet.View) documentCluster {
	status := Healthy
	var wrong []string
	if v != nil {
		if n := v.Counts.Rejected; n > 0 {
			wrong = append(wrong, number(n, "client")+" rejected a table")
		}
		late := 0
		for _, c := range v.Clients {
			if c.State == fleet.Behind && c.BehindSeconds > j.maxBehind.Seconds() {
				late++
			}
		}
		if late > 0 {
			wrong = append(wrong, fmt.Sprintf("%s behind for more than %v", number(late, "client"), j.maxBehind))
		}
		if len(wrong) > 0 {
			status = Unhealthy
		}
		for _, p := range v.Replicas {
			if p.Error != "" {
				wrong, status = append(wrong, "the replicas cannot ask "+cmp.Or(p.Name, p.Address)+": "+p.Error), Trouble
			}
			if p.Full {
				wrong = append(wrong, p.Name+" knows as many clients as it can: others are missing")
			}
		}
	}
	for _, a := range r.answers {
		if a.err != nil && !a.fault {
			status = Trouble
		}
	}
	d := outline(r, status)
	d.Wrong = wrong
	if v != nil {
		d.Answer = v
	}
	return d
}

func (j *clientsJob) write(s *session, replies []reply[*fleet.View], docs []documentCluster, views []*fleet.View) error {
	g := &grid{}
	header := []string{"CLIENT", "STATE", "HOLDS", "BEHIND", "HEARD", "ZONE", "VERSION"}
	wide := s.output == "wide"
	if wide {
		header = append(header, "KIND", "MODE", "NODE", "REPLICA", "RELAY", "FETCHED", "REQUESTS", "5XX", "NO ROUTE", "REASON")
	}
	s.row(g, "CONTEXT", header)
	var totals, notes []string
	for i, r := range replies {
		notes = append(notes, r.missing()...)
		v := views[i]
		if v == nil {
			continue
		}
		for _, c := range v.Clients {
			s.row(g, r.cluster, clientRow(s, c, wide))
			if c.Reason != "" && !wide {
				notes = append(notes, label(r.cluster, c.ID)+c.Reason)
			}
		}
		for _, w := range docs[i].Wrong {
			notes = append(notes, label(r.cluster, "")+w)
		}
		for _, l := range v.Relays {
			if !l.Details {
				totals = append(totals, fmt.Sprintf("%s%s behind relay %s: %s", label(r.cluster, ""), number(l.Total, "client"), l.ID, countsText(l.Counts)))
			}
		}
		totals = append(totals, fmt.Sprintf("%s%s: %s", label(r.cluster, ""), number(v.Total, "client"), countsText(v.Counts)))
		if v.Truncated {
			totals = append(totals, fmt.Sprintf("%s%d of %d clients are shown: choose with --state", label(r.cluster, ""), len(v.Clients), v.Matched))
		}
	}
	if len(g.rows) > 1 {
		if err := g.write(s.std.Out); err != nil {
			return err
		}
		fmt.Fprintln(s.std.Out)
	}
	writeLines(s.std.Out, append(totals, notes...))
	return nil
}

func clientRow(s *session, c fleet.Client, wide bool) []string {
	id := c.ID
	if c.Inferred {
		id = "[" + id + "]"
	}
	holds, behind := "", ""
	if c.Holds != nil {
		holds = shortDigest(c.Holds.Digest.String())
	}
	if c.State != fleet.Current && (c.BehindVersions != 0 || c.BehindSeconds > 0) {
		behind = age(time.Duration(c.BehindSeconds * float64(time.Second)))
		if c.BehindVersions > 0 {
			behind = number(c.BehindVersions, "version") + ", " + behind
		}
	}
	row := []string{id, string(c.State), holds, behind, s.since(c.LastHeard), c.Zone, c.Version}
	if !wide {
		return row
	}
	fetched := ""
	if c.Fetched != nil {
		fetched = strings.TrimSpace(shortDigest(c.Fetched.Digest.String()) + " " + string(c.Applied))
	}
	more := []string{string(c.Kind), c.Mode, c.Node, c.Replica, c.Relay, fetched, "", "", "", c.Reason}
	if f := c.Figures; f != nil {
		more[6], more[7], more[8] = figure(f.Requests), figure(f.Errors), figure(f.NoRoute)
	}
	return append(row, more...)
}

func figure(n *uint64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func countsText(c fleet.Counts) string {
	return fmt.Sprintf("%d current, %d behind, %d rejected, %d silent", c.Current, c.Behind, c.Rejected, c.Silent)
}
