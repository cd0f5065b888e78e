package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
func askExplain(ctx context.Context, l *Listener, what explain.Query) (*spoken, error) {
	q := parameters("kind", string(what.Kind), "namespace", what.Namespace, "name", what.Name, "route", what.Route, "host", what.Host)
	e := &explain.Explanation{}
	p, err := query.Get(ctx, l, api.PathExplain, q, e, http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case e.Schema == "" && p.Status == http.StatusNotFound:
		return nil, fmt.Errorf("/explain: %s %q: this is for the support listener of a route server that reads a cluster", p.Text, p.Line())
	case e.Schema != explain.Schema:
		return nil, errors.New("the route server explains by the schema " + e.Schema + ", and this program knows " + explain.Schema)
	}
	return explained(e, p.Body)
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
	good := e.Result == "fine" || e.Result == rules.Info.String()
	err := e.WriteText(&text)
	return &spoken{key: e.Result + "\n" + e.Cause, text: text.Bytes(), raw: raw, status: verdict(good)}, err
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
		return askExplain(ctx, r.Support, about)
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
	method, from, at string
	headers          []string
	proxy            match.Options
}

// matchSettings are the flags of match that say how the proxies are set, with the names of the parameters of /match.
var matchSettings = [...]string{"normalize-host", "ignore-trailing-slash", "rfc-patch-path", "validate-query"}

func (j *matchJob) define(flags *options.Flags) {
	j.proxy = match.Options{Zone: time.LoadLocation}
	flags.Add("-X,--request", options.Text("METHOD", &j.method, "GET"), "Method of the request, compared as it is written.")
	flags.Add("-H,--header", options.Texts("'NAME: VALUE'", &j.headers), "Header of the request. May be repeated. Host replaces the host of the URL; Content-Length is the length of the body.")
	flags.Add("--from", options.Text("ADDRESS", &j.from, ""), "Address of the connection: the load balancer's if one is in front of the proxy. Without it, predicates that need it are undecided. Set the client behind a load balancer with -H 'X-Forwarded-For: ADDRESS'.")
	flags.Add("--at", options.Text("TIME", &j.at, ""), "When the request arrives. Cron uses the zone that you write here; the default is now in UTC, as in most containers. Without this flag a predicate with a limit in the next or last 5 seconds is undecided.")
	flags.Add("--candidates", options.Number(&j.proxy.Candidates, match.DefaultCandidates, 0, 1000),
		"Number of next best routes to show.")
	flags.Add("--normalize-host", options.Bool(&j.proxy.NormalizeHost, false),
		"Set it if the proxies have it. Compare hosts in lower case, without port and trailing dot. Proxies that read the cluster themselves do that; proxies of a route server only with this flag.")
	flags.Add("--ignore-trailing-slash", options.Bool(&j.proxy.IgnoreTrailingSlash, false),
		"Set it if the proxies have it. Ignore a slash at the end of a path.")
	flags.Add("--rfc-patch-path", options.Bool(&j.proxy.RFCPatchPath, false),
		"Set it if the proxies have it. Escaped reserved characters in the path stay escaped.")
	flags.Add("--validate-query", options.Bool(&j.proxy.ValidateQuery, true),
		"Set it if the proxies have it. Answer requests with a malformed query with 400.")
	flags.Add("--disabled-filters", options.List(&j.proxy.DisabledFilters),
		"Filters of Skipper that the proxies disable, separated by commas. Those that they add are --filters and --predicates.")
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	q := parameters("url", s.args[0], "method", j.method, "from", j.from, "at", j.at)
	q["header"] = j.headers
	for _, name := range matchSettings {
		if s.flags.Given(name) {
			q.Set(name, s.flags.Value(name))
		}
	}
	request, err := report.ParseQuery(q, s.now().UTC(), &j.proxy)
	switch {
	case err != nil:
		return Trouble, usageError(err)
	case len(s.args) == 2:
		return s.say(j.here(ctx, s, request, s.args[1]))
	}
	return j.there(ctx, s, q)
}

// here finds the route in the table of one place.
func (j *matchJob) here(ctx context.Context, s *session, request match.Request, place string) (*spoken, error) {
	loaded, compiler, err := s.load(ctx, place)
	if err != nil {
		return nil, err
	}
	if j.proxy.Candidates == 0 {
		j.proxy.Candidates = -1
	}
	s.server.ProxyOptions(&j.proxy)
	table, refusals := match.New(loaded.Routes, j.proxy)
	v := report.Report{
		Request: request, URL: s.args[0], Table: loaded.Name, Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(request), Owner: compiler.owners(),
	}
	var text, raw bytes.Buffer
	err = cmp.Or(v.WriteText(&text), v.WriteJSON(&raw))
	return &spoken{text: text.Bytes(), raw: raw.Bytes(), status: verdict(v.Matched())}, err
}

// there asks the replicas.
func (j *matchJob) there(ctx context.Context, s *session, q url.Values) (int, error) {
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
