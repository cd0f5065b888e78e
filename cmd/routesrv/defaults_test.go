package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManifestsGetTheDefaultsOfTheAPI: a manifest without what the API server fills in compiles to the same table as one that has it.
func TestManifestsGetTheDefaultsOfTheAPI(t *testing.T) {
	const objects = `apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: web}
spec: {hosts: [web.example.org], backends: [{name: web, type: service, serviceName: web, servicePort: 8080}], defaultBackends: [{backendName: web}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {rules: [{host: ing.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}]}}]}
---
`
	const service, slice, endpoints = `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, TYPE ports: [{port: 8080, TARGET}]}}
---
`, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}, addressType: IPv4,
 endpoints: [{addresses: [10.0.0.1]}], ports: [{name: "", port: 8080, PROTOCOL}]}
`, `{apiVersion: v1, kind: Endpoints, metadata: {name: web}, subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 8080, PROTOCOL}]}]}
`
	full := strings.NewReplacer("TYPE", "type: ClusterIP,", "TARGET", "targetPort: 8080", "PROTOCOL", "protocol: TCP")
	for _, c := range []struct {
		pods   string
		flag   string
		leaner *strings.Replacer
	}{
		{endpoints, "-enable-kubernetes-endpointslices=false", strings.NewReplacer("TYPE", "", "TARGET", "", "PROTOCOL", "")},
		{slice, "-enable-kubernetes-endpointslices", strings.NewReplacer("TYPE", "", "TARGET", "", "PROTOCOL", "")},
		{slice, "-enable-kubernetes-endpointslices", strings.NewReplacer("TYPE", `type: "",`, "TARGET", "targetPort: 0", "PROTOCOL", `protocol: ""`)},
		{slice, "-enable-kubernetes-endpointslices", strings.NewReplacer("TYPE", "type: null,", "TARGET", `targetPort: ""`, "PROTOCOL", "protocol: null")},
	} {
		text := objects + service + c.pods
		want, got := runWith(t, full.Replace(text), "compile", "-", c.flag), runWith(t, c.leaner.Replace(text), "compile", "-", c.flag)
		if want.status != 0 || want.err != "" || !strings.Contains(want.out, `"http://10.0.0.1:8080"`) {
			t.Fatalf("the full manifest: status %d, %s\n%s", want.status, want.err, want.out)
		}
		if got != want {
			t.Errorf("%s: status %d, %s\n%s", c.leaner.Replace(text), got.status, got.err, got.out)
		}
	}
}

// TestFilesBesideManifestsAreWarnings: a JSON patch of kustomize and the values of a chart are named, and the rest of the folder is compiled.
func TestFilesBesideManifestsAreWarnings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"patch.yaml":  "- op: replace\n  path: /spec\n  value: x\n",
		"patch.json":  `[{"op": "remove", "path": "/spec"}]`,
		"values.yaml": "replicas: 3\nservice: {type: ClusterIP}\nhosts: [a]\n",
		"ok.yaml":     "apiVersion: zalando.org/v1\nkind: RouteGroup\nmetadata: {name: ok}\nspec: {backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := runWith(t, "", "compile", dir)
	if r.status != 0 || !strings.Contains(r.out, "kube_rg__default__ok__all__0_0:") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	for _, name := range []string{"patch.yaml", "patch.json", "values.yaml"} {
		if !strings.Contains(r.err, filepath.Join(dir, name)) {
			t.Errorf("%s is not named in\n%s", name, r.err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "list.yaml"), []byte("- {kind: Service}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, "", "compile", dir); r.status != 2 || !strings.Contains(r.err, "list.yaml: document 1, line 1: not an object") {
		t.Errorf("another list: status %d, %s", r.status, r.err)
	}
}
