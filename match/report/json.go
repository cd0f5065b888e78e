package report

import (
	"io"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Schema names the JSON form, which docs/debug/explain.md describes. Within one version fields are only added.
const Schema = "routesrv.match/v1"

type jsonMatch struct {
	Schema     string          `json:"schema"`
	Result     string          `json:"result"` // match, no_route, undecided or answered
	Request    jsonRequest     `json:"request"`
	Table      jsonTable       `json:"table"`
	Answer     *match.Answer   `json:"answer,omitempty"`
	Outcomes   []jsonOutcome   `json:"outcomes"`
	Candidates []jsonCandidate `json:"candidates"`
	Warnings   []jsonWarning   `json:"warnings"`
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
	Route     *jsonRoute        `json:"route"` // null if no route matches
	Place     string            `json:"place,omitempty"`
	Weight    int               `json:"weight"`
	Params    map[string]string `json:"params,omitempty"`
	Share     *float64          `json:"share"` // null if unknown
	Undecided []match.Undecided `json:"undecided,omitempty"`
	Ties      []string          `json:"ties,omitempty"`
	Notes     []string          `json:"notes,omitempty"`
}

type jsonCandidate struct {
	Route     *jsonRoute        `json:"route"`
	Weight    int               `json:"weight"`
	Lost      []string          `json:"lost,omitempty"`
	Behind    match.Behind      `json:"behind,omitempty"`
	Undecided []match.Undecided `json:"undecided,omitempty"`
}

type jsonWarning struct {
	Route  *jsonRoute   `json:"route"`
	Reason match.Reason `json:"reason"`
	Text   string       `json:"text"`
	Wins   bool         `json:"wins"`
	Partly bool         `json:"partly,omitempty"` // wins only if the predicates hold that cannot be evaluated
}

// WriteJSON prints the result for programs. It returns the writer's error.
func (v *View) WriteJSON(w io.Writer) error {
	res := &v.Result
	out := jsonMatch{
		Schema: Schema, Result: v.word(),
		Request: jsonRequest{
			Method: v.method(), URL: v.URL, Host: res.Host, Path: res.Path, From: v.Request.RemoteAddr, At: v.Request.Time,
		},
		Table:  jsonTable{v.Table, v.Routes, len(v.Refusals)},
		Answer: res.Answer, Outcomes: []jsonOutcome{}, Candidates: []jsonCandidate{}, Warnings: []jsonWarning{},
	}
	for _, o := range res.Outcomes {
		j := jsonOutcome{
			Route: v.newJSONRoute(o.Route), Place: o.Place, Weight: o.Weight, Params: o.Params, Undecided: o.Open,
			Ties: o.Ties, Notes: o.Notes,
		}
		if o.Share >= 0 {
			j.Share = &o.Share
		}
		out.Outcomes = append(out.Outcomes, j)
	}
	for _, c := range res.Candidates {
		out.Candidates = append(out.Candidates, jsonCandidate{
			Route: v.newJSONRoute(c.Route), Weight: c.Weight, Lost: c.Lost, Behind: c.Behind, Undecided: c.Open,
		})
	}
	for _, warning := range res.Warnings {
		out.Warnings = append(out.Warnings, jsonWarning{v.newJSONRoute(warning.Route), warning.Reason, warning.Text, warning.Ahead, warning.Partly})
	}
	return shadowdiff.WriteJSONValue(w, out, "  ")
}

func (v *View) word() string {
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

func (v *View) newJSONRoute(r *eskip.Route) *jsonRoute {
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
