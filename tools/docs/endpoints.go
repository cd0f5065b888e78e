package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/httpserve"
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
	for binary, endpoints := range map[string][]httpserve.Endpoint{"routesrv": srv.Endpoints(), "dataplane-client": side.Endpoints()} {
		for _, listener := range []string{httpserve.MainListener, httpserve.SupportListener, httpserve.ControlListener} {
			parts["endpoints "+binary+" "+listener] = endpointTable(endpoints, listener)
		}
	}
	return parts, nil
}

func endpointTable(endpoints []httpserve.Endpoint, listener string) string {
	var b strings.Builder
	b.WriteString("| path | methods | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		if e.Listener != listener || strings.HasPrefix(e.Path, "/debug/pprof/") && e.Path != "/debug/pprof/" {
			continue // the list of profiles has the others
		}
		methods := "any"
		if e.Methods != nil {
			methods = cmp.Or(strings.Join(e.Methods, ", "), "none")
		}
		if methods == "GET, HEAD" {
			methods = ""
		}
		does := e.Does
		if e.Condition != "" {
			does += " (" + e.Condition + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimSuffix(e.Path, "{$}"), methods, strings.ReplaceAll(does, "|", "\\|"))
	}
	return b.String()
}
