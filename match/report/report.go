// Package report formats the results of package match as text and JSON, and parses requests as people write them, for commands
// and servers.
//
// Other modules should not import it: it may change with every release.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// ClockSlack is how far the clocks of proxies may differ from the local clock.
const ClockSlack = 5 * time.Second

// Report is the result of a lookup, with its request and table.
type Report struct {
	Request  match.Request
	URL      string // as given
	Table    string // name of the table
	Routes   int    // of the table
	Refusals []match.Refusal
	Result   match.Result
	Owner    shadowdiff.OwnerFunc // finds the objects of routes; nil where only a table is known
}

// Matched reports whether some route gets the request, whatever is undecided.
func (v *Report) Matched() bool {
	lost := func(o match.Outcome) bool { return o.Route == nil }
	return len(v.Result.Outcomes) > 0 && !slices.ContainsFunc(v.Result.Outcomes, lost)
}

// maxHeaders limits the headers of a request to match.
const maxHeaders = 64

// ParseQuery reads the request to match from parameters: url, method, header, from and at, which is now by default. It sets the options of
// the proxies that are given: normalize-host, ignore-trailing-slash, rfc-patch-path and validate-query. The error names the parameter.
func ParseQuery(q url.Values, now time.Time, o *match.Options) (match.Request, error) {
	r := match.Request{Method: q.Get("method"), RemoteAddr: q.Get("from"), Time: now, Slack: ClockSlack}
	if strings.ContainsAny(r.Method, " \t\r\n") {
		return r, fmt.Errorf("method=%q: must be a method such as POST", r.Method)
	}
	if r.RemoteAddr != "" {
		if _, err := netip.ParseAddr(r.RemoteAddr); err != nil {
			return r, fmt.Errorf("from=%q: must be the IP address from which the connection comes", r.RemoteAddr)
		}
	}
	if at := q.Get("at"); at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return r, fmt.Errorf("at=%q: must be a time as in 2026-12-24T18:00:00+01:00", at)
		}
		r.Time, r.Slack = t, 0
	}
	for name, dst := range map[string]*bool{
		"normalize-host": &o.NormalizeHost, "ignore-trailing-slash": &o.IgnoreTrailingSlash, "rfc-patch-path": &o.RFCPatchPath,
		"validate-query": &o.ValidateQuery,
	} {
		if q.Has(name) {
			var err error
			if *dst, err = strconv.ParseBool(q.Get(name)); err != nil {
				return r, fmt.Errorf("%s=%q: must be true or false", name, q.Get(name))
			}
		}
	}
	if len(q["header"]) > maxHeaders {
		return r, fmt.Errorf("%d headers: must be at most %d", len(q["header"]), maxHeaders)
	}
	for _, h := range q["header"] {
		if err := addHeader(&r, h); err != nil {
			return r, fmt.Errorf("header=%w", err)
		}
	}
	if !q.Has("url") {
		return r, errors.New("url= must be set to the URL of a request, such as https://shop.example.org/cart")
	}
	if err := setURL(&r, q.Get("url")); err != nil {
		return r, fmt.Errorf("url=%w", err)
	}
	return r, nil
}

// addHeader adds a header in curl's form: "Name: value", or "Name;" for an empty one. Host replaces the host.
func addHeader(r *match.Request, line string) error {
	name, val, ok := strings.Cut(line, ":")
	if !ok {
		name, ok = strings.CutSuffix(line, ";")
	}
	if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(val, "\r\n") {
		return fmt.Errorf("%q: must be a header such as 'X-Beta: 1'", line)
	}
	val = strings.TrimSpace(val)
	if strings.EqualFold(name, "Host") {
		r.Host = val
		return nil
	}
	if r.Header == nil {
		r.Header = map[string][]string{}
	}
	r.Header[name] = append(r.Header[name], val)
	return nil
}

