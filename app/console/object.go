package console

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match/report"
)

// maxObjects limits the links to explained objects.
const maxObjects = 5

type objectPage struct {
	Relay                           bool
	Kind, Namespace, Name, Host, ID string // the query, for the forms
	Error                           string
	State                           stateView
	What                            string
	Objects                         []ownerLink
	Text                            string // the answer, as the command prints it
	JSON                            string
}

type ownerLink struct{ Name, Link string }

var results = map[string]stateView{
	"fine": {"fine", "✓", good}, "info": {"info", "●", neutral}, "warning": {"warning", "▲", notice}, "error": {"error", "✕", bad},
	explain.NotFound: {"not found", "○", neutral},
}

func (c *Console) object(ctx context.Context, r *http.Request) (answer, error) {
	q := r.URL.Query()
	b := objectPage{
		Kind: text(q.Get("kind")), Namespace: text(q.Get("namespace")), Name: text(q.Get("name")), Host: text(q.Get("host")), ID: text(q.Get("route")),
		Relay: c.cfg.Explain == nil,
	}
	a := answer{Title: "object"}
	if b.Relay || q.Get("name")+q.Get("host")+q.Get("route") == "" {
		a.Body = b
		return a, nil
	}
	query, err := objectQuery(q)
	if err != nil {
		b.Error = text(err.Error())
		a.Status, a.Body = http.StatusBadRequest, b
		return a, nil
	}
	e, err := c.cfg.Explain(ctx, query)
	if err != nil {
		return a, err
	}
	var shown bytes.Buffer
	if err := e.WriteText(&shown); err != nil {
		return a, err
	}
	b.State, b.What, b.Text, b.JSON = results[e.Result], cut(query.String(), 300), shown.String(), "explain?"+withFormat(q)
	for _, o := range e.Objects[:min(len(e.Objects), maxObjects)] {
		b.Objects = append(b.Objects, linkTo(o.Owner))
	}
	if e.Result == explain.NotFound {
		a.Status = http.StatusNotFound
	}
	a.Title, a.Body, a.Live = b.State.Sign+" "+b.What, b, true
	return a, nil
}

// withFormat returns the query for the same answer as JSON.
func withFormat(q url.Values) string {
	all := maps.Clone(q)
	all.Set("format", "json")
	return all.Encode()
}

func objectQuery(q url.Values) (explain.Query, error) {
	switch {
	case q.Get("name") != "":
		namespace := kube.NamespaceOrDefault(q.Get("namespace"))
		if strings.Contains(namespace, "/") {
			return explain.Query{}, errors.New("namespace: must be a name without a slash")
		}
		return explain.ParseQuery(q.Get("kind"), namespace+"/"+q.Get("name"))
	case q.Get("host") != "": // or the id of a route: the form has one field for both
		return explain.ParseQuery(strings.TrimSpace(q.Get("host")))
	}
	return explain.ParseQuery(q.Get("route"))
}

// linkTo returns an object with its page, which only kinds have that can be explained.
func linkTo(r kube.Ref) ownerLink {
	o := ownerLink{Name: cut(r.String(), 300)}
	if (r.Kind == kube.KindIngress || r.Kind == kube.KindRouteGroup) && r.Name != "" {
		o.Link = "object?" + url.Values{"kind": {string(r.Kind)}, "namespace": {r.Namespace}, "name": {r.Name}}.Encode()
	}
	return o
}

type requestPage struct {
	URL, Method, Headers, From, At string // values of the form
	Error                          string
	State                          stateView
	Owners                         []ownerLink // of the routes that it may reach
	Text                           string      // the answer, as the command prints it
	JSON                           string
}

func (c *Console) request(ctx context.Context, r *http.Request) (answer, error) {
	q := r.URL.Query()
	asked, headers := questionOf(q)
	b := requestPage{
		URL: text(q.Get("url")), Method: cut(q.Get("method"), 40), From: cut(q.Get("from"), 60), At: cut(q.Get("at"), 60), Headers: headers,
	}
	a := answer{Title: "request"}
	if q.Get("url") == "" || c.cfg.Match == nil {
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
		var shown bytes.Buffer
		if err := v.WriteText(&shown); err != nil {
			return a, err
		}
		b.State, b.Owners, b.Text, b.JSON = stateOfMatch(v), ownersOf(v), shown.String(), "match?"+withFormat(asked)
		a.Title, a.Live = b.State.Sign+" "+cut(b.URL, 100), true
	}
	a.Body = b
	return a, nil
}

// questionOf returns the parameters of /match. A form cannot repeat a field per line of a text area: each line of "headers"
// becomes a "header".
func questionOf(q url.Values) (asked url.Values, headers string) {
	asked = maps.Clone(q)
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
	return asked, strings.Join(lines, "\n")
}

func stateOfMatch(v *report.Report) stateView {
	switch res := &v.Result; {
	case res.Answer != nil:
		return stateView{"answered before routing", "●", neutral}
	case !res.Decided():
		return stateView{plural(len(res.Outcomes), "outcome") + " possible", "▲", notice}
	case res.Winner() == nil:
		return stateView{"no route", "✕", bad}
	}
	return stateView{"one route", "✓", good}
}

func ownersOf(v *report.Report) (owners []ownerLink) {
	for _, o := range v.Result.Outcomes[:min(len(v.Result.Outcomes), maxObjects)] {
		if o.Route == nil {
			continue
		}
		if owner := v.Owner.Of(o.Route.Id); owner.Namespace != "" {
			owners = append(owners, ownerLink{cut(owner.String(), 300), routeLink(o.Route.Id)})
		}
	}
	return owners
}
