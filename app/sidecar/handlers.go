package sidecar

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/publish"
)

// Handler returns the handler for the proxy: /routes, /routes/{zone}, /health and /fresh.
func (s *Sidecar) Handler() http.Handler { return httpserve.Mux(httpserve.MainListener, s.endpoints) }

// SupportHandler returns the handler for operators, probes and Prometheus.
func (s *Sidecar) SupportHandler() http.Handler {
	return httpserve.Mux(httpserve.SupportListener, s.endpoints)
}

// ControlHandler returns the handler of the control socket: what operators in the pod may ask.
func (s *Sidecar) ControlHandler() http.Handler {
	return httpserve.Control(s.endpoints, s.SupportHandler())
}

// Endpoints returns what the listeners answer, in the order of the documentation.
func (s *Sidecar) Endpoints() []httpserve.Endpoint { return slices.Clone(s.endpoints) }

// acceptCommand accepts a held table, in the pod.
const acceptCommand = "dataplane-client accept"

func (s *Sidecar) newEndpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	routes := s.routes()
	health := httpserve.Endpoint{Path: "/health", Handler: http.HandlerFunc(s.serveHealth),
		Does: "503 before the first table, 204 after it"}
	fresh := httpserve.Endpoint{Path: "/fresh", Methods: get, Handler: http.HandlerFunc(s.serveFresh),
		Does: "200 if the source of the table was read within `--timing=fresh-limit`, else 503; JSON with the age and the reason"}
	main := []httpserve.Endpoint{
		{Path: "/routes", Methods: get, ChecksMethods: true, Handler: routes,
			Does: "the table of the current mode, as `routesrv` serves it; during the boot, requests wait until it has " +
				"decided what to serve"},
		{Path: "/routes/{zone}", Methods: get, ChecksMethods: true, Handler: routes, Does: "the table for proxies of one zone"},
		health, fresh,
	}
	open := append(httpserve.Probes(health.Handler), health, fresh)
	open = append(open, httpserve.Endpoint{Path: "/metrics", Methods: get, Handler: http.HandlerFunc(s.serveMetrics),
		Does: "Prometheus text, see [metrics.md](metrics.md)"})
	forOperators := []httpserve.Endpoint{
		{Path: "/status", Methods: get, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { httpserve.WriteJSON(w, http.StatusOK, s.status()) }),
			Does: "JSON: mode, reason of a refused mode, origin, table, both producers, cutover check, fallback"},
		{Path: "/problems", Methods: get, Handler: http.HandlerFunc(s.serveProblems),
			Does: "JSON: problems of the self-computed table"},
		{Path: "/shadow", Methods: get, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpserve.WriteComparison(w, r, s.controller.shadowView(), nil)
		}),
			Does: "the comparison of mode Pre, as text or JSON"},
		{Path: "/guard/held", Methods: get, Handler: httpserve.HeldPage(s.controller.held, acceptCommand),
			Does: "how the held table differs from the one that it was compared with: as above"},
	}
	if s.cfg.EnableProfile {
		forOperators = append(forOperators, httpserve.Profiles())
	}
	for i := range forOperators {
		forOperators[i].Handler = httpserve.InPod(s.cfg.SupportLoopbackOnly, "dataplane-client get", forOperators[i].Handler)
	}
	support := append(open, forOperators...)
	for i := range main {
		main[i].Listener = httpserve.MainListener
	}
	for i := range support {
		support[i].Listener = httpserve.SupportListener
	}
	return append(slices.Concat(main, support), httpserve.AcceptEndpoint(s.controller.accept, s.log))
}

// held returns a held table, in the same order of precedence as accept.
func (c *controller) held() (held httpserve.Held, ok bool) {
	c.call(func() {
		if p := c.served.Pending(); p != nil && p.Guard.Held {
			held, ok = httpserve.Held{Served: c.served.Table(), Table: p.Table, State: p.Guard.Guard}, true
		}
	})
	var publishers []*publish.Publisher
	if p := c.selfNow.Load(); p != nil {
		publishers = append(publishers, p.publisher)
	}
	if p := c.remoteNow.Load(); p != nil {
		publishers = append(publishers, p.client.Publisher())
	}
	for _, g := range publishers {
		if ok {
			break
		}
		served, table, state := g.Comparison()
		held, ok = httpserve.Held{Served: served, Table: table, State: state.Guard}, table != nil && state.Held
	}
	held.Owner = c.owners()
	return held, ok
}

func (s *Sidecar) serveMetrics(w http.ResponseWriter, r *http.Request) {
	all := prometheus.Gatherers{s.registry}
	if p := s.controller.selfNow.Load(); p != nil {
		all = append(all, p.registry)
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// routes returns the handler for tables. It waits for the first table, because a proxy that gets 404 while it starts gives up, and
// reads the metrics of the proxy first: one that crashed because of the served table does not get it again.
func (s *Sidecar) routes() http.Handler {
	next := s.cache.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.controller.booted:
		case <-r.Context().Done():
		}
		if s.watch != nil {
			s.watch.fresh(r.Context(), r.Header.Get(api.HeaderIfNoneMatch) != "")
		}
		next.ServeHTTP(w, r)
	})
}

// serveHealth answers whether there is a table. Once there is, the answer stays positive.
func (s *Sidecar) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.cache.Current() == nil {
		http.Error(w, "there is no table yet", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveFresh answers whether the source was read recently: for alerts, not for probes, since an old table is better than none.
func (s *Sidecar) serveFresh(w http.ResponseWriter, _ *http.Request) {
	r := s.fresh()
	status := http.StatusOK
	if !r.Fresh {
		status = http.StatusServiceUnavailable
	}
	httpserve.WriteJSON(w, status, r)
}

func (s *Sidecar) serveProblems(w http.ResponseWriter, _ *http.Request) {
	problems := []api.Problem{}
	if p := s.controller.selfNow.Load(); p != nil {
		for _, problem := range p.compiler.Problems() {
			problems = append(problems, problem.Report())
		}
	}
	httpserve.WriteJSON(w, http.StatusOK, api.Problems{Count: len(problems), Problems: problems})
}
