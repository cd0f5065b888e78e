package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
)

type getJob struct{}

func getCommand() command {
	return command{
		name: "get", args: "PATH", summary: "Prints a page of the process in this pod, such as /status.",
		intro: `The support listener answers no request from an address of its own pod, since the proxy beside it forwards those of others.
This command asks over the control socket instead. docs/endpoints.md lists the paths.

The exit status is 0 if the answer is good, 1 if it is not, and 2 if there is none.`,
		examples: []example{
			{"Mode, table and producers", "get /status"},
			{"The comparison of mode Pre", "get /shadow"},
		},
		min: 1, max: 1, outputs: []string{"text", "json"},
		job: func() job { return getJob{} },
	}
}

func (getJob) define(config.Section) {}

func (getJob) run(ctx context.Context, s *session) (int, error) {
	path, query, _ := strings.Cut(s.args[0], "?")
	if !strings.HasPrefix(path, "/") {
		return Trouble, usagef("%q is not a path such as /status", s.args[0])
	}
	accept := "text/plain"
	if s.output == "json" {
		accept = "application/json"
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*page, error) {
		return r.Support.do(ctx, http.MethodGet, strings.TrimSuffix(path+"?"+query, "?"), nil, accept)
	})[0]
	answers := r.answered()
	if len(answers) == 0 {
		writeLines(s.std.Err, r.missing())
		return Trouble, nil
	}
	first := answers[0].value // the replicas answer the same
	if err := writeText(s.std.Out, first.body); err != nil {
		return Trouble, err
	}
	if first.status/100 == 2 {
		return Healthy, nil
	}
	writeLines(s.std.Err, []string{path + ": " + first.text})
	return Unhealthy, nil
}
