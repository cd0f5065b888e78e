package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones for Before, After and Between: the image has no zone files

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
)

type explainJob struct{ namespace string }

func (j *explainJob) define(flags *options.Flags) {
	flags.Add("-n,--namespace", options.Text("NAME", &j.namespace, ""), "Namespace of the object, unless its name has one.")
}

// askExplain asks the support listener of a route server.
func askExplain(ctx context.Context, l *Listener, what explain.Query) (*explain.Explanation, []byte, error) {
	q := parameters("kind", string(what.Kind), "namespace", what.Namespace, "name", what.Name, "route", what.Route, "host", what.Host)
	e := &explain.Explanation{}
	p, err := query.Get(ctx, l, api.PathExplain, q, e, http.StatusNotFound)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case e.Schema == "" && p.Status == http.StatusNotFound:
		return nil, nil, fmt.Errorf("/explain: %s %q: this is for the support listener of a route server that reads a cluster", p.Text, p.Line())
	case e.Schema != explain.Schema:
		return nil, nil, errors.New("the route server explains by the schema " + e.Schema + ", and this program knows " + explain.Schema)
	}
	return e, p.Body, nil
}

// spoken is an answer of one replica in text form.
type spoken struct {
	key    string // equal for answers with the same meaning
	text   []byte
	raw    json.RawMessage
	status int
}

func (a *spoken) json() json.RawMessage { return a.raw }

// explained returns an explanation as an answer. raw is its JSON.
func explained(e *explain.Explanation, raw []byte) (*spoken, error) {
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil {
		return nil, err
	}
	good := e.Result == "fine" || e.Result == rules.Info.String()
	return &spoken{key: e.Result + "\n" + e.Cause, text: text.Bytes(), raw: raw, status: verdict(good)}, nil
}

func (j *explainJob) run(ctx context.Context, s *session) (int, error) {
	what, place := s.args, ""
	if !s.program.Remote {
		what, place = s.args[:len(s.args)-1], s.args[len(s.args)-1]
	}
	if len(what) == 2 && j.namespace != "" && !strings.Contains(what[1], "/") {
		what = []string{what[0], j.namespace + "/" + what[1]}
	}
	about, err := explain.ParseQuery(what...)
	if err != nil {
		return Trouble, usageError(err)
	}
	switch {
	case query.IsURL(place):
		if s.clusters, _, err = s.places.Clusters([]string{strings.TrimSuffix(strings.TrimSuffix(place, "/"), api.PathExplain)}); err != nil {
			return Trouble, usageError(err)
		}
	case place != "":
		e, err := s.explainManifests(ctx, place, about)
		if err != nil {
			return Trouble, err
		}
		raw, err := json.Marshal(e)
		if err != nil {
			return Trouble, err
		}
		return s.say(explained(e, raw))
	}
	return s.speak("explain", ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*spoken, error) {
		e, raw, err := askExplain(ctx, r.Support, about)
		if err != nil {
			return nil, err
		}
		return explained(e, raw)
	}))
}

// say prints the answer about a table that was an argument.
func (s *session) say(a *spoken, err error) (int, error) {
	if err != nil {
		return Trouble, err
	}
	if s.output == "json" {
		err = shadowdiff.WriteJSONValue(s.std.Out, a.raw)
	} else {
		_, err = s.std.Out.Write(a.text) // as our own code made it
	}
	return a.status, printing(err)
}

// speak prints text answers, each once for the replicas that agree, and returns the exit status.
func (s *session) speak(name string, replies []query.Reply[*spoken]) (int, error) {
	if answers := replies[0].Answered(); !s.program.Remote && name != "held" && len(replies[0].Answers) == 1 && len(answers) == 1 {
		return s.say(answers[0].Value, nil) // of the only URL
	}
	return tabulate(s, name, nil, replies, func(i int, r query.Reply[*spoken], one *reported) int {
		status := silent(r)
		groups := agreeing(r, func(a *spoken) string { return a.key })
		for k, g := range groups {
			var heads []string
			if s.named {
				heads = append(heads, r.Cluster)
			}
			if len(groups) > 1 {
				heads = append(heads, strings.Join(g.replicas, ", "))
			}
			if i > 0 || k > 0 {
				one.text = append(one.text, '\n')
			}
			if len(heads) > 0 {
				one.text = fmt.Appendf(one.text, "=== %s\n", strings.Join(heads, ": "))
			}
			one.text, status = append(one.text, g.value.text...), max(status, g.value.status)
		}
		if len(groups) > 1 {
			one.Wrong, status = []string{"the replicas disagree"}, max(status, Unhealthy)
			one.note("", "the replicas disagree")
		}
		return status
	})
}

type matchJob struct {
	request match.Request
	proxy   match.Options
	headers []string // as given
	at      string
}

