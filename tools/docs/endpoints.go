package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/httpserve"
)

// endpointParts returns the tables of endpoints, one for each listener of each binary.
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
		parts["endpoints routesrv "+listener] = endpointTable(srv.Endpoints(), nil, listener)
		parts["endpoints dataplane-client "+listener] = endpointTable(side.Endpoints(), srv.Endpoints(), listener)
	}
	return parts, nil
}

// endpointTable lists the endpoints of a listener. Where one answers as one of those above, with the same path, the table says so.
func endpointTable(endpoints, above []httpserve.Endpoint, listener string) string {
	var b strings.Builder
	b.WriteString("| path | methods | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		if e.Listener != listener || e.Path != "/debug/pprof/" && strings.HasPrefix(e.Path, "/debug/pprof/") {
			continue // the list of profiles says how to get each
		}
		methods := "any"
		if e.Methods != nil {
			methods = cmp.Or(strings.Join(e.Methods, ", "), "none")
		}
		does := e.Does
		if slices.ContainsFunc(above, func(o httpserve.Endpoint) bool { return o.Listener == listener && o.Path == e.Path && o.Does == does }) {
			does = "as above"
		}
		if e.Condition != "" {
			does += " (" + e.Condition + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimSuffix(e.Path, "{$}"), methods, strings.ReplaceAll(does, "|", "\\|"))
	}
	return b.String()
}
