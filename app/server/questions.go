package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Limits of questions that search the table: an answer costs some ten milliseconds of CPU, and proxies come first.
const (
	maxQuestions    = 2               // at the same time
	questionWait    = 5 * time.Second // for a free slot
	maxQuestionText = 8 << 10         // bytes of a query
)

// questions limits how many questions are answered concurrently.
type questions struct {
	turns    httpserve.Turns
	duration *prometheus.HistogramVec
}

func newQuestions(reg prometheus.Registerer) *questions {
	return &questions{turns: make(httpserve.Turns, maxQuestions), duration: series.In(reg).Histograms("routesrv_query_duration_seconds",
		"Time to answer /explain, /match and /takeovers.", "path", []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5})}
}

// limited answers 414 if the query is too long, and 503 if no slot becomes free in time.
func (q *questions) limited(path string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery) > maxQuestionText {
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
			return
		}
		done, ok := q.turns.Wait(r.Context(), questionWait)
		if !ok {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many questions at a time", http.StatusServiceUnavailable)
			return
		}
		defer done()
		start := time.Now()
		answer(w, r)
		q.duration.WithLabelValues(path).Observe(time.Since(start).Seconds())
	}
}

// answers returns a handler that answers with a value as JSON.
func answers(value func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { httpserve.WriteJSON(w, http.StatusOK, value()) })
}

// questionEndpoints returns /match and, unless the server is a relay, /explain and /takeovers.
func (s *Server) questionEndpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	all := []httpserve.Endpoint{{
		Path: api.PathMatch, Methods: get, Handler: s.questions.limited(api.PathMatch, s.serveMatch),
		Does: "which route a request reaches: `url=`, and as for [routesrv match](../debug/explain.md) `method=`, `header=` (may be " +
			"repeated), `from=`, `at=`, `normalize-host=`, `ignore-trailing-slash=`, `rfc-patch-path=`. Text or JSON; " +
			"404 if no route matches",
	}}
	if s.compiler == nil {
		return all
	}
	return append(all, httpserve.Endpoint{
		Path: api.PathExplain, Methods: get, Handler: s.questions.limited(api.PathExplain, s.serveExplain),
		Does: "what happened to an object: `kind=`, `namespace=` and `name=`, or `route=`, or `host=`, as for [routesrv explain](../debug/explain.md). " +
			"Text or JSON; 404 if it does not exist, and on a relay",
	}, s.takeoverEndpoint())
}

var errNoTable = errors.New("no table yet")

// serveMatch finds the route of a request in the served table. It caches nothing between two requests: even in a large table it
// parses only the routes that requests for one host can reach.
func (s *Server) serveMatch(w http.ResponseWriter, r *http.Request) {
	v, err := s.match(r.URL.Query())
	switch {
	case errors.Is(err, errNoTable):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	if !v.Matched() && len(v.Result.Outcomes) <= 1 && v.Result.Answer == nil {
		status = http.StatusNotFound
	}
	httpserve.WriteAnswer(w, r, status, v.WriteJSON, v.WriteText)
}

// match answers one question. The error is errNoTable, or names the invalid parameter.
func (s *Server) match(q url.Values) (*report.Report, error) {
	t := s.cache.Current()
	if t == nil {
		return nil, errNoTable
	}
	options := s.proxyOptions()
	request, err := report.ParseQuery(q, time.Now().UTC(), &options)
	if err != nil {
		return nil, err
	}
	routes, refusals := match.New(routesOf(t.Routes(), request.Host), options)
	return &report.Report{
		Request: request, URL: q.Get("url"), Table: "served", Routes: t.Len(), Refusals: refusals, Result: routes.Find(request),
		Owner: s.owners(),
	}, nil
}

// routesOf parses the routes that requests for a host can reach. It skips routes that do not parse: the compiler parsed every
// route back, so a table has none.
func routesOf(list table.List, host string) []*eskip.Route {
	var routes []*eskip.Route
	for r := range match.RoutesFor(list, host) {
		if parsed, err := eskip.Parse(r.Text); err == nil {
			routes = append(routes, parsed...)
		}
	}
	return routes
}

// proxyOptions returns the options of the proxies that the server's flags describe.
func (s *Server) proxyOptions() match.Options {
	o := s.cfg.Compile
	return match.Options{
		ValidateQuery: true, ForwardBackendURL: o.ForwardBackendURL, ExtraFilters: o.ExtraFilters, ExtraPredicates: o.ExtraPredicates,
		Zone: time.LoadLocation,
	}
}

// serveExplain explains what happened to an object, a route or a host.
func (s *Server) serveExplain(w http.ResponseWriter, r *http.Request) {
	query, err := explainQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e := s.explain(query)
	status := http.StatusOK
	if e.Result == explain.NotFound {
		status = http.StatusNotFound
	}
	httpserve.WriteAnswer(w, r, status, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(e)
	}, e.WriteText)
}

