package httpserve

import (
	"net/http"
	"net/http/pprof"
	"strings"
)

// Names of the listeners, as the reference documents spell them.
const (
	MainListener    = "main"
	SupportListener = "support"
	ControlListener = "control" // the socket in the state folder: see [ListenControl]
)

// Endpoint is one path that a listener answers. A listener is built from a list of endpoints, and its part of docs/reference/endpoints.md
// from the same list, so the document always matches.
type Endpoint struct {
	// Listener is [MainListener], [SupportListener] or [ControlListener].
	Listener string
	// Path is a pattern of [http.ServeMux]: {x} stands for one segment, a trailing slash for everything below.
	Path string
	// Methods lists the allowed methods; others get 405. nil allows all. Name HEAD in addition to GET, unless ChecksMethods is
	// set.
	Methods []string
	// Does describes the answer: one sentence in Markdown without a full stop.
	Does string
	// Condition says when the endpoint exists, in the operator's words, as in "with `-enable-profile`"; empty means always. It is
	// for the document only: the caller leaves endpoints that do not exist out of the list.
	Condition string
	// ChecksMethods is set for a handler that answers wrong methods itself. Otherwise [Mux] does that.
	ChecksMethods bool
	// MaxBody is the limit of a request's body in bytes. With 0 the endpoint takes none. An endpoint with a body has a Path without
	// wildcards and names its Methods.
	MaxBody int64
	Handler http.Handler
}

// Mux returns a mux that answers the endpoints of one listener. Other paths get 404, wrong methods 405. It panics if two
// endpoints conflict or one is incomplete, which is a mistake in the list.
func Mux(listener string, endpoints []Endpoint) *http.ServeMux {
	mux := http.NewServeMux()
	for _, e := range endpoints {
		if e.Listener != listener {
			continue
		}
		if e.Does == "" || strings.HasSuffix(e.Does, ".") {
			panic("httpserve: endpoint " + e.Path + " has no sentence, or one with a full stop")
		}
		if e.Methods == nil || e.ChecksMethods {
			mux.Handle(e.Path, e.Handler)
			continue
		}
		for _, m := range e.Methods {
			if m != http.MethodHead { // GET includes HEAD
				mux.Handle(m+" "+e.Path, e.Handler)
			}
		}
	}
	return mux
}

// Probes returns the endpoints for probes under the names that Kubernetes uses: /livez answers 204 as long as the process answers, and /readyz as
// the handler ready.
func Probes(ready http.Handler) []Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []Endpoint{
		{Path: "/livez", Methods: get, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			Does: "liveness probe: 204, with or without a table"},
		{Path: "/readyz", Methods: get, Handler: ready, Does: "readiness probe: as `/health`"},
	}
}

// Profiles returns the endpoints of package net/http/pprof below /debug/pprof/, for a support listener with -enable-profile.
func Profiles() []Endpoint {
	var all []Endpoint
	for _, p := range []struct {
		name, does string
		handler    http.HandlerFunc
	}{
		{"", "the list of profiles; `cmdline`, `profile` (CPU, for `seconds=`), `symbol`, `trace` (for `seconds=`) and others below it", pprof.Index},
		{"cmdline", "the command line, with NUL bytes between the arguments", pprof.Cmdline},
		{"profile", "a CPU profile, for `seconds=` (30)", pprof.Profile},
		{"symbol", "function names by address", pprof.Symbol},
		{"trace", "a runtime trace, for `seconds=` (1)", pprof.Trace},
	} {
		all = append(all, Endpoint{
			Path: "/debug/pprof/" + p.name, Handler: p.handler, Does: p.does, Condition: "with `-enable-profile`",
		})
	}
	return all
}
