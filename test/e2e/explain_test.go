package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// explains runs routesrv explain against a route server, and returns the printed lines.
func (p *process) explains(t *testing.T, what ...string) (lines []string, status int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, append(append([]string{"explain"}, what...), p.Support)...).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	} else if err != nil {
		status = exit.ExitCode()
	}
	return strings.Split(string(out), "\n"), status
}

// TestExplainFollowsARepair: a developer asks why, fixes what the first line says, and asks again. The API says who changed the
// object last, in its protobuf and its JSON form.
func TestExplainFollowsARepair(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	object := func(port, backend string) string {
		return `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: asked, namespace: shop}
spec: {rules: [{host: asked.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: ` + port + `}}}}]}}]}
---
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: asked, namespace: shop}
spec:
  hosts: [asked-too.example.org]
  backends: [{name: web, type: service, serviceName: ` + backend + `, servicePort: 80}]
  defaultBackends: [{backendName: web}]
`
	}
	withObjects(t, c, object("htp", "wep"))
	p := startRoutesrv(t, newFaultProxy(t, c))
	p.Ready(t)
	ask := func(kind, first string, want int) {
		t.Helper()
		programs.Eventually(t, kind+": "+first, func() bool {
			lines, status := p.explains(t, kind, "shop/asked")
			return lines[0] == first && status == want
		})
		lines, _ := p.explains(t, kind, "shop/asked")
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "\n  changed    20") || !strings.Contains(text, " by e2e\n") {
			t.Errorf("who changed it is not told:\n%s", text)
		}
	}
	ask("ingress", `Ingress shop/asked: Service "web" has no port "htp", only 80 ("http"), so requests are answered with 502.`, 1)
	ask("routegroup", `RouteGroup shop/asked: there is no Service "wep" in the namespace "shop", so the routes to it are left out.`, 1)
	if err := c.apply(t.Context(), object("http", "web")); err != nil {
		t.Fatal(err)
	}
	ask("ingress", "Ingress shop/asked is served: 1 route for asked.example.org, 3 ready pods behind Service web.", 0)
	ask("routegroup", "RouteGroup shop/asked is served: 1 route for asked-too.example.org, 3 ready pods behind Service web.", 0)
}
