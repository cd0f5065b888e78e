// Package deploy checks the manifests of deploy/kustomize and examples/cluster against the programs: testdata/*.golden.yaml has
// the output of kustomize, the built binaries accept their arguments and listen where probes, Services and policies expect them,
// and the alerts fire when they should. The e2e tests check that a real API server accepts the manifests, and that the rights are
// sufficient and minimal.
package deploy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/programs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Made by TestMain, only read by tests.
var (
	binaries  string               // folder with the built routesrv and dataplane-client
	rendered  map[string][]*object // output of kustomize, by the name of the golden file
	noKubectl error                // why nothing is rendered
)

// renders are the folders that have a golden file: everything that can be applied, and every component on top of its target.
var renders = map[string]string{
	"base":                           "kustomize/base",
	"crd":                            "kustomize/crd",
	"skipper":                        "kustomize/skipper",
	"overlay-false":                  "kustomize/overlays/false",
	"overlay-pre":                    "kustomize/overlays/pre",
	"overlay-exec":                   "kustomize/overlays/exec",
	"component-metrics":              "testdata/metrics",
	"component-dashboard":            "testdata/dashboard",
	"component-mtls":                 "testdata/mtls",
	"component-zone-aware":           "testdata/zone-aware",
	"component-namespaced":           "testdata/namespaced",
	"component-watch":                "testdata/watch",
	"component-hpa":                  "testdata/hpa",
	"component-events":               "testdata/events",
	"component-trial":                "testdata/trial-proxy",
	"component-canary":               "testdata/canary",
	"component-webhook":              "testdata/webhook",
	"component-webhook-cert-manager": "testdata/webhook-cert-manager",
	"component-endpoints":            "testdata/endpoints",
	"component-dataplane-policy":     "testdata/dataplane-policy",
	"component-exec-only":            "testdata/exec-only",
	"component-sidecar-loopback":     "testdata/sidecar-loopback",
	"all-components":                 "testdata/all",
	"everything":                     "testdata/everything",
	"values":                         "testdata/values",
	"gitops":                         "../examples/gitops/clusters/example",
	"gitops-proxies":                 "../examples/gitops/clusters/example/proxies",
	"own-deployment":                 "testdata/own",
	"trial":                          "testdata/trial",
	"example-cluster":                "../examples/cluster",
}

// withoutGolden are renders of all components for the tests of values, which contain their expectations: one is the other with
// default values, and values.changes.txt has what each value changes.
var withoutGolden = []string{"everything", "values"}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	kubectl, err := findKubectl()
	if err != nil {
		return withoutKubectl(m, err)
	}
	if err := os.Chdir("../../deploy"); err != nil { // paths in the tests are those of the manifests
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, remove, err := programs.Build("..", programs.Plain, "routesrv", "dataplane-client")
	defer remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries = dir
	if rendered, err = renderAll(kubectl); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// withoutKubectl makes one test report that no test can run. In CI that is a failure.
func withoutKubectl(m *testing.M, why error) int {
	if os.Getenv("CI") == "true" {
		fmt.Fprintln(os.Stderr, "deploy:", why)
		return 1
	}
	noKubectl = why
	if err := flag.Set("test.run", "^TestThereIsAKubectl$"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func TestThereIsAKubectl(t *testing.T) {
	if noKubectl != nil {
		t.Skipf("nothing of the manifests is tested: %v", noKubectl)
	}
}

// findKubectl prefers the kubectl beside the API server of the end-to-end tests.
func findKubectl() (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if path, err := exec.LookPath(filepath.Join(dir, "kubectl")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("there is no kubectl to render them with: run make assets, or put one into the PATH: %w", err)
	}
	return path, nil
}

// renderAll runs kustomize on every folder.
func renderAll(kubectl string) (map[string][]*object, error) {
	all := make(map[string][]*object)
	for name, dir := range renders {
		objects, err := kustomize(kubectl, dir)
		if err != nil {
			return nil, err
		}
		all[name] = objects
	}
	return all, nil
}

// kustomize renders one folder. A warning, such as one about a deprecated field, is an error.
func kustomize(kubectl, dir string) ([]*object, error) {
	cmd := exec.Command(kubectl, "kustomize", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, stderr.String())
	}
	if stderr.Len() > 0 {
		return nil, fmt.Errorf("%v warns: %s", cmd, stderr.String())
	}
	objects, err := parseObjects(string(out))
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	return objects, nil
}

// TestGolden shows what a change of a manifest does to everything that is applied.
func TestGolden(t *testing.T) {
	for name, dir := range renders {
		if slices.Contains(withoutGolden, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".golden.yaml")
			var got strings.Builder
			fmt.Fprintf(&got, "# What \"kubectl kustomize %s\" makes, with keys in order. Written by make golden.\n", filepath.Join("deploy", dir))
			for i, o := range rendered[name] {
				if i > 0 {
					got.WriteString("---\n")
				}
				got.WriteString(o.text(t))
			}
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := lineDiff(string(want), got.String()); diff != "" {
				t.Errorf("%s is not what kustomize makes; if that is meant, run make golden and read the diff:\n%s", path, diff)
			}
		})
	}
}

// TestEveryRenderHasItsGoldenFileAndNoOther: a leftover golden file belongs to a folder that is no longer rendered.
func TestEveryRenderHasItsGoldenFileAndNoOther(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".golden.yaml"); renders[name] == "" {
			t.Errorf("%s is of no folder", f)
		}
	}
	if want := len(renders) - len(withoutGolden); len(files) != want {
		t.Errorf("%d golden files for %d folders", len(files), want)
	}
}
