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
func askClients(ctx context.Context, r Replica) (*fleet.Clients, error) {
	v := &fleet.Clients{}
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
	return tabulate(s, "clients", head, replies, func(_ int, r query.Reply[*fleet.Clients], one *reported) int {
		v := mergeViews(r, fleet.State(j.state))
		if v == nil {
			return Trouble
		}
		one.Answer = v
		return max(silent(r), j.describe(s, v, one))
	})
}

// mergeViews merges the views of the replicas as a replica merges its peers' views; nil if none answered.
func mergeViews(r query.Reply[*fleet.Clients], state fleet.State) *fleet.Clients {
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
			others = append(others, fleet.Answer{Address: a.Replica, Clients: a.Value})
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

// judge adds what is wrong with clients, and returns the exit status.
func (j *clientsJob) judge(v *fleet.Clients, one *reported) (status int) {
	if n := v.Counts.Rejected; n > 0 {
		one.Wrong = append(one.Wrong, shadowdiff.Plural(n, "client")+" rejected a table")
	}
	late := 0
	for _, c := range v.Clients {
		if c.State == fleet.Behind && c.BehindSeconds > j.maxBehind.Seconds() {
			late++
		}
	}
	if late > 0 {
		one.Wrong = append(one.Wrong, fmt.Sprintf("%s behind for more than %v", shadowdiff.Plural(late, "client"), j.maxBehind))
	}
	for _, t := range v.Suspects {
		one.Wrong = append(one.Wrong, fmt.Sprintf("the proxies of %s died of table %s, for example %s: %s",
			shadowdiff.Plural(t.Clients, "client"), shortDigest(t.Digest.String()), t.Example, t.Evidence))
	}
	status = verdict(len(one.Wrong) == 0)
	for _, p := range v.Replicas {
		if p.Error != "" {
			one.Wrong, status = append(one.Wrong, "the replicas cannot ask "+cmp.Or(p.Name, p.Address)+": "+p.Error), Trouble
		}
		if p.Full {
			one.Wrong = append(one.Wrong, p.Name+" knows as many clients as it can: others are missing")
		}
	}
	return status
}

// describe describes the clients of a cluster.
func (j *clientsJob) describe(s *session, v *fleet.Clients, one *reported) (status int) {
	for _, l := range v.Relays {
		if !l.Details {
			one.note("", shadowdiff.Plural(l.Total, "client")+" behind relay "+l.ID+": "+countsText(l.Counts))
		}
	}
	one.note("", shadowdiff.Plural(v.Total, "client")+": "+countsText(v.Counts))
	for _, c := range v.Clients {
		one.rows = append(one.rows, clientRow(s, c))
		if c.Reason != "" {
			one.note(c.ID, c.Reason)
		}
	}
	status = j.judge(v, one)
	for _, w := range one.Wrong {
		one.note("", w)
	}
	return status
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
		behind = seconds(c.BehindSeconds)
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