// setURL sets target and host from a URL, as curl does. It keeps a Host header that is already set.
func setURL(r *match.Request, text string) error {
	if strings.HasPrefix(text, "/") {
		if r.Host == "" {
			return fmt.Errorf("%q has no host: use a URL, or add -H 'Host: shop.example.org'", text)
		}
		r.Target, _, _ = strings.Cut(text, "#")
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q: must be the URL of a request, such as https://shop.example.org/cart", text)
	}
	r.Target = u.RequestURI()
	if r.Host == "" {
		r.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	}
	return nil
}

// WriteText prints the result for people, without control characters. It returns the writer's error.
func (v *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	res := &v.Result
	fmt.Fprintf(&b, "%s %s, table %s with %d routes\n", v.method(), v.URL, v.Table, v.Routes)
	if a := res.Answer; a != nil {
		fmt.Fprintf(&b, "\nno route: the proxy answers %d: %s\n", a.Status, a.Text)
	} else {
		fmt.Fprintf(&b, "host %s, path %s\n", res.Host, res.Path)
		if !res.Decided() {
			fmt.Fprintf(&b, "\nundecided: %d outcomes are possible\n", len(res.Outcomes))
		}
		for _, o := range res.Outcomes {
			v.writeOutcome(&b, o)
		}
		v.writeCandidates(&b, res.Candidates)
	}
	for _, warning := range res.Warnings {
		effect := "would match after the route above"
		switch {
		case warning.Partly:
			effect = "might match"
		case warning.Ahead:
			effect = "would win"
		}
		fmt.Fprintf(&b, "\nwarning: route %s (%s) %s, but a proxy does not use it: %s: %s\n",
			warning.Route.Id, v.owner(warning.Route), effect, warning.Reason, warning.Text)
	}
	if n := len(v.Refusals); n > len(res.Warnings) && res.Answer == nil {
		fmt.Fprintf(&b, "\na proxy does not use %d routes of the table; %d of them match this request (see above)\n", n, len(res.Warnings))
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

func (v *Report) method() string { return cmp.Or(v.Request.Method, "GET") }

func (v *Report) owner(r *eskip.Route) string { return v.Owner.Of(r.Id).String() }

func (v *Report) writeOutcome(b *bytes.Buffer, o match.Outcome) {
	if o.Route == nil {
		b.WriteString("\nno route: the proxy answers 404\n")
		return
	}
	fmt.Fprintf(b, "\nroute %s\n", o.Route.Id)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %-10s  %s\n", name, text)
		}
	}
	line("owner", v.owner(o.Route))
	line("place", fmt.Sprintf("%s, weight %d", cmp.Or(o.Place, "no path predicate"), o.Weight))
	predicates, filters, backend := shadowdiff.Expression(o.Route)
	line("predicates", predicates)
	line("filters", filters)
	line("backend", backend)
	switch o.Route.BackendType {
	case eskip.LoopBackend:
		line("note", "the filters run, and the request they make is looked up again")
	case eskip.ForwardBackend:
		line("note", "a proxy removes the filters and sends the request to its -forward-backend-url")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		line("parameter", name+" = "+o.Params[name])
	}
	for _, u := range o.Open {
		line("if", u.Predicate+": "+u.Why)
	}
	for _, id := range o.Ties {
		line("tie", "with "+id+": same place, same weight; which one wins is arbitrary and changes with every table")
	}
	for _, n := range o.Notes {
		line("note", n)
	}
}

func (v *Report) writeCandidates(b *bytes.Buffer, candidates []match.Candidate) {
	if len(candidates) > 0 {
		b.WriteString("\nnext best\n")
	}
	for _, c := range candidates {
		fmt.Fprintf(b, "  %s (%s, weight %d)\n", c.Route.Id, v.owner(c.Route), c.Weight)
		if c.Behind != "" {
			fmt.Fprintf(b, "    matches, but has a lower rank: %s\n", c.Behind)
		}
		for i, l := range c.Lost {
			if i == 0 {
				fmt.Fprintf(b, "    lost: %s\n", l)
			} else {
				fmt.Fprintf(b, "    also: %s\n", l)
			}
		}
		for _, u := range c.Open {
			fmt.Fprintf(b, "    undecided: %s: %s\n", u.Predicate, u.Why)
		}
	}
}

// Schema names the JSON form, which docs/debug/explain.md describes. Within one version fields are only added.
const Schema = "routesrv.match/v1"

