package manifests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/routesrv/routesrv/test/programs"
)

// kustomizations are all that can be applied, in the order of application. Those in testdata are made for the tests of package
// deploy, which have their renders.
var kustomizations = []string{
	"deploy/kustomize/base",
	"deploy/kustomize/overlays/false",
	"deploy/kustomize/overlays/pre",
	"deploy/kustomize/overlays/exec",
	"deploy/testdata/metrics",
	"deploy/testdata/mtls",
	"deploy/testdata/zone-aware",
	"deploy/testdata/watch",
	"deploy/testdata/hpa",
	"deploy/testdata/events",
	"deploy/testdata/trial-proxy",
	"deploy/testdata/webhook",
	"deploy/testdata/webhook-cert-manager",
	"deploy/testdata/namespaced",
	"deploy/testdata/all",
	"deploy/testdata/own",
	"deploy/testdata/endpoints",
	"deploy/testdata/dataplane-policy",
	"deploy/testdata/sidecar-loopback",
	"deploy/testdata/exec-only",
	"deploy/testdata/values",
	"examples/gitops/clusters/example",
	"examples/cluster",
}

// manifests is an API server into which only the kinds of other projects were installed, and a kubectl for it.
type manifests struct {
	*guide
	client kubernetes.Interface
}

func newManifests(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{guide: newGuide(t)}
	var err error
	if m.client, err = kubernetes.NewForConfig(m.env.Config); err != nil {
		t.Fatal(err)
	}
	m.kubectl(t, "apply", "-k", "deploy/kustomize/crd")
	m.kubectl(t, "apply", "-f", "test/e2e/manifests/testdata/crds")
	m.kubectl(t, "wait", "--for=condition=Established", "crd", "--all")
	// What a cluster already has: namespaces of other projects.
	for _, name := range []string{"cert-manager", "monitoring", "ingress", "shop"} {
		m.kubectl(t, "create", "namespace", name)
	}
	return m
}

// try runs kubectl in the root of the checkout.
func (m *manifests) try(t *testing.T, stdin string, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.Kubectl(t), args...)
	cmd.Dir, cmd.Env, cmd.Stdin = root, m.environ, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl is try for commands that must succeed, without a warning.
func (m *manifests) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.try(t, "", args...)
	if err != nil || strings.Contains(out, "Warning:") {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestManifests applies everything to a real API server. testdata/crds has the kinds of other projects, which must exist first.
func TestManifests(t *testing.T) {
	t.Parallel() // it has its own API server
	m := newManifests(t)
	t.Run("StrictValidationFindsWhatIsWrong", m.testStrictness)
	t.Run("EachIsTakenAndGoesWithOneCommand", m.testEach)
	t.Run("PodsKeepToTheStrictestStandard", m.testPodSecurity)
	t.Run("ModeAloneChangesNoPod", m.testModes)
	t.Run("SidecarGoesAsItCame", m.testSidecarGoes)
	t.Run("PatchMovesAnExistingDeployment", m.testMigrated)
	t.Run("GitOpsControllersAreAskedInTheirWords", m.testGitOps)
}

// testStrictness checks that what passes below could have been rejected.
func (m *manifests) testStrictness(t *testing.T) {
	text := m.kubectl(t, "kustomize", "deploy/testdata/metrics")
	for what, wrong := range map[string][2]string{
		"field of Kubernetes":     {"unhealthyPodEvictionPolicy", "unhealthyPodPolicy"},
		"value of Kubernetes":     {"topology.kubernetes.io/zone\n", "Not A Label\n"},
		"field of somebody else":  {"podMetricsEndpoints", "podMetricsEndpoint"},
		"kind that is not there":  {"kind: PodMonitor", "kind: PodsMonitor"},
		"value of somebody else":  {"interval: 30s", "interval: often"},
		"name of a missing label": {"app.kubernetes.io/name: routesrv", "app.kubernetes.io/name/x: routesrv"},
	} {
		broken := strings.ReplaceAll(text, wrong[0], wrong[1])
		if broken == text {
			t.Fatalf("%s: nothing to break", what)
		}
		if out, err := m.try(t, broken, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%s: taken\n%s", what, out)
		}
	}
}

// testEach expects strict validation to report nothing, not even a warning, and nothing to be left afterwards.
func (m *manifests) testEach(t *testing.T) {
	for _, dir := range kustomizations {
		t.Run(dir, func(t *testing.T) {
			m.kubectl(t, "apply", "--server-side", "--validate=strict", "-k", dir)
			m.checkPods(t)
			m.kubectl(t, "delete", "--wait", "-k", dir)
			if out, err := m.try(t, "", "get", "--ignore-not-found", "-o", "name", "-k", dir); err != nil || strings.TrimSpace(out) != "" {
				t.Errorf("left after kubectl delete -k: %v\n%s", err, out)
			}
			if strings.HasSuffix(dir, "cluster") {
				return // deleted the namespace of the shop with it
			}
			if _, err := m.client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
				t.Errorf("a namespace of somebody else: %v", err)
			}
		})
	}
}

