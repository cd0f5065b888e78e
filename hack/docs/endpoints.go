package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/httpserve"
)

const endpointsFile = "docs/endpoints.md"

// generatedPart is what is written between two markers; the first names what goes there. What stands around them is
// written by hand.
var generatedPart = regexp.MustCompile(`(?s)(<!-- endpoints: (\S+) (\S+) -->\n).*?(<!-- end -->)`)

// writeEndpoints writes the document with new tables of endpoints.
func writeEndpoints(w io.Writer) error {
	text, err := os.ReadFile(endpointsFile)
	if err != nil {
		return err
	}
	srv, err := documentedServer(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	side, err := documentedSidecar(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	listed := map[string][]httpserve.Endpoint{"routesrv": srv.Endpoints(), "dataplane-client": side.Endpoints()}
	left := map[string]bool{}
	for binary, endpoints := range listed {
		for _, e := range endpoints {
			left[binary+" "+e.Listener] = true
		}
	}
	out := generatedPart.ReplaceAllFunc(text, func(part []byte) []byte {
		m := generatedPart.FindSubmatch(part)
		delete(left, string(m[2])+" "+string(m[3]))
		return bytes.Join([][]byte{m[1], []byte(endpointTable(listed[string(m[2])], string(m[3]))), m[4]}, []byte("\n"))
	})
	for part := range left {
		return fmt.Errorf("no marker <!-- endpoints: %s -->", part)
	}
	_, err = w.Write(out)
	return err
}

func endpointTable(endpoints []httpserve.Endpoint, listener string) string {
	var b strings.Builder
	b.WriteString("| path | methods | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		if e.Listener != listener {
			continue
		}
		methods := "any"
		if e.Methods != nil {
			methods = strings.Join(e.Methods, ", ")
		}
		does := e.Does
		if e.Condition != "" {
			does += " (" + e.Condition + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Path, methods, strings.ReplaceAll(does, "|", "\\|"))
	}
	return b.String()
}
