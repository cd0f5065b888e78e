package main

import (
	"cmp"
	"fmt"
	"slices"
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
			var known []httpserve.Endpoint
			if binary == "dataplane-client" {
				known = srv.Endpoints()
			}
			parts["endpoints "+binary+" "+listener] = endpointTable(endpoints, known, listener)
		}
	}
	return parts, nil
}

// endpointTable lists the endpoints of a listener, without the text of those that are the same as known ones of this listener.
func endpointTable(endpoints, known []httpserve.Endpoint, listener string) string {
	var b strings.Builder
	var same []string
	b.WriteString("| path | methods | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		if e.Listener != listener || strings.HasPrefix(e.Path, "/debug/pprof/") && e.Path != "/debug/pprof/" {
			continue // the list of profiles has the others
		}
		if slices.ContainsFunc(known, func(k httpserve.Endpoint) bool { return k.Listener == listener && k.Path == e.Path && k.Does == e.Does }) {
			same = append(same, "`"+e.Path+"`")
			continue
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
	text := b.String()
	if len(same) > 0 {
		if strings.Count(text, "\n") == 2 {
			text = "" // no rows
		}
		text = strings.TrimPrefix(text+"\nAs for `routesrv`: "+strings.Join(same, ", ")+".\n", "\n")
	}
	return text
}
