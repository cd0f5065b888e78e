package migrate_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/internal/migrate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// base is the path of the base for the overlays of the tests.
const base = "../../deploy/kustomize/base"

func overlay(t *testing.T, in *migrate.Input, o migrate.Options) *migrate.Overlay {
	t.Helper()
	if o.Base == "" {
		o.Base = base
	}
	made, err := migrate.Make(in, o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestGoldenOverlayOfAPlatform(t *testing.T) {
	made := overlay(t, platform(t), migrate.Options{Image: "example/routesrv:1.0.0@sha256:00"})
	dir := "testdata/platform.golden"
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range made.Files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(made.Files) {
		t.Errorf("%d files, want %d", len(made.Files), len(entries))
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(made.Files[e.Name()]); got != string(want) {
			t.Errorf("%s is not that of %s (-update rewrites it):\n%s", e.Name(), dir, got)
		}
	}
	if got, want := strings.Count(string(made.Files["NOTES.md"]), "\n| ")-1, len(made.NotCarried); got != want || want < 6 {
		t.Errorf("the notes have %d rows, and %d things are not carried over", got, want)
	}
	var warned []string
	for _, w := range made.Warnings {
		warned = append(warned, w.Flag)
	}
	if got := strings.Join(warned, " "); got != "-enable-swarm -forwarded-headers -forwarded-headers-exclude-cidrs -opentracing" {
		t.Errorf("warnings about %s", got)
	}
}

// value returns a value of the patch of the Deployment in JSON; empty if there is none.
func value(t *testing.T, made *migrate.Overlay, path string) string {
	t.Helper()
	var at any
	if err := yaml.Unmarshal(made.Files["deployment.yaml"], &at); err != nil {
		t.Fatal(err)
	}
	if rest, ok := strings.CutPrefix(path, "c/"); ok {
		path = "spec/template/spec/containers/0/" + rest
	}
	for name := range strings.SplitSeq(path, "/") {
		switch parent := at.(type) {
		case map[string]any:
			at = parent[name]
		case []any:
			at = parent[0]
		}
	}
	if at == nil {
		return ""
	}
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatIsCarriedOver(t *testing.T) {
	for _, tt := range []struct {
		name    string
		replace []string
		options migrate.Options
		path    string // in the patch of the Deployment
		want    string // in its value; empty if there must be none
		file    string // or in a file
		notes   string // in NOTES.md
	}{
		{
			name: "a value from the manifest", path: "c/args", want: `svc:9991"`,
			replace: []string{"-address=:9990", "-address=$(AT)", "env:", "env:\n            - {name: AT, value: ':9991'}"},
		},
		{
			name: "a value that only the pod knows", path: "c/args", want: `"-kubernetes-default-lb-algorithm=$(LIGHTSTEP_TOKEN)"`,
			replace: []string{"powerOfRandomNChoices", "$(LIGHTSTEP_TOKEN)"}, notes: "was not checked",
		},
		{
			name: "its variable", path: "c/env", want: `"lightstep-token"`, replace: []string{"powerOfRandomNChoices", "$(LIGHTSTEP_TOKEN)"},
		},
		{
			name: "a dollar that is none of a variable", path: "c/args", want: "edit-route=/a/$$(b)/",
			replace: []string{"edit-route=/Source[(](.*)[)]/ClientIP($1)/", "edit-route=/a/$$(b)/"},
		},
		{
			name: "Endpoints", file: "rbac.yaml", want: "- endpoints", replace: []string{"-enable-kubernetes-endpointslices=true", "-enable-kubernetes-endpointslices=false"},
		},
		{
			name: "a probe by the name of its port", path: "c/readinessProbe", want: `"port":"ingress-port"`, replace: []string{"port: 9990", "port: ingress-port"},
		},
		{
			name: "a probe that runs a command", path: "c/readinessProbe/httpGet/port", want: "9990", notes: "no shell",
			replace: []string{"httpGet:\n              path: /health\n              port: 9990", "exec: {command: [curl, localhost]}"},
		},
		{name: "no root", path: "spec/template/spec/securityContext/runAsUser", replace: []string{"runAsUser: 1000", "runAsUser: 0"}, notes: "no root"},
		{
			name: "the network of the node", path: "spec/template/spec/hostNetwork", notes: "`hostNetwork`",
			replace: []string{"      serviceAccountName: skipper", "      hostNetwork: true\n      serviceAccountName: skipper"},
		},
		{name: "too little time to end", path: "spec/template/spec/terminationGracePeriodSeconds", want: "80", replace: []string{"Seconds: 90", "Seconds: 60"}, notes: "last-known-good file"},
		{name: "memory", path: "c/env", want: `"448MiB"`, replace: []string{"memory: 1Gi", "memory: 512Mi"}},
		{
			name: "another container", path: "c/ports", want: "9990", notes: "container `logs`",
			replace: []string{"      containers:\n", "      containers:\n        - {name: logs, image: example/logs}\n"},
		},
		{
			name: "a flag that is left out", file: "NOTES.md", want: "`-kubernetes-status-from-service`",
			options: migrate.Options{LeaveOut: []string{"kubernetes-status-from-service"}},
			replace: []string{"'-enable-swarm'", "'-kubernetes-status-from-service=a/b'"},
		},
		{
			name: "a Service that selects by a label of Helm", file: "NOTES.md",
			want: `patch service skipper-ingress-routesrv --type merge -p '{"spec":{"selector":{"component":"routesrv-next","helm.sh/chart":null}}}'`,
			replace: []string{"    component: routesrv\n  ports", "    component: routesrv\n    helm.sh/chart: c\n  ports",
				"        version: v0.22.9\n", "        version: v0.22.9\n        helm.sh/chart: c\n"},
		},
		{
			name: "the way back from there", file: "NOTES.md", want: `-p '{"spec":{"selector":{"component":"routesrv","helm.sh/chart":"c"}}}'`,
			replace: []string{"    component: routesrv\n  ports", "    component: routesrv\n    helm.sh/chart: c\n  ports",
				"        version: v0.22.9\n", "        version: v0.22.9\n        helm.sh/chart: c\n"},
		},
		{name: "no Service", file: "NOTES.md", want: "in the place of SERVICE", replace: []string{"kind: Service\n", "kind: Thing\n"}},
		{name: "the rights of the old account", file: "NOTES.md", want: "--as=system:serviceaccount:kube-system:skipper-ingress"},
		{name: "another port of the API", file: "networkpolicy.yaml", want: "port: 8443", replace: []string{"-kubernetes-in-cluster", "-kubernetes-url=https://api:8443"}},
		{name: "its own prefix", file: "NOTES.md", want: "deployment/beside-routesrv", options: migrate.Options{Prefix: "beside-"}},
		{
			name: "a file of settings", file: "networkpolicy.yaml", want: "port: 9912",
			replace: []string{"'-enable-swarm'", "'-config-file=/etc/config/default-filters/f.yaml'",
				"kind: PodDisruptionBudget", "kind: ConfigMap", "name: skipper-ingress-routesrv\n  namespace: kube-system\nspec:\n  maxUnavailable: 1",
				"name: skipper-default-filters\n  namespace: kube-system\ndata: {f.yaml: 'support-listener: :9912'}\nspec:\n  maxUnavailable: 1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := overlay(t, platform(t, tt.replace...), tt.options)
			got := string(made.Files[tt.file])
			if tt.path != "" {
				got = value(t, made, tt.path)
			}
			if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s%s is %s, want %s", tt.path, tt.file, got, tt.want)
			}
			if notes := string(made.Files["NOTES.md"]); !strings.Contains(notes, tt.notes) {
				t.Errorf("no %s in\n%s", tt.notes, notes)
			}
		})
	}
}

// A policy for the old pods is not widened: whatever it admits is admitted, and selectors of other pods are unchanged.
func TestPolicyOfTheOldPodsIsKept(t *testing.T) {
	policy := `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: old, namespace: kube-system}
spec:
  podSelector: {matchLabels: {component: routesrv}}
  ingress:
  - from: [{podSelector: {matchLabels: {component: ingress}}}]
    ports: [{port: ingress-port}]
`
	in, err := migrate.Parse("-", strings.NewReader(manifests(t)+policy), "")
	if err != nil {
		t.Fatal(err)
	}
	got := string(overlay(t, in, migrate.Options{}).Files["networkpolicy.yaml"])
	if !strings.Contains(got, "key: component\n          operator: In\n          values:\n          - ingress\n") || strings.Contains(got, "value:\n  - ports:\n    - port: 9990") {
		t.Errorf("the policy is\n%s", got)
	}
}

func TestWhatCannotBeMigratedIsSaid(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		replace    []string
		options    migrate.Options
	}{
		{name: "a flag that is refused", want: "status of Ingresses", replace: []string{"'-enable-swarm'", "'-kubernetes-status-from-service=a/b'"}},
		{name: "a flag that does not exist", want: "did you mean", replace: []string{"'-enable-swarm'", "'-enable-profil'"}},
		{name: "another program", want: "is no route server", replace: []string{"- 'routesrv'", "- 'skipper'"}},
		{name: "no such container", want: "none of the containers routesrv", options: migrate.Options{Container: "nobody"}},
		{name: "settings in a ConfigMap that is not there", want: "add it to the manifests", replace: []string{"'-enable-swarm'", "'-config-file=/etc/config/default-filters/f'"}},
		{name: "the same names", want: "would replace the old one", options: migrate.Options{Prefix: "skipper-ingress-"}},
		{name: "no name", want: "no name of a Service", options: migrate.Options{Prefix: "-X-"}},
		{name: "a port by chance", want: "want a port", replace: []string{"-address=:9990", "-address=:0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.Base = base
			made, err := migrate.Make(platform(t, tt.replace...), tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) || made != nil && made.Files != nil {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	for _, tt := range []struct{ text, name, want string }{
		{"", "", "no Deployment"},
		{"kind: Service", "", "no Deployment"},
		{"a: [", "", "line 1"},
		{"kind: Deployment\nmetadata: {name: a}", "", "no container"},
		{"kind: Deployment\nmetadata: {name: a}\n---\nkind: Deployment\nmetadata: {name: b}", "", "a, b"},
		{"kind: Deployment\nmetadata: {name: a}", "b", "none of the Deployments a is b"},
		{"metadata: {name: a}", "", "without a kind"},
		{strings.Repeat("#", 16<<20+1), "", "larger than"},
	} {
		if _, err := migrate.Parse("-", strings.NewReader(tt.text), tt.name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v, want %s", tt.text, err, tt.want)
		}
	}
}
