package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
)

// Problems that harm a fleet or cost their author routes are reported over HTTP.
const troubled = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: prod--web, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {rules: [{host: a.example.org, http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop--prod, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {rules: [{host: a.example.org, http: {paths: [{path: -x, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shadow, namespace: shop, creationTimestamp: "2026-01-03T00:00:00Z"}
spec: {rules: [{host: a.example.org, http: {paths: [{path: -x, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: crash
  namespace: shop
  annotations:
    zalando.org/skipper-routes: |
      bad: Path("/bad") -> admissionControl("app", "active", "0s", 5, 10, 0.95, 0.9, 0.5) -> <shunt>;
      good: Path("/good") -> admissionControl("app", "active", "1s", 5, 10, 0.95, 0.9, 0.5) -> <shunt>;
spec: {rules: [{host: b.example.org, http: {paths: [{backend: {service: {name: s, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: "null", namespace: shop}
spec: {rules: [null]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: path, namespace: shop}
spec: {rules: [{host: c.example.org, http: {paths: [{path: "/(", backend: {service: {name: s, port: {number: 80}}}}]}}]}
---
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: host, namespace: shop}
spec: {hosts: ["*.example.org"], backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: shop}
spec: {ports: [null, {port: 80, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: shop--prod}
spec: {ports: [{port: 80, targetPort: 80}]}
`

func TestProblemsThatNoLogOfTheReferenceHas(t *testing.T) {
	f := start(t, troubled, nil)
	f.polled()
	body := f.request("GET", f.support, "/problems").body
	var got struct {
		Problems []struct {
			Owner                            struct{ Kind, Namespace, Name string }
			Route, Reason, Severity, Message string
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ owner, route, reason, severity, message string }{
		{"Ingress shop/crash", "kube_shop__crash_bad_0__b_example_org____", "would_crash_proxy", "error", `the interval "0s" is not above zero`},
		{"Ingress shop/prod--web", "kube_shop__prod__web__a_example_org___x__s", "duplicate_id", "error", "Ingress shop--prod/web keeps the id"},
		{"Ingress shop/shadow", "kube_shop__shadow__a_example_org___x__s", "shadows", "warning", "the older Ingress shop--prod/web"},
		{"Ingress shop/null", "", "null_entry", "warning", "spec.rules[0]"},
		{"Service shop/s", "", "null_entry", "warning", "spec.ports[0]"},
		{"Ingress shop/path", "kube_shop__path__c_example_org______s", "invalid_expression", "warning", "missing closing )"},
		{"RouteGroup shop/host", "", "invalid_expression", "warning", "has a wildcard"},
	} {
		found := false
		for _, p := range got.Problems {
			found = found || p.Owner.Kind+" "+p.Owner.Namespace+"/"+p.Owner.Name == want.owner && p.Route == want.route &&
				p.Reason == want.reason && p.Severity == want.severity && strings.Contains(p.Message, want.message)
		}
		if !found {
			t.Errorf("no problem %+v in %s", want, body)
		}
	}
	if !strings.Contains(f.metrics(), `routesrv_problems{kind="Ingress",reason="would_crash_proxy"} 1`) {
		t.Error("the alert has nothing to look at")
	}

	table := f.request("GET", f.main, "/routes").body
	for line, want := range map[string]bool{
		"kube_shop__crash_bad_0__b_example_org____: ":  false, // would end every proxy
		"kube_shop__crash_good_1__b_example_org____: ": true,  // its sibling
		"kube_shop__path__c_example_org______s: ":      true,  // published as by the reference, dropped by proxies
		`kube_shop__prod__web__a_example_org___x__s: Host(/^(a[.]example[.]org[.]?(:[0-9]+)?)$/) && PathSubtree("-x")`: true,
	} {
		if strings.Contains(table, line) != want {
			t.Errorf("the table has %s: %t, want %t\n%s", line, !want, want, table)
		}
	}
}

// TestProblemsAreChosenByTheQuery: a team filters by its namespace, an operator by a reason.
func TestProblemsAreChosenByTheQuery(t *testing.T) {
	f := start(t, troubled, nil)
	f.polled()
	for query, want := range map[string]int{
		"?namespace=shop--prod": 1, "?namespace=shop&kind=RouteGroup": 1, "?reason=null_entry&kind=Ingress&kind=Service": 2, "?namespace=nobody": 0,
		"?name=crash&reason=would_crash_proxy&severity=error": 1, "?namespace=": 0,
	} {
		var got struct {
			Count    int
			Problems []struct{ ID, Text string }
		}
		if err := json.Unmarshal([]byte(f.request("GET", f.support, "/problems"+query).body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Count != want || len(got.Problems) != want {
			t.Errorf("%s: %d problems, want %d", query, got.Count, want)
		}
		for _, p := range got.Problems {
			if len(p.ID) != 12 || !strings.HasSuffix(p.Text, ".") {
				t.Errorf("%s: problem %+v", query, p)
			}
		}
	}
}

// TestProblemsKeepTheirTimeOverARestart: as long as the object has the problem.
func TestProblemsKeepTheirTimeOverARestart(t *testing.T) {
	dir := t.TempDir()
	since := func(objects string) (at time.Time) {
		f := startReading(t, objects, true, func(cfg *server.Config) { cfg.StateDir = dir })
		f.polled()
		var all api.Problems
		if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, api.PathProblems).body), &all); err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Problems {
			if p.Reason == "service_not_found" {
				at = p.Since
			}
		}
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		return at
	}
	broken := strings.Replace(ingress("broken"), "name: s,", "name: gone,", 1)
	first := since(backend("s", "10.2.0.1") + ingress("a") + broken)
	if again := since(backend("s", "10.2.0.1") + ingress("a") + broken); first.IsZero() || !again.Equal(first) {
		t.Errorf("since %v, after a restart %v", first, again)
	}
	since(backend("s", "10.2.0.1") + ingress("a"))
	if later := since(backend("s", "10.2.0.1") + ingress("a") + broken); !later.After(first) {
		t.Errorf("a problem that was solved in between is there since %v, want after %v", later, first)
	}
}
