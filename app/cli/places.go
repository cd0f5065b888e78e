package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/routesrv/routesrv/app/query"
)

// listed reads the file of clusters: NAME URL on each line.
func (s *session) listed() (all []Cluster, err error) {
	const most = 1 << 20
	in := s.std.In
	if s.urls != "-" {
		f, err := os.Open(s.urls)
		if err != nil {
			return nil, fmt.Errorf("--urls: %w", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(io.LimitReader(in, most))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || !query.IsURL(words[1]) {
			return nil, fmt.Errorf("--urls: line %d: must be NAME URL", n)
		}
		r := Replica{Name: words[1], Support: &Listener{URL: strings.TrimSuffix(words[1], "/")}}
		all = append(all, Cluster{Name: words[0], Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--urls: %w", err)
	}
	return all, nil
}

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
