package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

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
	writeAnswer(w, r, status, func(b *bytes.Buffer) error {
		encoder := json.NewEncoder(b)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(e)
	}, func(b *bytes.Buffer) error { return e.WriteText(b) })
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
	served, g := s.publisher.Served(), s.publisher.State()
	if served == nil {
		return nil
	}
	h := &explain.Hold{
		Reason: string(g.Reason), Detail: g.Detail, Since: g.Since,
		Snapshot: served.Snapshot, Options: s.cfg.Compile,
	}
	until, kept := g.ReleaseAt, false
	for _, k := range s.publisher.Kept() {
		if k.Ref == (kube.Ref{Kind: query.Kind, Namespace: query.Namespace, Name: query.Name}) {
			h.Reason, h.Detail, h.Since, until, kept = string(k.Reason), k.Detail, k.Since, k.Until, true
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

// addShares adds how many clients have the routes. It does not ask the peers: the share is the one of this replica.
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
	view := s.publisher.View()
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
