package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// groupForms are specs of RouteGroups. The compiler must refuse exactly those that the API server refuses.
var groupForms = []struct {
	name, spec string
	refused    string // part of the API server's message; empty if it accepts the object
}{
	{"service", `{backends: [{name: a, type: service, serviceName: s, servicePort: 80}], defaultBackends: [{backendName: a}]}`, ""},
	{"service-without-name", `{backends: [{name: a, type: service, servicePort: 80}], defaultBackends: [{backendName: a}]}`, "needs serviceName"},
	{"service-with-empty-name", `{backends: [{name: a, type: service, serviceName: "", servicePort: 80}], defaultBackends: [{backendName: a}]}`, "needs serviceName"},
	{"service-without-port", `{backends: [{name: a, type: service, serviceName: s}], defaultBackends: [{backendName: a}]}`, "needs servicePort"},
	{"service-port-0", `{backends: [{name: a, type: service, serviceName: s, servicePort: 0}], defaultBackends: [{backendName: a}]}`, "needs servicePort"},
	{"service-port-65536", `{backends: [{name: a, type: service, serviceName: s, servicePort: 65536}], defaultBackends: [{backendName: a}]}`, "needs servicePort"},
	{"service-port-65535", `{backends: [{name: a, type: service, serviceName: s, servicePort: 65535}, {name: b, type: shunt}], defaultBackends: [{backendName: b}]}`, ""},
	{"network", `{backends: [{name: a, type: network, address: "https://example.org"}], defaultBackends: [{backendName: a}]}`, ""},
	{"network-without-address", `{backends: [{name: a, type: network}], defaultBackends: [{backendName: a}]}`, "needs address"},
	{"lb", `{backends: [{name: a, type: lb, endpoints: ["http://10.0.0.1", "http://10.0.0.2"]}], defaultBackends: [{backendName: a}]}`, ""},
	{"lb-without-endpoints", `{backends: [{name: a, type: lb}], defaultBackends: [{backendName: a}]}`, "needs endpoints"},
	{"shunt-loopback-dynamic", `{backends: [{name: a, type: shunt}, {name: b, type: loopback}, {name: c, type: dynamic}, {name: d, type: forward}], defaultBackends: [{backendName: a}, {backendName: b}, {backendName: c}, {backendName: d}]}`, ""},
	{"no-backends", `{backends: [], routes: [{path: /}]}`, "at least 1 item"},
	{"unnamed-backend", `{backends: [{name: "", type: shunt}], routes: [{path: /, backends: [{backendName: ""}]}]}`, "at least 1 char"},
	{"same-name-twice", `{backends: [{name: a, type: shunt}, {name: a, type: loopback}], defaultBackends: [{backendName: a}]}`, "duplicate entries"},
	{"no-reference", `{backends: [{name: a, type: shunt}]}`, "missing backend reference"},
	{"route-without-reference", `{backends: [{name: a, type: shunt}], routes: [{path: /a, backends: [{backendName: a}]}, {path: /b}]}`, "missing backend reference"},
	{"routes-with-references", `{backends: [{name: a, type: shunt}], routes: [{path: /a, backends: [{backendName: a}]}, {pathSubtree: /b, backends: [{backendName: a}]}]}`, ""},
	{"routes-with-defaults", `{backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a, weight: 0}], routes: [{path: /a}, {pathRegexp: "^/b"}]}`, ""},
	{"reference-twice", `{backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}, {backendName: a}]}`, "duplicate entries"},
	{"reference-of-a-route-twice", `{backends: [{name: a, type: shunt}], routes: [{path: /a, backends: [{backendName: a}, {backendName: a}]}]}`, "duplicate entries"},
	{"negative-weight", `{backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a, weight: -1}]}`, "greater than or equal to 0"},
	{"path-and-subtree", `{backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}], routes: [{path: /a, pathSubtree: /b}]}`, "in the same route"},
	{"path-and-empty-subtree", `{backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}], routes: [{path: /a, pathSubtree: ""}]}`, ""},
}

// TestRulesOfTheCRDAreThoseOfTheCompiler checks both directions on a real API server.
func TestRulesOfTheCRDAreThoseOfTheCompiler(t *testing.T) {
	c := ownCluster(t)
	const service = `
apiVersion: v1
kind: Service
metadata: {name: s, namespace: forms}
spec: {type: ClusterIP, ports: [{port: 80}]}
`
	withObjects(t, c, service)
	for _, form := range groupForms {
		t.Run(form.name, func(t *testing.T) {
			group := fmt.Sprintf("\napiVersion: zalando.org/v1\nkind: RouteGroup\nmetadata: {name: %s, namespace: forms}\nspec: %s\n", form.name, form.spec)
			t.Cleanup(func() {
				if err := c.remove(context.Background(), group); err != nil {
					t.Error(err)
				}
			})
			err := c.apply(t.Context(), group)
			switch {
			case form.refused == "" && err != nil:
				t.Errorf("the API server refuses it: %v", err)
			case form.refused != "" && (err == nil || !strings.Contains(err.Error(), form.refused)):
				t.Errorf("the API server says %v, want %q", err, form.refused)
			}
			file := filepath.Join(t.TempDir(), "group.yaml")
			if err := os.WriteFile(file, []byte(service+"---"+group), 0o600); err != nil {
				t.Fatal(err)
			}
			exit := 0
			if form.refused != "" {
				exit = 1
			}
			_, problems := compileManifests(t, exit, file)
			if refused := strings.Contains(problems, "error in route group"); refused != (form.refused != "") {
				t.Errorf("refused by the compiler: %v\n%s", refused, problems)
			}
		})
	}
}
