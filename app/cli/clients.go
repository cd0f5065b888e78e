package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/shadowdiff"
)

type clientsJob struct {
	state     string
	maxBehind time.Duration
}

func (j *clientsJob) define(flags *options.Flags) {
	var words []string
	for _, s := range fleet.States() {
		words = append(words, string(s))
	}
	flags.Add("--state", options.Choice(&j.state, words...), "Only clients in this state.")
	flags.Add("--max-behind", options.Duration(&j.maxBehind, 30*time.Second, 100*time.Millisecond, 10*time.Minute),
		"How long a client may be behind.")
}

// askClients asks for all clients: the counts would be wrong without some.
func askClients(ctx context.Context, r Replica) (*fleet.View, error) {
	v := &fleet.View{}
	if _, err := query.Get(ctx, r.Support, api.PathClients, url.Values{"limit": {strconv.Itoa(fleet.DefaultMax)}}, v); err != nil {
		return nil, err
	}
	if v.Time.IsZero() || len(v.Replicas) == 0 {
		return nil, errors.New("/clients: not an answer of a route server")
	}
	return v, nil
}

func (j *clientsJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askClients)
	head := []string{"CLIENT", "STATE", "HOLDS", "BEHIND", "HEARD", "ZONE", "TABLE", "VERSION"}
	return tabulate(s, "clients", head, replies, func(_ int, r query.Reply[*fleet.View]) reported {
		return j.report(s, r, mergeViews(r, fleet.State(j.state)))
	})
}

// mergeViews merges the views of the replicas as a replica merges its peers' views; nil if none answered.
func mergeViews(r query.Reply[*fleet.View], state fleet.State) *fleet.View {
	there := r.Answered()
	if len(there) == 0 {
		return nil
	}
	var others []fleet.Answer
	failed := make(map[string]fleet.Replica) // peers that a replica could not ask, by address
	for i, a := range there {
		for _, p := range a.Value.Replicas {
			if p.Error != "" {
				failed[p.Address] = p
			}
		}
		a.Value.Replicas[0].Self = false
		if i > 0 {
			others = append(others, fleet.Answer{Address: a.Replica, View: a.Value})
		}
	}
	first := there[0].Value
	first.Replicas = first.Replicas[:1]
	v := fleet.Merge(first, others, fleet.Query{State: state})
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		v.Replicas = append(v.Replicas, failed[name])
	}
	return v
}

func (j *clientsJob) judge(r query.Reply[*fleet.View], v *fleet.View) documentCluster {
	status := Healthy
	var wrong []string
	if v != nil {
		if n := v.Counts.Rejected; n > 0 {
			wrong = append(wrong, shadowdiff.Plural(n, "client")+" rejected a table")
		}
		late := 0
		for _, c := range v.Clients {
			if c.State == fleet.Behind && c.BehindSeconds > j.maxBehind.Seconds() {
				late++
			}
		}
		if late > 0 {
			wrong = append(wrong, fmt.Sprintf("%s behind for more than %v", shadowdiff.Plural(late, "client"), j.maxBehind))
		}
		for _, t := range v.Suspects {
			wrong = append(wrong, fmt.Sprintf("the proxies of %s died of table %s, for example %s: %s",
				shadowdiff.Plural(t.Clients, "client"), shortDigest(t.Digest.String()), t.Example, t.Evidence))
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
	for _, a := range r.Answers {
		if a.Err != nil && !a.Fault {
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

// report describes a cluster. v is nil if no replica answered.
func (j *clientsJob) report(s *session, r query.Reply[*fleet.View], v *fleet.View) reported {
	one := reported{documentCluster: j.judge(r, v)}
	if v == nil {
		one.notes = r.Missing()
		return one
	}
	for _, l := range v.Relays {
		if !l.Details {
			one.notes = append(one.notes, fmt.Sprintf("%s%s behind relay %s: %s", query.Label(r.Cluster, ""), shadowdiff.Plural(l.Total, "client"), l.ID, countsText(l.Counts)))
		}
	}
	one.notes = append(one.notes, fmt.Sprintf("%s%s: %s", query.Label(r.Cluster, ""), shadowdiff.Plural(v.Total, "client"), countsText(v.Counts)))
	one.notes = append(one.notes, r.Missing()...)
	for _, c := range v.Clients {
		one.rows = append(one.rows, clientRow(s, c))
		if c.Reason != "" {
			one.notes = append(one.notes, query.Label(r.Cluster, c.ID)+c.Reason)
		}
	}
	for _, w := range one.Wrong {
		one.notes = append(one.notes, query.Label(r.Cluster, "")+w)
	}
	return one
}

func clientRow(s *session, c fleet.Client) []string {
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
			behind = shadowdiff.Plural(c.BehindVersions, "version") + ", " + behind
		}
	}
	served := "fleet"
	if c.Canary {
		served = "canary"
	}
	return []string{id, string(c.State), holds, behind, s.since(c.LastHeard), c.Zone, served, c.Version}
}

func countsText(c fleet.Counts) string {
	return fmt.Sprintf("%d current, %d behind, %d rejected, %d silent", c.Current, c.Behind, c.Rejected, c.Silent)
}
