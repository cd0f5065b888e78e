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
)

// maxObjects is how many of the explained objects have a link of their own.
const maxObjects = 5

// objectPage is the body of the page of an object, a host or a route.
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

// objectQuery reads the parameters: a name with kind and namespace, or a host, or a route.
func objectQuery(q url.Values) (explain.Query, error) {
	switch {
	case q.Get("name") != "":
		namespace := kube.NamespaceOrDefault(q.Get("namespace"))
		if strings.Contains(namespace, "/") {
			return explain.Query{}, errors.New("namespace: want a name without a slash")
		}
		return explain.ParseQuery(q.Get("kind"), namespace+"/"+q.Get("name"))
	case q.Get("host") != "": // or the id of a route: the form has one field for both
		return explain.ParseQuery(strings.TrimSpace(q.Get("host")))
	}
	return explain.ParseQuery(q.Get("route"))
}

func linkTo(r kube.Ref) ownerLink {
	return ownerLink{cut(r.String(), 300), objectLink(string(r.Kind), r.Namespace, r.Name)}
}
