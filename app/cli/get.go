package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/app/query"
)

// runPost sends a command to the process in the same pod, for kubectl routesrv.
func runPost(ctx context.Context, s *session) (int, error) {
	form, err := url.ParseQuery(s.args[1])
	if err != nil {
		return Trouble, usagef("%q is no form: %v", s.args[1], err)
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) ([]byte, error) { return r.Post(ctx, s.args[0], form) })[0]
	if len(r.Answered()) == 0 {
		writeLines(s.std.Err, r.Missing())
		return Trouble, nil
	}
	_, err = s.std.Out.Write(r.Answered()[0].Value)
	return Healthy, err
}

func runGet(ctx context.Context, s *session) (int, error) {
	path := s.args[0]
	if !strings.HasPrefix(path, "/") {
		return Trouble, usagef("%q is not a path such as /status", path)
	}
	accept := "text/plain"
	if s.output == "json" {
		accept = "application/json"
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*query.Page, error) {
		return query.Do(ctx, r.Support, http.MethodGet, path, nil, accept, nil)
	})[0]
	answers := r.Answered()
	if len(answers) == 0 {
		writeLines(s.std.Err, r.Missing())
		return Trouble, nil
	}
	first := answers[0].Value // the replicas answer the same
	if err := writeText(s.std.Out, first.Body); err != nil {
		return Trouble, err
	}
	if first.Status/100 == 2 {
		return Healthy, nil
	}
	writeLines(s.std.Err, []string{path + ": " + first.Text})
	return Unhealthy, nil
}