// testGitOps applies the examples for Flux and Argo CD, and checks that misspelled fields are rejected.
func (m *manifests) testGitOps(t *testing.T) {
	for _, namespace := range []string{"flux-system", "argocd"} {
		m.kubectl(t, "create", "namespace", namespace)
	}
	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-f", "examples/gitops/flux", "-f", "examples/gitops/argo")
	for file, wrong := range map[string][2]string{
		"flux/sources.yaml":      {"fromPath:", "from:"},
		"flux/routesrv.yaml":     {"kind: GitRepository", "kind: HelmRepository"},
		"argo/applications.yaml": {"selfHeal:", "selfheal:"},
	} {
		text, err := os.ReadFile("../../../examples/gitops/" + file)
		if err != nil {
			t.Fatal(err)
		}
		broken := strings.ReplaceAll(string(text), wrong[0], wrong[1])
		if broken == string(text) {
			t.Fatalf("%s: nothing to break", file)
		}
		if out, err := m.try(t, broken, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%s with %s: taken\n%s", file, wrong[1], out)
		}
	}
}

// checkPods checks that the API server would accept a pod of each Deployment, with the admission that the namespaces require.
func (m *manifests) checkPods(t *testing.T) {
	t.Helper()
	list, err := m.client.AppsV1().Deployments(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		if err := m.checkPod(t, &d); err != nil {
			t.Errorf("pod of %s/%s: %v", d.Namespace, d.Name, err)
		}
	}
	if len(list.Items) == 0 {
		t.Error("there is no Deployment")
	}
}

func (m *manifests) checkPod(t *testing.T, d *appsv1.Deployment) error {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-x", Namespace: d.Namespace, Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	pod.Spec.Priority = nil
	_, err := m.client.CoreV1().Pods(d.Namespace).Create(t.Context(), pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// testPodSecurity: the namespace requires the strictest standard, and the API server rejects pods that violate it.
func (m *manifests) testPodSecurity(t *testing.T) {
	m.kubectl(t, "apply", "--server-side", "-k", "deploy/kustomize/overlays/pre")
	list, err := m.client.AppsV1().Deployments(systemNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		if err := m.checkPod(t, &d); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		for what, weaken := range map[string]func(*corev1.PodSpec){
			"may be root": func(s *corev1.PodSpec) { weakenAll(s, func(c *corev1.SecurityContext) { c.RunAsUser = new(int64) }) },
			"may get privileges": func(s *corev1.PodSpec) {
				weakenAll(s, func(c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil })
			},
			"has capabilities": func(s *corev1.PodSpec) { weakenAll(s, func(c *corev1.SecurityContext) { c.Capabilities = nil }) },
			"any system call": func(s *corev1.PodSpec) {
				s.SecurityContext.SeccompProfile = nil
				weakenAll(s, func(c *corev1.SecurityContext) { c.SeccompProfile = nil })
			},
		} {
			weak := d.DeepCopy()
			weaken(&weak.Spec.Template.Spec)
			if err := m.checkPod(t, weak); !apierrors.IsForbidden(err) {
				t.Errorf("%s, %s: error %v, want forbidden", d.Name, what, err)
			}
		}
	}
	if len(list.Items) != 2 {
		t.Errorf("%d Deployments, want the route server and the proxy", len(list.Items))
	}
	m.kubectl(t, "delete", "-k", "deploy/kustomize/overlays/pre")
}

func weakenAll(s *corev1.PodSpec, change func(*corev1.SecurityContext)) {
	for i := range s.InitContainers {
		change(s.InitContainers[i].SecurityContext)
	}
	for i := range s.Containers {
		change(s.Containers[i].SecurityContext)
	}
}

// testSidecarGoes: from a user's proxies to data planes and back, each with one command, and without a change of the user's
// objects.
func (m *manifests) testSidecarGoes(t *testing.T) {
	const own = "deploy/testdata/own/deployment.yaml"
	get := func() *appsv1.Deployment {
		t.Helper()
		d, err := m.client.AppsV1().Deployments("ingress").Get(t.Context(), "skipper-ingress", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	m.kubectl(t, "apply", "-f", own)
	before := get()
	m.kubectl(t, "apply", "-k", filepath.Dir(own))
	if with := get(); len(with.Spec.Template.Spec.InitContainers) != len(before.Spec.Template.Spec.InitContainers)+1 {
		t.Fatalf("init containers %v: no sidecar", with.Spec.Template.Spec.InitContainers)
	}
	m.kubectl(t, "apply", "-f", own)
	if diff := cmp.Diff(before.Spec, get().Spec); diff != "" {
		t.Errorf("what is left (-before +after):\n%s", diff)
	}
}

// testModes: after the first apply, the next mode changes no Deployment of the cluster.
func (m *manifests) testModes(t *testing.T) {
	generations := func() string {
		t.Helper()
		list, err := m.client.AppsV1().Deployments(systemNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range list.Items {
			all = append(all, fmt.Sprint(d.Name, " ", d.Generation))
		}
		return strings.Join(all, ", ")
	}
	m.kubectl(t, "apply", "-k", "deploy/kustomize/overlays/false")
	before := generations()
	for _, mode := range []string{"Pre", "Exec", "False"} {
		m.kubectl(t, "apply", "-k", "deploy/kustomize/overlays/"+strings.ToLower(mode))
		c, err := m.client.CoreV1().ConfigMaps(systemNamespace).Get(t.Context(), "dataplane-mode", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Data["mode"] != mode {
			t.Errorf("mode %q, want %s", c.Data["mode"], mode)
		}
		if after := generations(); after != before {
			t.Errorf("%s: generations %s, before they were %s", mode, after, before)
		}
	}
}
