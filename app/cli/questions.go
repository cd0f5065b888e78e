package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones for Before, After and Between: the image has no zone files

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
)

type explainJob struct{ noFlags }

// askExplain asks the support listener of a route server.
func askExplain(ctx context.Context, l *Listener, query explain.Query) (*explain.Explanation, []byte, error) {
	q := url.Values{}
	for name, val := range map[string]string{
		"kind": string(query.Kind), "namespace": query.Namespace, "name": query.Name, "route": query.Route, "host": query.Host,
	} {
		if val != "" {
			q.Set(name, val)
		}
	}
	e := &explain.Explanation{}
	p, err := get(ctx, l, api.PathExplain, q, e, http.StatusNotFound)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case e.Schema == "" && p.status == http.StatusNotFound:
		return nil, nil, fmt.Errorf("/explain: %s %q: this is for the support listener of a route server that reads a cluster", p.text, p.line())
	case e.Schema != explain.Schema:
		return nil, nil, errors.New("the route server explains by the schema " + e.Schema + ", and this program knows " + explain.Schema)
	}
	return e, p.body, nil
}

// spoken is an answer of one replica in text form.
type spoken struct {
	key    string // equal for answers with the same meaning
	text   []byte
	raw    json.RawMessage
	status int
}

func spokenKey(a *spoken) string { return a.key }

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

func (explainJob) run(ctx context.Context, s *session) (int, error) {
	what, place := s.args, ""
	if !s.program.Remote {
		what, place = s.args[:len(s.args)-1], s.args[len(s.args)-1]
	}
	query, err := explain.ParseQuery(what...)
	if err != nil {
		return Trouble, usageError{err}
	}
	switch {
	case isURL(place):
		if s.clusters, _, err = s.places.Clusters([]string{strings.TrimSuffix(strings.TrimSuffix(place, "/"), api.PathExplain)}); err != nil {
			return Trouble, usageError{err}
		}
	case place != "":
		e, err := s.explainManifests(ctx, place, query)
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
		e, raw, err := askExplain(ctx, r.Support, query)
		if err != nil {
			return nil, err
		}
		return explained(e, raw)
	}))
}

func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// say prints the answer about a table that was an argument.
func (s *session) say(a *spoken, err error) (int, error) {
	if err != nil {
		return Trouble, err
	}
	if s.output == "json" {
		err = shadowdiff.WriteJSONValue(s.std.Out, a.raw, "  ")
	} else {
		_, err = s.std.Out.Write(a.text) // as our own code made it
	}
	return a.status, printing(err)
}

