package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones for Before, After and Between: the image has no zone files

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
)

type matchJob struct {
	request match.Request
	proxy   match.Options
	headers []string // as given
	at      string
}

func matchCommand() command {
	return command{
		name: "match", args: "URL", summary: "Finds the route that a request reaches, without sending it.",
		intro: `Finds the route that a Skipper would pick: the route with its owner, filters and backend, the next best routes with the
predicate that failed, and the routes that would have matched if the proxy had not refused them. TABLE is one of

    a file of routes, such as the copy that a data plane keeps
    a file or folder of manifests
    the URL of a route server, such as http://routesrv/routes
    the URL of the support listener of a Skipper, such as http://10.2.0.7:9911/routes
    -, routes on standard input

Without TABLE, kubectl routesrv asks every replica; replicas with the same answer are shown once.

URL is the URL of the request, as for curl, or a path together with -H 'Host: NAME'. The request has only the headers of -H. A
proxy does not see the scheme of the URL: if your load balancer sets X-Forwarded-Proto, add it with -H.

An answer that depends on chance, on the state of a proxy or on a missing option is undecided: every possible outcome is listed
with its conditions. The exit status is 0 if a route matches, even if it is undecided which one; 1 if none does, if it is
undecided whether one does, if a proxy answers the request itself, or if the replicas disagree; and 2 after an error.`,
		examples: []example{
			{"Which route takes this request?", "match https://shop.example.org/cart @routes"},
			{"Which route takes this request, on every replica of this context?", "match --context prod-eu https://shop.example.org/cart"},
			{"A POST with a header, from a client address that predicates check", "match -X POST -H 'X-Beta: 1' --from 10.2.0.1 https://shop.example.org/cart ./routes.eskip"},
			{"Which route would it be with these manifests, on Christmas Eve?", "match --at 2026-12-24T18:00:00+01:00 https://shop.example.org/cart ./manifests"},
		},
		min: 1, max: 1, tables: 1, table: "TABLE", local: true, outputs: []string{"text", "json"},
		job: func() job {
			return &matchJob{proxy: match.Options{ValidateQuery: true, Candidates: match.DefaultCandidates, Zone: time.LoadLocation}}
		},
	}
}

// clientTime is the flag for when the request arrives.
const clientTime = "at"

func (j *matchJob) define(g config.Section) {
	j.request.Header = map[string][]string{}
	g.Ask("request", "X", config.Text("METHOD", &j.request.Method, "GET", func(s string) error {
		if s == "" || strings.ContainsAny(s, " \t\r\n") {
			return fmt.Errorf("%q: want a method such as POST", s)
		}
		return nil
	}), "Method of the request, compared as it is written.")
	g.Ask("header", "H", config.Repeated("'NAME: VALUE'", func(s string) error {
		j.headers = append(j.headers, s)
		return report.AddHeader(&j.request, s)
	}), "Header of the request. May be repeated. Host replaces the host of the URL; Content-Length is the length of the body.")
	g.Ask("from", "", config.Text("ADDRESS", &j.request.RemoteAddr, "", func(s string) error {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("%q: want the IP address from which the connection comes", s)
		}
		return nil
	}), "Address of the connection: that of the load balancer if one is in front of the proxy. Without it, predicates that "+
		"need it are undecided. Set the client behind a load balancer with -H 'X-Forwarded-For: ADDRESS'.")
	g.Ask(clientTime, "", config.Text("TIME", &j.at, "", func(s string) (err error) {
		if j.request.Time, err = time.Parse(time.RFC3339, s); err != nil {
			err = fmt.Errorf("%q: want a time as in 2026-12-24T18:00:00+01:00", s)
		}
		return err
	}), "When the request arrives. Cron uses the zone that you write here; the default is now in UTC, as in most containers. Without this "+
		"flag a predicate with a limit in the next or last 5 seconds is undecided.")
	g.Ask("candidates", "", config.Number(&j.proxy.Candidates, match.DefaultCandidates, 0, 1000), "Number of next best routes to show.")
	defineProxy(g, &j.proxy)
}

// defineProxy adds the flags that say how the proxies are set.
func defineProxy(g config.Section, proxy *match.Options) {
	const set = "Set it if the proxies have it. "
	g.Ask("normalize-host", "", config.Bool(&proxy.NormalizeHost, false), set+"Compare hosts in lower case, without port and trailing dot. Proxies that "+
		"read the cluster themselves do that; proxies of a route server only with this flag.")
	g.Ask("ignore-trailing-slash", "", config.Bool(&proxy.IgnoreTrailingSlash, false), set+"Ignore a slash at the end of a path.")
	g.Ask("rfc-patch-path", "", config.Bool(&proxy.RFCPatchPath, false), set+"Escaped reserved characters in the path stay escaped.")
	g.Ask("validate-query", "", config.Bool(&proxy.ValidateQuery, true), set+"Answer requests with a malformed query with 400.")
	g.Ask("disabled-filters", "", config.List(&proxy.DisabledFilters), "Filters of Skipper that the proxies disable, separated by commas. Those that they add "+
		"are --filters and --predicates.")
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	if err := report.SetURL(&j.request, s.args[0]); err != nil {
		return Trouble, usageError{&config.Error{Flag: "URL", Err: err}}
	}
	if len(s.args) == 2 {
		return s.say(j.here(ctx, s, s.args[1]))
	}
	return j.there(ctx, s)
}

// here finds the route in the table of one place.
func (j *matchJob) here(ctx context.Context, s *session, place string) (*spoken, error) {
	reader, compiler, err := s.tables()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	source, err := reader.Open(place)
	if err != nil {
		return nil, err
	}
	loaded, err := source.Load(ctx)
	if err != nil {
		return nil, err
	}
	if j.at == "" {
		j.request.Time, j.request.Slack = s.now().UTC(), report.ClockSlack
	}
	if j.proxy.Candidates == 0 {
		j.proxy.Candidates = -1
	}
	o := s.server.Compile
	j.proxy.ExtraFilters, j.proxy.ExtraPredicates, j.proxy.ForwardBackendURL = o.ExtraFilters, o.ExtraPredicates, o.ForwardBackendURL
	table, refusals := match.New(loaded.Routes, j.proxy)
	v := report.View{
		Request: j.request, URL: s.args[0], Table: source.Name(), Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(j.request), Owner: compiler.owners(),
	}
	var text, raw bytes.Buffer
	if err := v.WriteText(&text); err != nil {
		return nil, err
	}
	if err := v.WriteJSON(&raw); err != nil {
		return nil, err
	}
	a := &spoken{text: text.Bytes(), raw: raw.Bytes(), status: Unhealthy}
	if v.Matched() {
		a.status = Healthy
	}
	return a, nil
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

// there asks the replicas.
func (j *matchJob) there(ctx context.Context, s *session) (int, error) {
	q := url.Values{"url": {s.args[0]}, "method": {j.request.Method}, "header": j.headers}
	for name, val := range map[string]string{"from": j.request.RemoteAddr, clientTime: j.at} {
		if val != "" {
			q.Set(name, val)
		}
	}
	for name, val := range map[string]bool{
		"normalize-host": j.proxy.NormalizeHost, "ignore-trailing-slash": j.proxy.IgnoreTrailingSlash, "rfc-patch-path": j.proxy.RFCPatchPath,
		"validate-query": j.proxy.ValidateQuery,
	} {
		if s.parser.Given(name) {
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
