package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// oldServer is a Deployment of the reference with the objects that belong to it.
const oldServer = "../../internal/migrate/testdata/platform.yaml"

const kustomizeBase = "../../deploy/kustomize/base"

func TestMigrateWritesAFolder(t *testing.T) {
	text, err := os.ReadFile(oldServer)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		base  string // in kustomization.yaml
	}{
		{name: "of a file", args: []string{oldServer}, base: "https://github.com/routesrv/routesrv//deploy/kustomize/base?ref=main"},
		{name: "of the standard input", stdin: string(text), args: []string{"-"}, base: "https://"},
		{name: "of a local base", args: []string{"--base", kustomizeBase, oldServer}, base: "../"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			r := runWith(t, tt.stdin, append([]string{"migrate", "-o", dir}, tt.args...)...)
			if r.status != 0 || !strings.Contains(r.out, "NOTES.md") || !strings.Contains(r.err, "warning: -enable-swarm") {
				t.Fatalf("exit status %d\n%s%s", r.status, r.out, r.err)
			}
			content, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var k struct{ Resources []string }
			if err := yaml.Unmarshal(content, &k); err != nil {
				t.Fatal(err)
			}
			if len(k.Resources) != 1 || !strings.HasPrefix(k.Resources[0], tt.base) {
				t.Errorf("resources %q, want %s", k.Resources, tt.base)
			}
			if strings.HasPrefix(tt.base, ".") {
				if _, err := os.Stat(filepath.Join(dir, k.Resources[0], "kustomization.yaml")); err != nil {
					t.Errorf("the base is not where the overlay looks: %v", err)
				}
			}
			if r := runWith(t, tt.stdin, append([]string{"migrate", "-o", dir}, tt.args...)...); r.status != 2 || !strings.Contains(r.err, "--force") {
				t.Errorf("again: exit status %d\n%s", r.status, r.err)
			}
			if r := runWith(t, tt.stdin, append([]string{"migrate", "--force", "-o", dir}, tt.args...)...); r.status != 0 {
				t.Errorf("by force: exit status %d\n%s", r.status, r.err)
			}
		})
	}
}

func TestMigrateSaysWhatItCannotDo(t *testing.T) {
	refused := tempFile(t, "old.yaml", strings.ReplaceAll(`
kind: Deployment
metadata: {name: old, namespace: edge}
spec:
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: a, args: [routesrv, -kubernetes, -kubernetes-status-from-service=a/b]}]}
`, "\t", ""))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "too few arguments"},
		{"no folder", []string{oldServer}, "-o is not set"},
		{"no file", []string{"-o", "DIR", "nowhere.yaml"}, "no such file"},
		{"no base", []string{"-o", "DIR", "--base", "nowhere", oldServer}, "--base nowhere"},
		{"a flag that is refused", []string{"-o", "DIR", refused}, "status of Ingresses"},
		{"no kubeconfig", []string{"-o", "DIR", "--kubeconfig", "nowhere", "deploy/old"}, "kubeconfig"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			args := []string{"migrate"}
			for _, a := range tt.args {
				args = append(args, strings.Replace(a, "DIR", dir, 1))
			}
			if r := runWith(t, "", args...); r.status != 2 || !strings.Contains(r.err, tt.want) {
				t.Errorf("exit status %d, want %s in\n%s", r.status, tt.want, r.err)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the folder was made all the same")
			}
		})
	}
	if r := runWith(t, "", "migrate", "--leave-out=-kubernetes-status-from-service", "-o", filepath.Join(t.TempDir(), "new"), refused); r.status != 0 {
		t.Errorf("without the flag: exit status %d\n%s", r.status, r.err)
	}
}

func TestMigrateReadsACluster(t *testing.T) {
	text, err := os.ReadFile(oldServer)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	deployment, err := yaml.YAMLToJSON([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/apps/v1/namespaces/kube-system/deployments/skipper-ingress-routesrv":
			w.Write(deployment)
		case strings.HasSuffix(r.URL.Path, "/services"):
			fmt.Fprint(w, `{"items":[{"metadata":{"name":"front"},"spec":{"selector":{"component":"routesrv"}}}]}`)
		case strings.HasSuffix(r.URL.Path, "bindings"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","message":"bindings are not for you"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer api.Close()
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "there",
		"clusters": []any{map[string]any{"name": "there", "cluster": map[string]any{"server": api.URL}}},
		"contexts": []any{map[string]any{"name": "there", "context": map[string]any{"cluster": "there"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := tempFile(t, "config", string(config))
	dir := filepath.Join(t.TempDir(), "new")
	r := runWith(t, "", "migrate", "--kubeconfig", kubeconfig, "--context", "there", "-n", "kube-system", "-o", dir, "deploy/skipper-ingress-routesrv")
	if r.status != 0 || strings.Count(r.err, "bindings are not for you") != 2 {
		t.Fatalf("exit status %d\n%s", r.status, r.err)
	}
	notes, err := os.ReadFile(filepath.Join(dir, "NOTES.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(notes), "patch service front ") {
		t.Errorf("the notes do not know the Service:\n%s", notes)
	}
	r = runWith(t, "", "migrate", "--kubeconfig", kubeconfig, "-n", "other", "-o", dir+"2", "deployment/skipper-ingress-routesrv")
	if r.status != 2 || !strings.Contains(r.err, "no such Deployment") {
		t.Errorf("another namespace: exit status %d\n%s", r.status, r.err)
	}
}