func (j *matchJob) define(flags *options.Flags) {
	j.request.Header = map[string][]string{}
	j.proxy = match.Options{ValidateQuery: true, Zone: time.LoadLocation}
	flags.Add("-X,--request", options.Text("METHOD", &j.request.Method, "GET", func(s string) error {
		if s == "" || strings.ContainsAny(s, " \t\r\n") {
			return fmt.Errorf("%q: must be a method such as POST", s)
		}
		return nil
	}), "Method of the request, compared as it is written.")
	flags.Add("-H,--header", headerValue(&j.headers, &j.request), "Header of the request. May be repeated. Host replaces the host of the URL; Content-Length is the length of the body.")
	flags.Add("--from", options.Text("ADDRESS", &j.request.RemoteAddr, "", func(s string) error {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("%q: must be the IP address from which the connection comes", s)
		}
		return nil
	}), "Address of the connection: the load balancer's if one is in front of the proxy. Without it, predicates that need it are undecided. Set the client behind a load balancer with -H 'X-Forwarded-For: ADDRESS'.")
	flags.Add("--at", options.Text("TIME", &j.at, "", func(s string) (err error) {
		if j.request.Time, err = time.Parse(time.RFC3339, s); err != nil {
			err = fmt.Errorf("%q: must be a time as in 2026-12-24T18:00:00+01:00", s)
		}
		return err
	}), "When the request arrives. Cron uses the zone that you write here; the default is now in UTC, as in most containers. Without this flag a predicate with a limit in the next or last 5 seconds is undecided.")
	flags.Add("--candidates", options.Number(&j.proxy.Candidates, match.DefaultCandidates, 0, 1000),
		"Number of next best routes to show.")
	defineProxy(flags, &j.proxy)
}

// headerValue collects headers, which must be valid.
func headerValue(headers *[]string, request *match.Request) *options.Value {
	return options.Repeated("'NAME: VALUE'", func(s string) error {
		*headers = append(*headers, s)
		return report.AddHeader(request, s)
	})
}

// defineProxy adds the flags that say how the proxies are set.
func defineProxy(flags *options.Flags, proxy *match.Options) {
	flags.Add("--normalize-host", options.Bool(&proxy.NormalizeHost, false),
		"Set it if the proxies have it. Compare hosts in lower case, without port and trailing dot. Proxies that read the cluster themselves do that; proxies of a route server only with this flag.")
	flags.Add("--ignore-trailing-slash", options.Bool(&proxy.IgnoreTrailingSlash, false),
		"Set it if the proxies have it. Ignore a slash at the end of a path.")
	flags.Add("--rfc-patch-path", options.Bool(&proxy.RFCPatchPath, false),
		"Set it if the proxies have it. Escaped reserved characters in the path stay escaped.")
	flags.Add("--validate-query", options.Bool(&proxy.ValidateQuery, true),
		"Set it if the proxies have it. Answer requests with a malformed query with 400.")
	flags.Add("--disabled-filters", options.List(&proxy.DisabledFilters),
		"Filters of Skipper that the proxies disable, separated by commas. Those that they add are --filters and --predicates.")
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	if err := report.SetURL(&j.request, s.args[0]); err != nil {
		return Trouble, &options.Error{Flag: "URL", Err: err}
	}
	if len(s.args) == 2 {
		return s.say(j.here(ctx, s, s.args[1]))
	}
	return j.there(ctx, s)
}

// here finds the route in the table of one place.
func (j *matchJob) here(ctx context.Context, s *session, place string) (*spoken, error) {
	loaded, compiler, err := s.load(ctx, place)
	if err != nil {
		return nil, err
	}
	if j.at == "" {
		j.request.Time, j.request.Slack = s.now().UTC(), report.ClockSlack
	}
	if j.proxy.Candidates == 0 {
		j.proxy.Candidates = -1
	}
	s.server.ProxyOptions(&j.proxy)
	table, refusals := match.New(loaded.Routes, j.proxy)
	v := report.Report{
		Request: j.request, URL: s.args[0], Table: loaded.Name, Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(j.request), Owner: compiler.owners(),
	}
	var text, raw bytes.Buffer
	if err := v.WriteText(&text); err != nil {
		return nil, err
	}
	if err := v.WriteJSON(&raw); err != nil {
		return nil, err
	}
	return &spoken{text: text.Bytes(), raw: raw.Bytes(), status: verdict(v.Matched())}, nil
}

// there asks the replicas.
func (j *matchJob) there(ctx context.Context, s *session) (int, error) {
	q := parameters("url", s.args[0], "method", j.request.Method, "from", j.request.RemoteAddr, "at", j.at)
	q["header"] = j.headers
	for name, val := range map[string]bool{
		"normalize-host": j.proxy.NormalizeHost, "ignore-trailing-slash": j.proxy.IgnoreTrailingSlash, "rfc-patch-path": j.proxy.RFCPatchPath,
		"validate-query": j.proxy.ValidateQuery,
	} {
		if s.flags.Given(name) {
			q.Set(name, strconv.FormatBool(val))
		}
	}
	return s.speak("match", ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*spoken, error) {
		m := &report.Match{}
		p, err := query.Get(ctx, r.Support, api.PathMatch, q, m, http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		if m.Schema == "" {
			return nil, fmt.Errorf("/match: %s: is this the support listener of a route server?", p.Text)
		}
		a := &spoken{key: m.Meaning(), raw: p.Body, status: verdict(m.Result == "match")}
		if s.output == "json" {
			return a, nil
		}
		text, err := query.GetAs(ctx, r.Support, api.PathMatch, q, "text/plain", http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		a.text = text.Body
		return a, nil
	}))
}