// explain answers a question.
func (s *Server) explain(query explain.Query) *explain.Explanation {
	since := make(map[string]time.Time)
	for _, p := range s.problems() {
		since[p.ID()] = p.Since
	}
	in := explain.Input{
		Result:    s.compiler.Latest(),
		Namespace: s.cfg.Selection.Namespace, Selectors: s.cfg.Selection.Selectors, Proxy: s.proxyOptions(),
		Classes: map[kube.Kind]string{kube.KindIngress: s.cfg.Compile.IngressClass, kube.KindRouteGroup: s.cfg.Compile.RouteGroupClass},
		Since:   func(id string) (time.Time, bool) { t, ok := since[id]; return t, ok },
	}
	if t := s.cache.Current(); t != nil {
		in.Served, in.HasServed = t.Routes(), true
	}
	in.Hold = s.hold(query)
	e := explain.Explain(in, query)
	s.addShares(e)
	return e
}

// hold returns the current hold, or nil. If the query names a kept object, the hold has the reason and the end of that object.
func (s *Server) hold(query explain.Query) *explain.Hold {
	served, g := s.publisher.Served(), s.publisher.Holding()
	if served == nil {
		return nil
	}
	h := &explain.Hold{
		Reason: string(g.Reason), Detail: g.Detail, Since: g.Since,
		Snapshot: served.Snapshot,
	}
	until, kept := g.ReleaseAt, false
	for _, k := range s.publisher.Kept() {
		if k.Ref == (kube.Ref{Kind: query.Kind, Namespace: query.Namespace, Name: query.Name}) {
			h.Reason, h.Detail, h.Since, until, kept = string(k.Reason), k.Detail, k.Since, k.Until, true
			h.By, h.Do = k.Keeper()
		}
	}
	if !g.Held && !kept {
		return nil
	}
	if !until.IsZero() {
		h.Until = &until
	}
	return h
}

// addShares adds how many clients have the routes. It does not query the peers: the share is this replica's.
func (s *Server) addShares(e *explain.Explanation) {
	for i := range e.Objects {
		o := &e.Objects[i]
		ids := o.Served()
		if len(ids) == 0 {
			continue
		}
		if holders, live := s.clients.Share(s.cache.Changed(ids)); live > 0 {
			o.Fleet = &explain.Share{Holders: holders, Clients: live}
		}
	}
}

// explainQuery reads the parameters, which name one of: an object, a route, a host.
func explainQuery(r *http.Request) (explain.Query, error) {
	q := r.URL.Query()
	if q.Has("route") || q.Has("host") {
		return explain.ParseQuery(q.Get("route") + q.Get("host"))
	}
	namespace := kube.NamespaceOrDefault(q.Get("namespace"))
	return explain.ParseQuery(q.Get("kind"), namespace+"/"+q.Get("name"))
}

// owners finds the objects of routes in the served table, in the held one, and in more snapshots, which may be nil. A relay knows only tables, so
// there the result is nil.
func (s *Server) owners(snapshots ...*kube.Snapshot) shadowdiff.OwnerFunc {
	if s.compiler == nil {
		return nil
	}
	snapshots = slices.DeleteFunc(snapshots, func(one *kube.Snapshot) bool { return one == nil })
	view := s.publisher.Tables()
	if view.Served != nil {
		snapshots = append(snapshots, view.Served.Snapshot)
	}
	if view.Held != nil {
		snapshots = append(snapshots, view.Held.Snapshot)
	}
	var inspect func(kube.Ref) (compile.Inspection, bool)
	if newest := s.compiler.Latest(); newest != nil {
		inspect = newest.Inspect
	}
	return explain.OwnerFunc(inspect, snapshots...)
}