// speak prints text answers, each once for the replicas that agree, and returns the exit status.
func (s *session) speak(name string, replies []reply[*spoken]) (int, error) {
	if answers := replies[0].answered(); !s.program.Remote && len(replies[0].answers) == 1 && len(answers) == 1 {
		return s.say(answers[0].value, nil) // of the only URL
	}
	judge := func(_ int, r reply[*spoken]) documentCluster {
		one := Healthy
		for _, a := range r.answered() {
			one = max(one, a.value.status)
		}
		disagree := len(agreeing(r, spokenKey)) > 1
		if disagree {
			one = max(one, Unhealthy)
		}
		d := outline(r, one)
		if disagree {
			d.Wrong = []string{"the replicas disagree"}
		}
		return d
	}
	return conclude(s, name, replies, judge, func([]documentCluster) error {
		for i, r := range replies {
			if err := s.writeAgreements(r, i > 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeAgreements prints each answer of a cluster once, with the replicas that gave it if there are several. later answers begin with
// an empty line.
func (s *session) writeAgreements(r reply[*spoken], later bool) error {
	groups := agreeing(r, spokenKey)
	for k, g := range groups {
		var heads []string
		if s.named {
			heads = append(heads, r.cluster)
		}
		if len(groups) > 1 {
			heads = append(heads, strings.Join(g.replicas, ", "))
		}
		if later || k > 0 {
			fmt.Fprintln(s.std.Out)
		}
		if len(heads) > 0 {
			writeLines(s.std.Out, []string{"=== " + strings.Join(heads, ": ")})
		}
		if err := writeText(s.std.Out, g.value.text); err != nil {
			return err
		}
	}
	if len(groups) > 1 {
		writeLines(s.std.Err, []string{label(r.cluster, "") + "the replicas disagree"})
	}
	writeLines(s.std.Err, r.missing())
	return nil
}

type matchJob struct {
	request match.Request
	proxy   match.Options
	headers []string // as given
	at      string
}

// clientTime is the flag for when the request arrives.
const clientTime = "at"

func (j *matchJob) define(flags *options.Parser) {
	j.request.Header = map[string][]string{}
	j.proxy = match.Options{ValidateQuery: true, Zone: time.LoadLocation}
	flags.Ask("request", options.Text("METHOD", &j.request.Method, "GET", func(s string) error {
		if s == "" || strings.ContainsAny(s, " \t\r\n") {
			return fmt.Errorf("%q: want a method such as POST", s)
		}
		return nil
	}))
	flags.Ask("header", options.Repeated("'NAME: VALUE'", func(s string) error {
		j.headers = append(j.headers, s)
		return report.AddHeader(&j.request, s)
	}))
	flags.Ask("from", options.Text("ADDRESS", &j.request.RemoteAddr, "", func(s string) error {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("%q: want the IP address from which the connection comes", s)
		}
		return nil
	}))
	flags.Ask(clientTime, options.Text("TIME", &j.at, "", func(s string) (err error) {
		if j.request.Time, err = time.Parse(time.RFC3339, s); err != nil {
			err = fmt.Errorf("%q: want a time as in 2026-12-24T18:00:00+01:00", s)
		}
		return err
	}))
	flags.Ask("candidates", options.Number(&j.proxy.Candidates, match.DefaultCandidates, 0, 1000))
	defineProxy(flags, &j.proxy)
}

// defineProxy adds the flags that say how the proxies are set.
func defineProxy(flags *options.Parser, proxy *match.Options) {
	flags.Ask("normalize-host", options.Bool(&proxy.NormalizeHost, false))
	flags.Ask("ignore-trailing-slash", options.Bool(&proxy.IgnoreTrailingSlash, false))
	flags.Ask("rfc-patch-path", options.Bool(&proxy.RFCPatchPath, false))
	flags.Ask("validate-query", options.Bool(&proxy.ValidateQuery, true))
	flags.Ask("disabled-filters", options.List(&proxy.DisabledFilters))
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	if err := report.SetURL(&j.request, s.args[0]); err != nil {
		return Trouble, usageError{&options.Error{Flag: "URL", Err: err}}
	}
	if len(s.args) == 2 {
		return s.say(j.here(ctx, s, s.args[1]))
	}
	return j.there(ctx, s)
}

// here finds the route in the table of one place.
func (j *matchJob) here(ctx context.Context, s *session, place string) (*spoken, error) {
	all, compiler, err := s.load(ctx, place)
	if err != nil {
		return nil, err
	}
	loaded := all[0]
	if j.at == "" {
		j.request.Time, j.request.Slack = s.now().UTC(), report.ClockSlack
	}
	if j.proxy.Candidates == 0 {
		j.proxy.Candidates = -1
	}
	o := s.server.Compile
	j.proxy.ExtraFilters, j.proxy.ExtraPredicates, j.proxy.ForwardBackendURL = o.ExtraFilters, o.ExtraPredicates, o.ForwardBackendURL
	table, refusals := match.New(loaded.Routes, j.proxy)
	v := report.Report{
		Request: j.request, URL: s.args[0], Table: loaded.name, Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(j.request), Owner: compiler.owners(),
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
		m := &report.Match{}
		p, err := get(ctx, r.Support, api.PathMatch, q, m, http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		if m.Schema == "" {
			return nil, fmt.Errorf("/match: %s: is this the support listener of a route server?", p.text)
		}
		a := &spoken{key: m.Meaning(), raw: p.body, status: verdict(m.Result == "match")}
		if s.output == "json" {
			return a, nil
		}
		text, err := getAs(ctx, r.Support, api.PathMatch, q, "text/plain", http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		a.text = text.body
		return a, nil
	}))
}
