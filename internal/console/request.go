package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
)

// Limits of the page of a request.
const (
	maxOutcomes     = 10
	maxCandidates   = 8
	maxWarnings     = 10
	maxReasonsShown = 8
)

// requestPage is the body of the page of a request.
type requestPage struct {
	URL, Method, Headers, From, At string // values of the form
	Asked                          bool
	Error                          string
	Sign, Tone, Word               string
	Text                           string
	Host, Path                     string
	Table                          string
	Outcomes                       []outcomeView
	MoreOutcomes                   int
	Candidates                     []candidateView
	Warnings                       []warningView
	JSON                           string
}

type matchedRoute struct {
	ID, Predicates, Filters, Backend string
	Owner                            ownerLink
}

type outcomeView struct {
	Route  *matchedRoute // nil if no route matches
	Share  string
	Place  string
	Weight int
	Params []string
	If     []string
	Ties   []string
	Notes  []string
}

type candidateView struct {
	Route   matchedRoute
	Weight  int
	Reasons []string
}

type warningView struct {
	Route        matchedRoute
	Effect, Text string
}

func (c *Console) request(ctx context.Context, r *http.Request) (answer, error) {
	q := r.URL.Query()
	b := requestPage{
		URL: text(q.Get("url")), Method: cut(q.Get("method"), 40), From: cut(q.Get("from"), 60), At: cut(q.Get("at"), 60), Asked: q.Get("url") != "",
	}
	// A form cannot repeat a field per line of a text area: each line of "headers" becomes a "header".
	asked := maps.Clone(q)
	for line := range strings.Lines(q.Get("headers")) {
		if line = strings.TrimSpace(line); line != "" {
			asked.Add("header", line)
		}
	}
	asked.Del("headers")
	for _, name := range []string{"method", "from", "at"} {
		if asked.Get(name) == "" {
			asked.Del(name)
		}
	}
	lines := make([]string, 0, len(asked["header"]))
	for _, h := range asked["header"] {
		lines = append(lines, text(h))
	}
	b.Headers = strings.Join(lines, "\n")
	a := answer{Title: "request"}
	if !b.Asked || c.cfg.Match == nil {
		a.Body = b
		return a, nil
	}
	v, err := c.cfg.Match(ctx, asked)
	switch {
	case errors.Is(err, ErrBusy):
		return a, err
	case errors.Is(err, ErrNoTable):
		a.Status, b.Error = http.StatusServiceUnavailable, text(err.Error())
	case err != nil:
		a.Status, b.Error = http.StatusBadRequest, text(err.Error())
	default:
		b.JSON = "match?" + withFormat(asked)
		b.add(v)
		a.Title, a.Live = b.Sign+" "+cut(b.URL, 100), true
	}
	a.Body = b
	return a, nil
}

func (b *requestPage) add(v *report.View) {
	res := &v.Result
	b.Host, b.Path, b.Table = cut(res.Host, 300), cut(res.Path, 600), thousands(v.Routes)+" routes"
	if res.Answer != nil {
		b.Sign, b.Tone, b.Word = "●", neutral, fmt.Sprintf("the proxy answers %d", res.Answer.Status)
		b.Text = text(res.Answer.Text)
		return
	}
	switch {
	case !res.Decided():
		b.Sign, b.Tone, b.Word = "▲", notice, plural(len(res.Outcomes), "outcome")+" possible"
		b.Text = "The choice depends on something that only a proxy knows, or on chance."
	case res.Winner() == nil:
		b.Sign, b.Tone, b.Word, b.Text = "✕", bad, "no route", "The proxy answers 404."
	default:
		b.Sign, b.Tone, b.Word, b.Text = "✓", good, "one route", "Every such request takes it."
	}
	for i, o := range res.Outcomes {
		if o.Route == nil && res.Decided() {
			break // already shown
		}
		if i == maxOutcomes {
			b.MoreOutcomes = len(res.Outcomes) - i
			break
		}
		b.Outcomes = append(b.Outcomes, newOutcome(v, o))
	}
	for _, c := range res.Candidates[:min(maxCandidates, len(res.Candidates))] {
		view := candidateView{Route: newMatchedRoute(v, c.Route), Weight: c.Weight}
		if c.Behind != "" {
			view.Reasons = append(view.Reasons, "matches, but ranks lower: "+string(c.Behind))
		}
		for _, l := range c.Lost {
			view.Reasons = append(view.Reasons, "does not hold: "+cut(l, 300))
		}
		view.Reasons = append(view.Reasons, conditions(c.Open)...)
		view.Reasons = view.Reasons[:min(maxReasonsShown, len(view.Reasons))]
		b.Candidates = append(b.Candidates, view)
	}
	for _, w := range res.Warnings[:min(maxWarnings, len(res.Warnings))] {
		effect := "would match, behind the route above"
		switch {
		case w.Partly:
			effect = "might match"
		case w.Ahead:
			effect = "would win"
		}
		b.Warnings = append(b.Warnings, warningView{newMatchedRoute(v, w.Route), effect, text(string(w.Reason) + ": " + w.Text)})
	}
}

func newOutcome(of *report.View, o match.Outcome) outcomeView {
	decided := of.Result.Decided()
	v := outcomeView{Place: cut(cmp.Or(o.Place, "no path predicate"), 300), Weight: o.Weight, If: conditions(o.Open)}
	if !decided {
		v.Share = "a share that nobody can know"
		if o.Share >= 0 {
			v.Share = fmt.Sprintf("%.4g\u00a0%% of such requests", 100*o.Share)
		}
	}
	if o.Route != nil {
		route := newMatchedRoute(of, o.Route)
		v.Route = &route
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		v.Params = append(v.Params, cut(name+" = "+o.Params[name], 300))
	}
	for _, id := range o.Ties[:min(maxReasonsShown, len(o.Ties))] {
		v.Ties = append(v.Ties, cut(id, 300))
	}
	for _, n := range o.Notes[:min(maxReasonsShown, len(o.Notes))] {
		v.Notes = append(v.Notes, text(n))
	}
	return v
}

// conditions lists what is undecided.
func conditions(open []match.Undecided) []string {
	var all []string
	for _, u := range open[:min(maxReasonsShown, len(open))] {
		all = append(all, "if "+cut(u.Predicate, 300)+": "+cut(u.Why, 300))
	}
	return all
}

func newMatchedRoute(v *report.View, r *eskip.Route) matchedRoute {
	predicates, filters, backend := report.Expression(r)
	owner := v.Owner.Of(r.Id)
	link := ownerLink{Name: cut(owner.String(), 300)}
	if owner.Namespace != "" {
		link.Link = routeLink(r.Id)
	}
	return matchedRoute{
		cut(r.Id, 300), cut(predicates, 800), cut(filters, 800), cut(backend, 800),
		link,
	}
}
