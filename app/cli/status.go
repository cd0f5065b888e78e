package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
)

// serverStatus is an answer to GET /status.
type serverStatus struct {
	api.Status
	raw json.RawMessage
}

// How often to ask replicas with different tables again, and how long to wait in between: that covers two polls of the default
// interval.
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

func (s *serverStatus) json() json.RawMessage { return s.raw }

func askStatus(ctx context.Context, r Replica) (*serverStatus, error) {
	st := &serverStatus{}
	p, err := query.Get(ctx, r.Support, api.PathStatus, nil, &st.Status)
	if err != nil {
		return nil, err
	}
	if st.Started.IsZero() {
		return nil, fmt.Errorf("/status: the answer is not that of a route server")
	}
	st.raw = p.Body
	return st, nil
}

func (j *statusJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askStatus)
	differ := j.settle(ctx, s, replies)
	judge := func(i int, r query.Reply[*serverStatus]) documentCluster { return j.judge(s, r, differ[i]) }
	return conclude(s, "status", replies, judge, func(docs []documentCluster) error { return j.write(s, replies, docs) })
}

// settle repeats the question to clusters whose replicas serve different tables, because they read at different moments. It returns, for
// each cluster, a sentence for each replica that keeps serving another table than the newest. It replaces replies with newer complete ones.
func (j *statusJob) settle(ctx context.Context, s *session, replies []query.Reply[*serverStatus]) []map[string]string {
	first, differ := make([]map[string]string, len(replies)), make([]map[string]string, len(replies))
	for i, r := range replies {
		first[i] = digests(r)
	}
	for try := 0; ; try++ {
		var again []int
		var clusters []Cluster
		for i, r := range replies {
			if differ[i] = stuck(first[i], r); len(differ[i]) > 0 {
				again, clusters = append(again, i), append(clusters, s.clusters[i])
			}
		}
		if len(again) == 0 || try == settleTries {
			return differ
		}
		select {
		case <-ctx.Done():
			return make([]map[string]string, len(replies))
		case <-time.After(j.wait):
		}
		for k, r := range ask(ctx, s, clusters, askStatus) {
			if len(r.Answered()) >= len(replies[again[k]].Answered()) {
				replies[again[k]] = r
			}
		}
	}
}

// digests returns the tables of the replicas.
func digests(r query.Reply[*serverStatus]) map[string]string {
	all := make(map[string]string)
	for _, a := range r.Answered() {
		if a.Value.Table != nil {
			all[a.Replica] = a.Value.Table.Digest.String()
		}
	}
	return all
}

// stuck returns a sentence for each replica that serves an older table than another one, by its revision, and still the same as in the
// first answer. Where no revision tells which table is the newest, all replicas count.
func stuck(first map[string]string, r query.Reply[*serverStatus]) map[string]string {
	now := digests(r)
	newest := make(map[string]bool) // digests of the highest revision
	var highest uint64
	known := true
	for _, a := range r.Answered() {
		t := a.Value.Table
		if t == nil {
			continue
		}
		if known = known && t.Revision > 0; t.Revision > highest {
			highest, newest = t.Revision, make(map[string]bool)
		}
		if t.Revision == highest {
			newest[t.Digest.String()] = true
		}
	}
	others := make(map[string]string)
	if len(slices.Compact(slices.Sorted(maps.Values(now)))) < 2 {
		return others
	}
	for _, a := range r.Answered() {
		t := a.Value.Table
		switch changed := first[a.Replica] != "" && first[a.Replica] != now[a.Replica]; {
		case t == nil || changed:
		case !known || len(newest) > 1:
			others[a.Replica] = fmt.Sprintf("serves table %s; the replicas differ, and no revision says which is newer", shortDigest(t.Digest.String()))
		case t.Revision < highest:
			others[a.Replica] = fmt.Sprintf("serves table %s of revision %d, older than %d; the replicas differ", shortDigest(t.Digest.String()), t.Revision, highest)
		}
	}
	return others
}

