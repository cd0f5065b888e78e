package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
)

// Limits of the page of an object. An explanation has its own, wider limits.
const (
	maxObjects        = 5
	maxObjectRoutes   = 50
	maxObjectRequests = 20
	maxObjectHosts    = 30
	maxObjectServices = 30
	maxOthers         = 5
)

// objectPage is the body of the page of an object, a host or a route.
type objectPage struct {
	Relay                           bool
	Kind, Namespace, Name, Host, ID string // the query, for the forms
	Asked                           bool
	Error                           string
	What                            string
	Sign, Tone, Word                string
	Cause, Advice                   string
	Objects                         []objectView
	More                            int
	JSON                            string
}

type objectView struct {
	Owner     string
	Link      string
	Selected  bool
	Selection string
	Changed   string
	Created   moment
	Fleet     string // how many clients have its routes; empty if unknown
	Problems  []problemRow
	Routes    []routeRow
	MoreR     int
	Services  []serviceRow
	MoreS     int
	Hosts     []hostRow
	MoreH     int
	Requests  []requestRow
	MoreQ     int
}

type routeRow struct {
	ID, Predicates, Filters, Backend string
	State                            stateView
	Why                              string
	Companion                        bool
}

type serviceRow struct {
	Name, Type, Ports, Zones string
	Exists                   bool
	Ready, NotReady          int
}

type hostRow struct {
	Host, Link string
	Others     []ownerLink
	More       int
}

type ownerLink struct{ Name, Link string }

type requestRow struct {
	Method, URL, Link string
	State             stateView
	Owner             ownerLink
	Winner, Why       string
}

var results = map[string]stateView{
	"fine": {"fine", "✓", good}, "info": {"info", "●", neutral}, "warning": {"warning", "▲", notice}, "error": {"error", "✕", bad},
	explain.NotFound: {"not found", "○", neutral},
}

var routeStates = map[string]stateView{
	explain.StateServed: {"served", "✓", good}, explain.StateWaiting: {"waiting", "▲", notice},
	explain.StateLeftOut: {"left out", "✕", bad}, explain.StateRefused: {"refused", "✕", bad},
}

var requestStates = map[string]stateView{
	"own": {"this object", "✓", good}, "other": {"another object", "✕", bad}, "shared": {"by chance", "▲", notice},
	"none": {"no route", "✕", bad}, "loop": {"loop", "✕", bad},
}

func (c *Console) object(ctx context.Context, r *http.Request) (answer, error) {
	q := r.URL.Query()
	b := objectPage{
		Kind: text(q.Get("kind")), Namespace: text(q.Get("namespace")), Name: text(q.Get("name")), Host: text(q.Get("host")), ID: text(q.Get("route")),
		Asked: q.Get("name")+q.Get("host")+q.Get("route") != "", Relay: c.cfg.Explain == nil,
	}
	a := answer{Title: "object", Live: b.Asked}
	if b.Relay || !b.Asked {
		a.Body, a.Live = b, false
		return a, nil
	}
	query, err := objectQuery(q)
	if err != nil {
		b.Error = text(err.Error())
		a.Status, a.Body, a.Live = http.StatusBadRequest, b, false
		return a, nil
	}
	e, err := c.cfg.Explain(ctx, query)
	if err != nil {
		return a, err
	}
	now := time.Now()
	b.What, b.Cause, b.Advice = cut(query.String(), 300), text(e.Cause), text(e.Advice)
	state := results[e.Result]
	b.Sign, b.Tone, b.Word = state.Sign, state.Tone, state.Word
	b.JSON = "explain?" + withFormat(q)
	for i := range e.Objects {
		if i == maxObjects {
			break
		}
		b.Objects = append(b.Objects, newObjectView(&e.Objects[i], now))
	}
	b.More = max(e.Total-len(b.Objects), 0)
	if e.Result == explain.NotFound {
		a.Status = http.StatusNotFound
	}
	a.Title, a.Body = state.Sign+" "+b.What, b
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
		namespace := q.Get("namespace")
		if namespace == "" {
			namespace = "default"
		}
		if strings.Contains(namespace, "/") {
			return explain.Query{}, errors.New("namespace: want a name without a slash")
		}
		return explain.ParseQuery(q.Get("kind"), namespace+"/"+q.Get("name"))
	case q.Get("host") != "": // or the id of a route: the form has one field for both
		return explain.ParseQuery(strings.TrimSpace(q.Get("host")))
	}
	return explain.ParseQuery(q.Get("route"))
}

