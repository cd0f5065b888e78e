package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"
)

type matchJob struct {
	method, from, at                                       string
	headers                                                []string
	normalizeHost, ignoreTrailingSlash, keepEscapes, query bool
	set                                                    *pflag.FlagSet
}

func matchCommand() command {
	return command{
		name: "match", args: "URL", summary: "Finds the route that a request reaches, without sending it.",
		intro: `Asks every replica which route of its table a proxy would pick for the request. An answer that depends on chance, on the
state of a proxy or on a missing option is undecided. Replicas with the same answer are shown once. For a file or the
table of a proxy, use routesrv match.

The exit status is 0 if a route matches on every replica, 1 if none does, if it is undecided or if the replicas
disagree, and 2 if a cluster does not answer.`,
		examples: []example{
			{"Which route takes this request?", "match https://shop.example.org/cart"},
			{"A POST with a header, from a load balancer", "match -X POST -H 'X-Beta: 1' --from 10.2.0.1 https://shop.example.org/cart"},
		},
		min: 1, max: 1, outputs: []string{"text", "json"},
		job: func() job { return &matchJob{} },
	}
}

func (j *matchJob) define(set *pflag.FlagSet) {
	j.set = set
	set.StringVarP(&j.method, "request", "X", "GET", "method of the request")
	set.StringArrayVarP(&j.headers, "header", "H", nil, "header of the request, 'NAME: VALUE'; may be repeated")
	set.StringVar(&j.from, "from", "", "address that the connection comes from: that of the load balancer if one is before the proxy")
	set.StringVar(&j.at, "at", "", "when the request arrives, such as 2026-12-24T18:00:00+01:00 (default now)")
	set.BoolVar(&j.normalizeHost, "normalize-host", false, "the proxies have the flag of this name")
	set.BoolVar(&j.ignoreTrailingSlash, "ignore-trailing-slash", false, "the proxies have the flag of this name")
	set.BoolVar(&j.keepEscapes, "rfc-patch-path", false, "the proxies have the flag of this name")
	set.BoolVar(&j.query, "validate-query", true, "the proxies have the flag of this name")
}

// matched is the part of a match in JSON that this command uses.
type matched struct {
	Schema string `json:"schema"`
	Result string `json:"result"`
	Answer *struct {
		Status int `json:"status"`
	} `json:"answer"`
	Outcomes []struct {
		Route *struct {
			ID      string `json:"id"`
			Filters []string
			Backend string
		} `json:"route"`
		Undecided []struct{ Predicate string } `json:"undecided"`
	} `json:"outcomes"`
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	q := url.Values{"url": {s.args[0]}, "method": {j.method}, "header": j.headers}
	for name, val := range map[string]string{"from": j.from, "at": j.at} {
		if val != "" {
			q.Set(name, val)
		}
	}
	for name, val := range map[string]bool{
		"normalize-host": j.normalizeHost, "ignore-trailing-slash": j.ignoreTrailingSlash, "rfc-patch-path": j.keepEscapes, "validate-query": j.query,
	} {
		if j.set.Changed(name) {
			q.Set(name, strconv.FormatBool(val))
		}
	}
	return s.speak("match", ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*spoken, error) {
		m := &matched{}
		p, err := r.Support.get(ctx, "/match", q, m, http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		if m.Schema == "" {
			return nil, fmt.Errorf("/match: %s: is this the support listener of a route server?", p.text)
		}
		key, err := json.Marshal([]any{m.Result, m.Answer, m.Outcomes})
		if err != nil {
			return nil, err
		}
		a := &spoken{key: string(key), raw: p.body, status: Unhealthy}
		if m.Result == "match" {
			a.status = Healthy
		}
		if s.output == "json" {
			return a, nil
		}
		text, err := r.Support.do(ctx, http.MethodGet, "/match", q, "text/plain")
		if err != nil {
			return nil, err
		}
		if text.status != http.StatusOK && text.status != http.StatusNotFound {
			return nil, text.refusal("/match")
		}
		a.text = text.body
		return a, nil
	}))
}
