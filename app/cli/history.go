package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// entries are entries of the history of one replica, the newest first.
type entries []api.HistoryEntry

// askHistory reads entries. A replica without any is no error.
func askHistory(ctx context.Context, r Replica, q url.Values) (entries, error) {
	var all entries
	_, err := query.Get(ctx, r.Support, api.PathHistory, q, &all)
	return all, err
}

// storyteller returns the only cluster with only the replica whose history is the longest: replicas number their entries differently.
func (s *session) storyteller(ctx context.Context) (Cluster, error) {
	if len(s.clusters) != 1 {
		return Cluster{}, usagef("choose one cluster: each has its own history")
	}
	type history struct {
		of     Replica
		oldest time.Time
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, replica Replica) (history, error) {
		all, err := askHistory(ctx, replica, url.Values{"limit": {"5000"}})
		if err != nil || len(all) == 0 {
			return history{}, cmp.Or(err, errors.New("it has no history"))
		}
		return history{replica, all[len(all)-1].At}, nil
	})[0]
	if len(r.Answered()) == 0 {
		return Cluster{}, errors.New(strings.Join(r.Missing(), "; "))
	}
	longest := slices.MinFunc(r.Answered(), func(a, b query.Answer[history]) int {
		return cmp.Or(a.Value.oldest.Compare(b.Value.oldest), strings.Compare(a.Replica, b.Replica))
	}).Value.of
	return Cluster{Name: r.Cluster, Find: func(context.Context) ([]Replica, error) { return []Replica{longest}, nil }}, nil
}

// askStoryteller asks the replica with the longest history, and returns its name.
func askStoryteller[T any](ctx context.Context, s *session, question func(context.Context, Replica) (T, error)) (replica string, said T, err error) {
	c, err := s.storyteller(ctx)
	if err != nil {
		return "", said, err
	}
	r := ask(ctx, s, []Cluster{c}, question)[0]
	return r.Answers[0].Replica, r.Answers[0].Value, r.Answers[0].Err
}

type logJob struct {
	since, at, namespace, object string
	limit                        int
	lost                         bool
}

func (j *logJob) define(flags *options.Flags) {
	flags.Add("--since", options.Text("TIME", &j.since, ""),
		"Entries from a time on: 2026-11-25T12:03:00Z, the last 12:03 in UTC, or how long ago, such as 90m.")
	flags.Add("--at", options.Text("TIME", &j.at, ""), "The entry that was served at a time, in the forms of --since.")
	flags.Add("-n,--namespace", options.Text("NAME", &j.namespace, ""), "Only objects of this namespace.")
	flags.Add("--object", options.Text("NAME", &j.object, ""),
		"Only this object, as KIND/NAMESPACE/NAME. May be repeated for accept.")
	flags.Add("--limit", options.Number(&j.limit, 100, 1, 5000), "How many entries at most, the newest ones.")
	flags.Add("--lost", options.Bool(&j.lost, false),
		"Only entries that removed routes, in the order of how many; the largest is last.")
}

func (j *logJob) run(ctx context.Context, s *session) (int, error) {
	q := parameters("limit", strconv.Itoa(j.limit), "since", j.since, "at", j.at, "namespace", j.namespace, "object", j.object)
	if j.lost {
		q.Set("limit", "5000")
	}
	replica, all, err := askStoryteller(ctx, s, func(ctx context.Context, r Replica) (entries, error) { return askHistory(ctx, r, q) })
	if err != nil {
		return Trouble, err
	}
	if j.lost {
		all = j.largest(all)
	}
	return verdict(len(all) > 0), j.write(s, replica, all)
}

// largest returns the entries that removed routes, those with the most removed routes first.
func (j *logJob) largest(all entries) entries {
	all = slices.DeleteFunc(all, func(e api.HistoryEntry) bool { return e.Removed == 0 })
	slices.SortStableFunc(all, func(a, b api.HistoryEntry) int { return cmp.Compare(b.Removed, a.Removed) })
	return all[:min(len(all), j.limit)]
}

// write prints the entries, the newest or the largest last.
func (j *logJob) write(s *session, replica string, all entries) error {
	slices.Reverse(all)
	if s.output == "json" {
		return writeDocument(s.std.Out, document{Command: "log", Clusters: []documentCluster{{Replicas: []documentReplica{}, Answer: all}}})
	}
	if len(all) == 0 {
		fmt.Fprintln(s.std.Out, "no entries")
		return nil
	}
	g := &grid{}
	fmt.Fprintln(s.std.Out, "History of "+replica)
	g.add("ENTRY", "TIME", "ROUTES", "WHAT")
	for i := range all {
		e := &all[i]
		g.add(strconv.FormatUint(e.N, 10), e.At.Format(time.RFC3339), fmt.Sprintf("+%d ~%d -%d", e.Added, e.Changed, e.Removed), whatOf(e))
	}
	g.write(s.std.Out)
	return nil
}

// whatOf describes an entry in one line.
func whatOf(e *api.HistoryEntry) string {
	const some = 3
	var parts []string
	for _, c := range e.Changes[:min(some, len(e.Changes))] {
		text := c.Ref.String() + " " + c.What
		if _, manager, ok := strings.Cut(c.By, " "); ok {
			text += " by " + manager
		}
		parts = append(parts, text)
	}
	if more := e.Count - len(parts); more > 0 {
		parts = append(parts, shadowdiff.Plural(more, "object"))
	}
	for _, d := range e.Decisions {
		text := d.What + ": " + d.Objects
		if d.By != "" {
			text += " by " + d.By
		}
		if d.Why != "" {
			text += " (" + d.Why + ")"
		}
		if d.Detail != "" {
			text += ", " + d.Detail
		}
		parts = append(parts, text)
	}
	for _, t := range e.Takeovers {
		parts = append(parts, "takeover: "+t.Example)
	}
	return strings.Join(parts, "; ")
}

func runShow(ctx context.Context, s *session) (int, error) {
	media := map[string]string{"text": "text/plain", "json": "application/json"}[s.output]
	replica, p, err := askStoryteller(ctx, s, func(ctx context.Context, r Replica) (*query.Page, error) {
		return query.GetAs(ctx, r.Support, api.PathHistory+"/"+url.PathEscape(s.args[0]), nil, media, http.StatusNotFound)
	})
	switch {
	case err != nil:
		return Trouble, err
	case p.Status == http.StatusNotFound:
		writeLines(s.std.Err, []string{replica + ": " + p.Line()})
		return Unhealthy, nil
	}
	return Healthy, writeText(s.std.Out, p.Body)
}
