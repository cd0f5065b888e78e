package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/httpserve"
)

// endpointParts returns the lists of endpoints, one for each listener of each binary.
func endpointParts() (map[string]string, error) {
	srv, err := documentedServer(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	side, err := documentedSidecar(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	parts := make(map[string]string)
	for _, listener := range []string{httpserve.MainListener, httpserve.SupportListener, httpserve.ControlListener} {
		parts["endpoints routesrv "+listener] = endpointList(srv.Endpoints(), nil, listener)
		parts["endpoints dataplane-client "+listener] = endpointList(side.Endpoints(), srv.Endpoints(), listener)
	}
	return parts, nil
}

// endpointList lists the endpoints of a listener; without methods, they take GET and HEAD. Where one answers like the endpoint above with the same path,
// the list refers to that.
func endpointList(endpoints, above []httpserve.Endpoint, listener string) string {
	var b strings.Builder
	for _, e := range endpoints {
		if e.Listener != listener || e.Path != "/debug/pprof/" && strings.HasPrefix(e.Path, "/debug/pprof/") {
			continue // the list of profiles says how to get each
		}
		methods := " (any method)"
		switch {
		case e.Methods != nil && len(e.Methods) == 0:
			methods = " (no method)"
		case slices.Equal(e.Methods, []string{http.MethodGet, http.MethodHead}):
			methods = ""
		case e.Methods != nil:
			methods = " (" + strings.Join(e.Methods, ", ") + ")"
		}
		does := e.Does
		if slices.ContainsFunc(above, func(o httpserve.Endpoint) bool { return o.Listener == listener && o.Path == e.Path && o.Does == does }) {
			does = "as above"
		}
		if e.Condition != "" {
			does += " (" + e.Condition + ")"
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", strings.TrimSuffix(e.Path, "{$}"), methods, does)
	}
	return b.String()
}
