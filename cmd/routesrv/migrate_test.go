package main

import (
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
			if r := runWith(t, tt.stdin, append([]string{"migrate", "-o", dir}, tt.args...)...); r.status != 2 || !strings.Contains(r.err, "file exists") {
				t.Errorf("again: exit status %d\n%s", r.status, r.err)
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