func newObjectView(o *explain.Object, now time.Time) objectView {
	v := objectView{
		Owner: cut(o.Owner.String(), 400), Selected: o.Selected, Selection: text(o.Selection), Changed: text(o.Changed), Created: newMoment(time.Time{}, now),
		Link: objectLink(string(o.Owner.Kind), o.Owner.Namespace, o.Owner.Name),
	}
	if o.Created != nil {
		v.Created = newMoment(*o.Created, now)
	}
	if f := o.Fleet; f != nil {
		v.Fleet = thousands(f.Holders) + " of " + plural(f.Clients, "client")
	}
	for i, p := range o.Problems {
		if i == maxProblems {
			break
		}
		s := severities[p.Severity]
		row := problemRow{
			ID: p.ID, Sign: s.sign, Severity: p.Severity.String(), Tone: s.tone, Route: cut(p.Route, 300), Reason: string(p.Reason), Text: sentence(p),
		}
		if p.Since != nil {
			row.Since = newMoment(*p.Since, now)
		}
		v.Problems = append(v.Problems, row)
	}
	v.addRoutes(o)
	for i, s := range o.Services {
		if i == maxObjectServices {
			v.MoreS = len(o.Services) - i
			break
		}
		var ports, zones []string
		for _, p := range s.Ports {
			ports = append(ports, cut(p, 60))
		}
		for _, z := range slices.Sorted(maps.Keys(s.Zones)) {
			if z != "" && len(zones) < maxZones {
				zones = append(zones, cut(z, 60)+": "+strconv.Itoa(s.Zones[z]))
			}
		}
		v.Services = append(v.Services, serviceRow{
			cut(s.Namespace+"/"+s.Name, 300), text(s.Type), cut(strings.Join(ports, ", "), 300), strings.Join(zones, ", "), s.Exists, s.Ready, s.NotReady,
		})
	}
	for i, h := range o.Hosts {
		if i == maxObjectHosts {
			v.MoreH = len(o.Hosts) - i
			break
		}
		row := hostRow{Host: cut(h.Host, 253), Link: "object?" + url.Values{"host": {h.Host}}.Encode()}
		for _, other := range h.Others[:min(maxOthers, len(h.Others))] {
			row.Others = append(row.Others, linkTo(other))
		}
		row.More = len(h.Others) - len(row.Others)
		v.Hosts = append(v.Hosts, row)
	}
	for i, r := range o.Requests {
		if i == maxObjectRequests {
			v.MoreQ = len(o.Requests) - i
			break
		}
		row := requestRow{
			Method: cut(r.Method, 20), URL: cut(r.URL, 300), Link: "request?" + url.Values{"method": {r.Method}, "url": {r.URL}}.Encode(),
			State: requestStates[r.Result], Winner: cut(r.Winner, 300), Why: text(r.Why),
		}
		if r.Result != "own" && r.Owner != (kube.Ref{}) {
			row.Owner = linkTo(r.Owner)
		}
		v.Requests = append(v.Requests, row)
	}
	return v
}

// sentence says what is wrong and what to do.
func sentence(p explain.Problem) string {
	s := text(p.What) + "."
	if p.Do != "" {
		s += " " + text(p.Do)
	}
	return s
}

func linkTo(r kube.Ref) ownerLink {
	return ownerLink{cut(r.String(), 300), objectLink(string(r.Kind), r.Namespace, r.Name)}
}

// addRoutes lists the routes, unserved ones first.
func (v *objectView) addRoutes(o *explain.Object) {
	rank := func(r explain.Route) int {
		return slices.Index([]string{explain.StateLeftOut, explain.StateRefused, explain.StateWaiting, explain.StateServed}, r.State)
	}
	routes := slices.Clone(o.Routes)
	slices.SortStableFunc(routes, func(a, b explain.Route) int { return rank(a) - rank(b) })
	for _, r := range routes[:min(maxObjectRoutes, len(routes))] {
		v.Routes = append(v.Routes, routeRow{
			cut(r.ID, 300), cut(r.Predicates, 600), cut(r.Filters, 600), cut(r.Backend, 600), routeStates[r.State], text(r.Why), !r.Main,
		})
	}
	v.MoreR = max(o.TotalRoutes, len(o.Routes)) - len(v.Routes)
}
