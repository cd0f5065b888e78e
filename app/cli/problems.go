package cli

import (
	"cmp"
	"context"
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
	q := parameters("namespace", j.namespace, "kind", j.kind, "name", j.name, "reason", j.reason, "severity", j.severity)
	replies := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*api.Problems, error) {
		l := &api.Problems{}
		_, err := query.Get(ctx, r.Support, api.PathProblems, q, l)
		return l, err
	})
	none := true
	return tabulate(s, "problems", []string{"SEVERITY", "SINCE", "OBJECT", "REASON", "MESSAGE"}, replies, func(i int, r query.Reply[*api.Problems], one *reported) int {
		merged, status := mergeProblems(r)
		one.Answer = api.Problems{Count: len(merged), Problems: merged}
		for _, p := range merged {
			text := p.Message
			if p.Route != "" {
				text += " (route " + p.Route + ")"
			}
			if len(p.Replicas) > 0 {
				text += " (only on " + strings.Join(p.Replicas, ", ") + ")"
			}
			one.rows = append(one.rows, []string{p.Severity, s.since(p.Since), ownerOf(p), p.Reason, text})
		}
		if none = none && status == Healthy && len(merged) == 0; none && i == len(replies)-1 {
			one.notes = []string{"no problems"}
		}
		return status
	})
}

// mergeProblems merges the lists of the replicas, the worst problems first.
func mergeProblems(r query.Reply[*api.Problems]) (merged []api.Problem, status int) {
	byID := make(map[string]*api.Problem)
	for _, a := range r.Answered() {
		for _, p := range a.Value.Problems {
			p.Replicas = nil
			if known := byID[p.ID]; known == nil {
				byID[p.ID] = &p
			} else if p.Since.Before(known.Since) {
				known.Since = p.Since
			}
			byID[p.ID].Replicas = append(byID[p.ID].Replicas, a.Replica)
		}
	}
	merged = []api.Problem{}
	for _, p := range byID {
		if len(slices.Compact(p.Replicas)) == len(r.Answered()) {
			p.Replicas = nil
		}
		if merged = append(merged, *p); p.Severity != "info" {
			status = Unhealthy
		}
	}
	slices.SortFunc(merged, func(a, b api.Problem) int {
		return cmp.Or(slices.Index(severities, b.Severity)-slices.Index(severities, a.Severity), strings.Compare(a.Owner.Namespace, b.Owner.Namespace),
			strings.Compare(ownerOf(a), ownerOf(b)), strings.Compare(a.ID, b.ID))
	})
	if len(r.Answered()) == 0 {
		status = Trouble
	}
	return merged, status
}
