package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileAndCommandLineAddUp: a flag that may be repeated keeps the values of the file, which may restrict access, beside those of the command line. What
// only the command line says counts once.
func TestFileAndCommandLineAddUp(t *testing.T) {
	const group = `apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: web, namespace: shop, annotations: {example.org/zone: internal, example.org/team: x}}
spec:
  hosts: [web.example.org]
  backends: [{name: a, type: shunt}]
  defaultBackends: [{backendName: a}]
  routes: [{pathSubtree: /}]
`
	for name, want := range map[string]string{
		"lists": ` && ClientIP("10.0.0.0/8") && Weight(5) -> <shunt>;`,
		"twice": ` -> setResponseHeader("A", "b") -> <shunt>;`,
	} {
		file := filepath.Join("testdata", "config-file", name)
		args, err := os.ReadFile(file + ".args")
		if err != nil {
			t.Fatal(err)
		}
		r := runWith(t, group, append([]string{"compile", "-", "-config-file=" + file + ".yaml"}, strings.TrimSpace(string(args)))...)
		var route string
		for line := range strings.Lines(r.out) {
			if strings.HasPrefix(line, "kube_rg__shop__web__all__0_0:") {
				route = strings.TrimSpace(line)
			}
		}
		if r.status != 0 || r.err != "" || !strings.HasSuffix(route, want) || strings.Count(route, " -> ") != strings.Count(want, " -> ") {
			t.Errorf("%s: status %d, %s%s, want %s", name, r.status, r.err, route, want)
		}
	}
}
