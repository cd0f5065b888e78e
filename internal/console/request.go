package console

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/match/report"
)

// requestPage is the body of the page of a request.
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

// questionOf returns the parameters of /match. A form cannot repeat a field per line of a text area: each line of "headers" becomes
// a "header".
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

func stateOfMatch(v *report.View) stateView {
	switch res := &v.Result; {
	case res.Answer != nil:
		return stateView{"no route is asked", "●", neutral}
	case !res.Decided():
		return stateView{plural(len(res.Outcomes), "outcome") + " possible", "▲", notice}
	case res.Winner() == nil:
		return stateView{"no route", "✕", bad}
	}
	return stateView{"one route", "✓", good}
}

// ownersOf returns the objects of the routes that a request may reach.
func ownersOf(v *report.View) (owners []ownerLink) {
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
