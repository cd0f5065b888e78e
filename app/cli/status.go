package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// serverStatus is an answer to GET /status.
type serverStatus = answer[api.Status]

// How often to ask replicas with different tables again, and how long to wait: that covers two polls of the default interval.
const (
	settleTries = 3
	settleWait  = 2 * time.Second
)

// manyFailures is how many consecutive failed reads make a replica unhealthy. A single failure is normal for an API server.
const manyFailures = 3

type statusJob struct {
	maxAge time.Duration
	wait   time.Duration // between two checks of replicas that differ
}

func (j *statusJob) define(flags *options.Flags) {
	flags.Add("--max-age", options.Duration(&j.maxAge, time.Minute, 100*time.Millisecond, 10*time.Minute),
		"Oldest last read of a healthy replica.")
}

func askStatus(ctx context.Context, r Replica) (*serverStatus, error) {
	st := &serverStatus{}
	p, err := query.Get(ctx, r.Support, api.PathStatus, nil, &st.said)
	if err != nil {
		return nil, err
	}
	if st.said.Started.IsZero() {
		return nil, fmt.Errorf("/status: not an answer of a route server")
	}
	st.raw = p.Body
	return st, nil
}

func (j *statusJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askStatus)
	first := j.settle(ctx, s, replies)
	head := []string{"REPLICA", "STATE", "TABLE", "ROUTES", "READ", "ERRORS", "WARNINGS"}
	return tabulate(s, "status", head, replies, func(i int, r query.Reply[*serverStatus], one *reported) int {
		return j.describe(s, r, stuck(first[i], r), one)
	})
}

// settle asks clusters whose replicas serve different tables again: they read at different moments. It returns the first replies.
func (j *statusJob) settle(ctx context.Context, s *session, replies []query.Reply[*serverStatus]) (first []query.Reply[*serverStatus]) {
	first = slices.Clone(replies)
	for range settleTries {
		var again []int
		var clusters []Cluster
		for i, r := range replies {
			if len(stuck(first[i], r)) > 0 {
				again, clusters = append(again, i), append(clusters, s.clusters[i])
			}
		}
		if len(again) == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(j.wait):
		}
		for k, r := range ask(ctx, s, clusters, askStatus) {
			if len(r.Answered()) >= len(replies[again[k]].Answered()) {
				replies[again[k]] = r
			}
		}
	}
	return first
}

// stuck returns a sentence for each replica that serves another table than the newest, and still the same as in the first answer.
func stuck(first, r query.Reply[*serverStatus]) map[string]string {
	before := make(map[string]string)
	for _, a := range first.Answered() {
		if t := a.Value.said.Table; t != nil {
			before[a.Replica] = t.Digest.String()
		}
	}
	var newest *api.Table
	for _, a := range r.Answered() {
		if t := a.Value.said.Table; t != nil && (newest == nil || t.Revision > newest.Revision) {
			newest = t
		}
	}
	others := make(map[string]string)
	for _, a := range r.Answered() {
		t := a.Value.said.Table
		if t == nil || t.Digest == newest.Digest || before[a.Replica] != "" && before[a.Replica] != t.Digest.String() {
			continue
		}
		text := "serves table " + shortDigest(t.Digest.String())
		if t.Revision == newest.Revision {
			text += "; the replicas differ, and no revision says which is newer"
		} else {
			text += fmt.Sprintf(" of revision %d, older than %d; the replicas differ", t.Revision, newest.Revision)
		}
		others[a.Replica] = text
	}
	return others
}

// wrong returns the problems of one replica, the worst first.
func (j *statusJob) wrong(s *session, cluster string, st *api.Status) []string {
	var all []string
	if st.Table == nil {
		all = append(all, "has no table yet")
	}
	if g := st.Guard; g.Held {
		what := "holds a table back: "
		if g.KeptCount > 0 {
			what = "keeps " + shadowdiff.Plural(g.KeptCount, "object") + ": "
		}
		all = append(all, what+strings.Trim(string(g.Reason)+", "+g.Detail, ", ")+"; to see and accept it: "+s.program.Name+" held")
	}
	for _, w := range st.Warnings {
		all = append(all, strings.TrimSpace(w.Text+"; to help: "+s.program.Name+" "+w.Command+" "+s.acceptPlace(cluster)))
	}
	if t := st.Table; t != nil {
		if t.Stale {
			all = append(all, "serves a table from its last-known-good file that no read has confirmed")
		} else if t.AgeSeconds > j.maxAge.Seconds() {
			all = append(all, "has not read its source for "+seconds(t.AgeSeconds))
		}
	}
	if n := st.Source.Failures; n >= manyFailures {
		all = append(all, fmt.Sprintf("the last %d reads of its source failed: %s", n, st.Source.LastError))
	}
	if st.LastKnownGood != nil && st.LastKnownGood.Error != "" {
		all = append(all, "cannot write its last-known-good file: "+st.LastKnownGood.Error)
	}
	return all
}