// Match is the JSON form.
type Match struct {
	Schema     string          `json:"schema"`
	Result     string          `json:"result"` // match, no_route, undecided or answered
	Request    jsonRequest     `json:"request"`
	Table      jsonTable       `json:"table"`
	Answer     *match.Answer   `json:"answer,omitempty"`
	Outcomes   []jsonOutcome   `json:"outcomes"`
	Candidates []jsonCandidate `json:"candidates"`
	Warnings   []jsonWarning   `json:"warnings"`
}

// Meaning returns the part of the report on which replicas with the same table agree.
func (m *Match) Meaning() string {
	parts := []any{m.Result, m.Answer}
	for _, o := range m.Outcomes {
		parts = append(parts, nil)
		if r := o.Route; r != nil {
			parts = append(parts, r.ID, r.Filters, r.Backend)
		}
		for _, u := range o.Open {
			parts = append(parts, u.Predicate)
		}
	}
	text, _ := json.Marshal(parts) // all of it came from JSON
	return string(text)
}

type jsonRequest struct {
	Method string    `json:"method"`
	URL    string    `json:"url"`
	Host   string    `json:"host"` // as predicates see it
	Path   string    `json:"path"` // as predicates see it
	From   string    `json:"from,omitempty"`
	At     time.Time `json:"at"`
}

type jsonTable struct {
	Source   string `json:"source"`
	Routes   int    `json:"routes"`
	Refusals int    `json:"refusals"`
}

type jsonRoute struct {
	ID         string           `json:"id"`
	Owner      shadowdiff.Owner `json:"owner"`
	Predicates string           `json:"predicates"`
	Filters    []string         `json:"filters"`
	Backend    string           `json:"backend"`
	Endpoints  []string         `json:"endpoints,omitempty"`
}

type jsonOutcome struct {
	Route *jsonRoute `json:"route"` // null if no route matches
	match.Outcome
}

type jsonCandidate struct {
	Route *jsonRoute `json:"route"`
	match.Candidate
}

type jsonWarning struct {
	Route *jsonRoute `json:"route"`
	match.Warning
}

// WriteJSON prints the result for programs. It returns the writer's error.
func (v *Report) WriteJSON(w io.Writer) error {
	res := &v.Result
	out := Match{
		Schema: Schema, Result: v.word(),
		Request: jsonRequest{
			Method: v.method(), URL: v.URL, Host: res.Host, Path: res.Path, From: v.Request.RemoteAddr, At: v.Request.Time,
		},
		Table:  jsonTable{v.Table, v.Routes, len(v.Refusals)},
		Answer: res.Answer, Outcomes: []jsonOutcome{}, Candidates: []jsonCandidate{}, Warnings: []jsonWarning{},
	}
	for _, o := range res.Outcomes {
		out.Outcomes = append(out.Outcomes, jsonOutcome{v.newJSONRoute(o.Route), o})
	}
	for _, c := range res.Candidates {
		out.Candidates = append(out.Candidates, jsonCandidate{v.newJSONRoute(c.Route), c})
	}
	for _, warning := range res.Warnings {
		out.Warnings = append(out.Warnings, jsonWarning{v.newJSONRoute(warning.Route), warning})
	}
	return shadowdiff.WriteJSONValue(w, out)
}

func (v *Report) word() string {
	switch res := &v.Result; {
	case res.Answer != nil:
		return "answered"
	case !res.Decided():
		return "undecided"
	case res.Winner() == nil:
		return "no_route"
	}
	return "match"
}

func (v *Report) newJSONRoute(r *eskip.Route) *jsonRoute {
	if r == nil {
		return nil
	}
	j := &jsonRoute{ID: r.Id, Owner: v.Owner.Of(r.Id), Filters: []string{}}
	j.Predicates, _, j.Backend = shadowdiff.Expression(r)
	for _, f := range r.Filters {
		j.Filters = append(j.Filters, f.String())
	}
	for _, ep := range r.LBEndpoints {
		j.Endpoints = append(j.Endpoints, ep.StringWithZone())
	}
	return j
}
