package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
)

// ownerOf returns the kind and the name of the object.
func ownerOf(p api.Problem) string {
	name := strings.Trim(p.Owner.Namespace+"/"+p.Owner.Name, "/")
	return strings.TrimSpace(string(p.Owner.Kind) + " " + name)
}

// severities are ordered, the worst last.
var severities = []string{"info", "warning", "error"}

type problemsJob struct {
	namespace, kind, name, reason, severity string
}

func (j *problemsJob) define(flags *options.Flags) {
	flags.Add("-n,--namespace", options.Text("NAME", &j.namespace, ""), "Only objects of this namespace.")
	flags.Add("--kind", options.Text("KIND", &j.kind, ""),
		"Only objects of this kind: Ingress, RouteGroup or another one that /problems names.")
	flags.Add("--name", options.Text("NAME", &j.name, ""), "Only objects of this name.")
	flags.Add("--reason", options.Text("REASON", &j.reason, ""), "Only problems with this reason, such as no_endpoints.")
	flags.Add("--severity", options.Choice(&j.severity, "error", "warning", "info"), "Only problems of this severity.")
}

func (j *problemsJob) run(ctx context.Context, s *session) (int, error) {
	q := url.Values{}
	for name, val := range map[string]string{"namespace": j.namespace, "kind": j.kind, "name": j.name, "reason": j.reason, "severity": j.severity} {
		if val != "" {
			q.Set(name, val)
		}
	}
	replies := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*api.Problems, error) {
		l := &api.Problems{}
		_, err := query.Get(ctx, r.Support, api.PathProblems, q, l)
		return l, err
	})
	merged := make([][]api.Problem, len(replies))
	judge := func(i int, r query.Reply[*api.Problems]) (d documentCluster) {
		d, merged[i] = mergeProblems(r)
		return d
	}
	return conclude(s, "problems", replies, judge, func(docs []documentCluster) error { return j.write(s, replies, docs, merged) })
}

func (j *problemsJob) write(s *session, replies []query.Reply[*api.Problems], docs []documentCluster, merged [][]api.Problem) error {
	g := &grid{}
	s.row(g, "CONTEXT", []string{"SEVERITY", "SINCE", "OBJECT", "REASON", "MESSAGE"})
	trouble := false
	for i, r := range replies {
		trouble = trouble || docs[i].Result == Trouble
		for _, p := range merged[i] {
			text := p.Message
			if p.Route != "" {
				text += " (route " + p.Route + ")"
			}
			if len(p.Replicas) > 0 {
				text += " (only on " + strings.Join(p.Replicas, ", ") + ")"
			}
			s.row(g, r.Cluster, []string{p.Severity, s.since(p.Since), ownerOf(p), p.Reason, text})
		}
	}
	switch {
	case len(g.rows) > 1:
		if err := g.write(s.std.Out); err != nil {
			return err
		}
	case !trouble:
		fmt.Fprintln(s.std.Out, "no problems")
	}
	for _, r := range replies {
		writeLines(s.std.Err, r.Missing())
	}
	return nil
}

// row adds a row. It begins with the name of the cluster if there are several.
func (s *session) row(g *grid, cluster string, cells []string) {
	if s.named {
		cells = append([]string{cluster}, cells...)
	}
	g.add(cells...)
}

// mergeProblems merges the lists of the replicas, the worst problems first.
func mergeProblems(r query.Reply[*api.Problems]) (documentCluster, []api.Problem) {
	merged := []api.Problem{}
	at := make(map[string]int)
	seen := make(map[string][]string)
	for _, a := range r.Answered() {
		for _, p := range a.Value.Problems {
			p.Replicas = nil
			k, known := at[p.ID]
			if !known {
				at[p.ID] = len(merged)
				merged = append(merged, p)
			} else if p.Since.Before(merged[k].Since) {
				merged[k].Since = p.Since
			}
			seen[p.ID] = append(seen[p.ID], a.Replica)
		}
	}
	status := Healthy
	for i := range merged {
		p := &merged[i]
		if names := slices.Compact(seen[p.ID]); len(names) < len(r.Answered()) {
			p.Replicas = names
		}
		if p.Severity != "info" {
			status = Unhealthy
		}
	}
	slices.SortStableFunc(merged, func(a, b api.Problem) int {
		return cmp.Or(slices.Index(severities, b.Severity)-slices.Index(severities, a.Severity), strings.Compare(a.Owner.Namespace, b.Owner.Namespace),
			strings.Compare(ownerOf(a), ownerOf(b)), strings.Compare(a.ID, b.ID))
	})
	d := outline(r, status)
	d.Answer = api.Problems{Count: len(merged), Problems: merged}
	return d, merged
}