// describe describes a cluster. A sentence names all replicas that it applies to.
func (j *statusJob) describe(s *session, r query.Reply[*serverStatus], differ map[string]string, one *reported) (status int) {
	if r.Err != nil {
		one.rows = [][]string{{"", "no answer"}}
		return Trouble
	}
	said := make(map[string][]string) // the replicas, by the sentence
	var texts []string
	for k, a := range r.Answers {
		if a.Err != nil {
			state, bad := "no answer", Trouble
			if a.Fault {
				state, bad = "not running", Unhealthy
			}
			one.rows, status = append(one.rows, []string{a.Replica, state}), max(status, bad)
			continue
		}
		doc, st := &one.Replicas[k], &a.Value.said
		doc.Wrong = j.wrong(s, r.Cluster, st)
		if text := differ[a.Replica]; text != "" {
			doc.Wrong = append(doc.Wrong, text)
		}
		status = max(status, verdict(len(doc.Wrong) == 0))
		cells := []string{a.Replica, state(st, doc.Wrong), "", "", "", fmt.Sprint(st.Problems["error"]), fmt.Sprint(st.Problems["warning"])}
		if t := st.Table; t != nil {
			cells[2], cells[3], cells[4] = shortDigest(t.Digest.String()), fmt.Sprint(t.Routes), seconds(t.AgeSeconds)
		}
		one.rows = append(one.rows, cells)
		for _, text := range slices.Concat(doc.Wrong, told(st, s.now())) {
			if said[text] == nil {
				texts = append(texts, text)
			}
			said[text] = append(said[text], a.Replica)
		}
	}
	for _, text := range texts {
		one.note(strings.Join(said[text], ", "), text)
	}
	return status
}

// maxToldOrders is how many freezes and pins are listed for a replica.
const maxToldOrders = 10

// told returns what an operator should know of a healthy replica.
func told(st *api.Status, now time.Time) (all []string) {
	if c := st.Canary; c != nil && c.Count > 0 {
		text := shadowdiff.Plural(c.Count, "object") + " on the canary" + nextPromotion(c, now)
		if c.Halted > 0 {
			text += fmt.Sprintf(", %d halted", c.Halted)
		}
		all = append(all, text)
	}
	if t := st.Trial; t != nil {
		state := "answers"
		if t.Silent != "" {
			state = "does not answer: " + t.Silent
		}
		all = append(all, fmt.Sprintf("trial proxy %s; %s accepted, %d failed, %d waiting", state, shadowdiff.Plural(t.Accepted, "text"), len(t.Failed), t.Waiting))
	}
	if o := st.Steering; o != nil {
		for _, one := range o.Orders[:min(len(o.Orders), maxToldOrders)] {
			until := "until it is released"
			if !one.Until.IsZero() {
				until = "until " + one.Until.Format(time.RFC3339)
			}
			all = append(all, fmt.Sprintf("%s of %s by %s %s: %s", one.What, one.Scope, one.By, until, one.Detail))
		}
		if more := len(o.Orders) - maxToldOrders; more > 0 {
			all = append(all, shadowdiff.Plural(more, "more freeze or pin"))
		}
	}
	if n := len(st.Takeovers); n > 0 {
		all = append(all, fmt.Sprintf("%s in the last hour, such as %s", shadowdiff.Plural(n, "takeover"), st.Takeovers[0].Example))
	}
	return all
}

// state returns one word for a replica.
func state(st *api.Status, wrong []string) string {
	switch {
	case st.Table == nil:
		return "no table"
	case st.Guard.Held:
		return "held"
	case st.Table.Stale:
		return "stale"
	case len(wrong) > 0:
		return "unhealthy"
	case st.Upstream != nil:
		return "healthy (relay)"
	}
	return "healthy"
}

// runCanary lists soaking changes.
func runCanary(ctx context.Context, s *session) (int, error) {
	head := []string{"OBJECT", "CHANGED", "SINCE", "FOR THE FLEET"}
	return tabulate(s, "canary", head, ask(ctx, s, s.clusters, askStatus), func(_ int, r query.Reply[*serverStatus], one *reported) int {
		status := silent(r)
		for _, a := range r.Answered() {
			if c := a.Value.said.Canary; c != nil {
				status = max(status, verdict(c.Halted == 0 && (c.Verdict == nil || !c.Verdict.Firing && !c.Verdict.Failed)))
			}
		}
		for _, g := range agreeing(r, soakingKey) {
			describeCanary(s, g.value.said.Canary, one)
		}
		return status
	})
}

// soakingKey is equal for replicas with the same soaking changes and the same end.
func soakingKey(st *serverStatus) string {
	if st.said.Canary == nil {
		return ""
	}
	key := st.said.Canary.Query
	for _, o := range st.said.Canary.Objects {
		key += fmt.Sprint("\x00", o.Ref, o.Until.Unix(), o.Halted)
	}
	return key
}

// describeCanary adds the soaking changes of replicas.
func describeCanary(s *session, c *api.Canary, one *reported) {
	if c == nil {
		one.note("", "no canary: --canary is not set")
		return
	}
	for _, o := range c.Objects {
		until := o.Until.UTC().Format(time.RFC3339)
		switch {
		case o.Halted != "":
			until = "halted by " + o.By + ": " + o.Halted
		case o.Capped:
			until += ", since it keeps changing"
		}
		one.rows = append(one.rows, []string{o.Ref.String(), o.Detail, s.since(o.Since), until})
	}
	one.note("", shadowdiff.Plural(c.Count, "object")+" on the canary"+nextPromotion(c, s.now()))
	switch v := c.Verdict; {
	case c.Query == "":
	case v == nil:
		one.note("", "the query was not asked yet: "+c.Query)
	case v.Failed:
		one.note("", "the query is not answered, so soaks are extended: "+v.Text)
	case v.Firing:
		one.note("", "the query fires, so nothing is promoted: "+v.Text)
	default:
		one.note("", "the query returned "+v.Text+" "+s.since(v.At)+" ago")
	}
}

func nextPromotion(c *api.Canary, now time.Time) string {
	if c.NextPromotion.IsZero() {
		return ""
	}
	return ", next promotion in " + age(c.NextPromotion.Sub(now))
}
