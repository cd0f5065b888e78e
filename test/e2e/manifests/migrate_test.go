package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testMigrated reads a Deployment of the reference from the API server, like a user who migrates, and follows the notes: it runs
// their commands as written.
func (m *manifests) testMigrated(t *testing.T) {
	const old, next = "skipper-ingress-routesrv", "skipper-ingress-next-routesrv"
	const file = "internal/migrate/testdata/platform.yaml"
	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-f", file)
	overlay := filepath.Join(t.TempDir(), "overlay")
	objects := m.kubectl(t, "-n", "kube-system", "get", "deployments,services,configmaps,networkpolicies", "-o", "yaml")
	cmd := exec.CommandContext(t.Context(), routesrv, "migrate", "--base", "deploy/kustomize/base", "--image", "example/routesrv:1",
		"--deployment", old, "-o", overlay, "-")
	cmd.Dir, cmd.Env, cmd.Stdin = root, m.environ, strings.NewReader(objects)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	notes, err := os.ReadFile(filepath.Join(overlay, "NOTES.md"))
	if err != nil {
		t.Fatal(err)
	}

	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-k", overlay)
	m.checkPods(t)
	selector := func() string {
		s, err := m.client.CoreV1().Services("kube-system").Get(t.Context(), old, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Spec.Selector["application"] + " " + s.Spec.Selector["component"]
	}
	states := []string{selector()}
	for line := range strings.Lines(string(notes)) {
		command, isPatch := strings.CutPrefix(strings.TrimSpace(line), "kubectl ")
		if !isPatch || !strings.Contains(command, " patch service ") {
			continue
		}
		m.kubectl(t, strings.Fields(strings.ReplaceAll(command, "'", ""))...) // the patch contains no spaces
		states = append(states, selector())
	}
	want := "skipper-ingress routesrv, skipper-ingress routesrv-next, skipper-ingress routesrv"
	if got := strings.Join(states, ", "); got != want {
		t.Errorf("the Service selects %s, want %s", got, want)
	}

	m.kubectl(t, "delete", "--wait", "-k", overlay)
	deployments := m.client.AppsV1().Deployments("kube-system")
	if _, err := deployments.Get(t.Context(), old, metav1.GetOptions{}); err != nil {
		t.Errorf("the old Deployment: %v", err)
	}
	if _, err := deployments.Get(t.Context(), next, metav1.GetOptions{}); err == nil {
		t.Error("the new Deployment is left")
	}
	m.kubectl(t, "delete", "--wait", "-f", file)
}