// wrong returns the problems of one replica, the worst first.
func (j *statusJob) wrong(s *session, cluster string, st *serverStatus) []string {
	var all []string
	if st.Table == nil {
		all = append(all, "has no table yet")
	}
	if g := st.Guard; g.Held {
		what := "holds a table back: "
		if g.KeptCount > 0 {
			what = "keeps " + number(g.KeptCount, "object") + ": "
		}
		all = append(all, what+strings.Trim(string(g.Reason)+", "+g.Detail, ", ")+"; to see and accept it: "+s.program.Name+" held")
	}
	for _, w := range st.Warnings {
		all = append(all, strings.TrimSpace(w.Text+"; to help: "+s.program.Name+" "+w.Command+" "+s.acceptPlace(cluster)))
	}
	if t := st.Table; t != nil {
		if t.Stale {
			all = append(all, "serves a table from its last-known-good file that no read has confirmed")
		} else if d := time.Duration(t.AgeSeconds * float64(time.Second)); d > j.maxAge {
			all = append(all, "has not read its source for "+age(d))
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

func (j *statusJob) judge(s *session, r query.Reply[*serverStatus], differ map[string]string) documentCluster {
	status := Healthy
	d := outline(r, status)
	for k, a := range r.Answers {
		one := &d.Replicas[k]
		switch {
		case a.Fault:
			status = max(status, Unhealthy)
			continue
		case a.Err != nil:
			status = Trouble
			continue
		}
		one.Wrong = j.wrong(s, r.Cluster, a.Value)
		if text := differ[a.Replica]; text != "" {
			one.Wrong, one.differs = append(one.Wrong, text), strings.Contains(text, "replicas differ")
		}
		if len(one.Wrong) > 0 {
			status = max(status, Unhealthy)
		}
	}
	if r.Err == nil {
		d.Result = result(status) // also if none answered, because none runs
	}
	return d
}

func (j *statusJob) write(s *session, replies []query.Reply[*serverStatus], docs []documentCluster) error {
	g := &grid{}
	row := func(cluster string, cells ...string) { s.row(g, cluster, cells) }
	row("CONTEXT", "REPLICA", "STATE", "TABLE", "ROUTES", "READ", "ERRORS", "WARNINGS")
	var notes []string
	for i, r := range replies {
		said := make(map[string][]string) // what replicas tell, by the text
		var texts []string
		tell := func(replica string, all ...string) {
			for _, text := range all {
				if said[text] == nil {
					texts = append(texts, text)
				}
				said[text] = append(said[text], replica)
			}
		}
		if r.Err != nil {
			row(r.Cluster, "", "no answer")
			notes = append(notes, query.Label(r.Cluster, "")+r.Err.Error())
		}
		for k, a := range r.Answers {
			doc := docs[i].Replicas[k]
			if doc.Error != "" {
				state := "no answer"
				if a.Fault {
					state = "not running"
				}
				row(r.Cluster, a.Replica, state)
				tell(a.Replica, doc.Error)
				continue
			}
			st := a.Value
			cells := []string{a.Replica, state(st, doc), "", "", "", fmt.Sprint(st.Problems["error"]), fmt.Sprint(st.Problems["warning"])}
			if t := st.Table; t != nil {
				cells[2], cells[3], cells[4] = shortDigest(t.Digest.String()), fmt.Sprint(t.Routes), age(time.Duration(t.AgeSeconds*float64(time.Second)))
			}
			row(r.Cluster, cells...)
			tell(a.Replica, slices.Concat(doc.Wrong, told(st, s.now()))...)
		}
		for _, text := range texts {
			notes = append(notes, query.Label(r.Cluster, strings.Join(said[text], ", "))+text)
		}
	}
	if err := g.write(s.std.Out); err != nil {
		return err
	}
	if len(notes) > 0 {
		fmt.Fprintln(s.std.Out)
		writeLines(s.std.Out, notes)
	}
	return nil
}

// maxToldOrders is how many freezes and pins are listed for a replica.
const maxToldOrders = 10

// told returns what an operator should know of a healthy replica: what soaks, the state of its trial proxy, and requests that changes
// took from others.
func told(st *serverStatus, now time.Time) (all []string) {
	if c := st.Canary; c != nil && c.Count > 0 {
		text := number(c.Count, "object") + " on the canary" + nextPromotion(c, now)
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
		all = append(all, fmt.Sprintf("trial proxy %s; %s accepted, %d failed, %d waiting", state, number(t.Accepted, "text"), len(t.Failed), t.Waiting))
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
			all = append(all, number(more, "more freeze or pin"))
		}
	}
	if n := len(st.Takeovers); n > 0 {
		all = append(all, fmt.Sprintf("%s in the last hour, such as %s", number(n, "takeover"), st.Takeovers[0].Example))
	}
	return all
}

// state returns one word for a replica.
func state(st *serverStatus, doc documentReplica) string {
	switch {
	case st.Table == nil:
		return "no table"
	case st.Guard.Held:
		return "held"
	case st.Table.Stale:
		return "stale"
	case len(doc.Wrong) == 1 && doc.differs:
		return "differs"
	case len(doc.Wrong) > 0:
		return "unhealthy"
	case st.Upstream != nil:
		return "healthy (relay)"
	}
	return "healthy"
}
