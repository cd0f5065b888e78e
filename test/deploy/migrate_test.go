package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// reference is a Deployment of the reference with the objects that belong to it.
const reference = "../internal/migrate/testdata/platform.yaml"

// migrated returns the rendered output of routesrv migrate for a file, and the notes.
func migrated(t *testing.T) ([]*object, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "overlay")
	run := func(name string, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), name, args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
		}
		return out
	}
	binary := filepath.Join(binaries, "routesrv")
	run(binary, "migrate", "--base", "kustomize/base", "--image", "example/routesrv:1.0.0", "-o", dir, reference)
	if err := exec.CommandContext(t.Context(), binary, "migrate", "--base", "kustomize/base", "-o", dir, reference).Run(); err == nil {
		t.Error("a folder with files was written to")
	}
	notes, err := os.ReadFile(filepath.Join(dir, "NOTES.md"))
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	// A relative base is resolved after following the links of the temporary folder.
	objects, err := parseObjects(string(run(kubectl, "kustomize", dir)))
	if err != nil {
		t.Fatal(err)
	}
	return objects, string(notes)
}

// one returns the only object of a kind with a name.
func one[T any](t *testing.T, objects []*object, kind, name string) *T {
	t.Helper()
	for _, o := range objects {
		if o.kind == kind && o.name == name {
			return as[T](t, o)
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

var servicePatch = regexp.MustCompile(`patch service skipper-ingress-routesrv --type merge -p '(.*)'`)

// patched returns a Service after one of the commands of the notes.
func patched(t *testing.T, s *corev1.Service, patch string) *corev1.Service {
	t.Helper()
	s = s.DeepCopy()
	if err := json.Unmarshal([]byte(patch), s); err != nil { // for a map this adds and replaces keys, as a merge patch does
		t.Fatal(err)
	}
	return s
}

// TestAMigratedRouteServerRunsBesideTheOldOne: one command of the notes moves the Service to the new one, and another moves it
// back.
func TestAMigratedRouteServerRunsBesideTheOldOne(t *testing.T) {
	const name = "skipper-ingress-next-routesrv"
	objects, notes := migrated(t)
	old, err := readObjects(reference)
	if err != nil {
		t.Fatal(err)
	}
	oldDeployment := one[appsv1.Deployment](t, old, "Deployment", "skipper-ingress-routesrv")
	service := one[corev1.Service](t, old, "Service", "skipper-ingress-routesrv")
	d := one[appsv1.Deployment](t, objects, "Deployment", name)
	newPods, oldPods := labels.Set(d.Spec.Template.Labels), labels.Set(oldDeployment.Spec.Template.Labels)

	taken := make(map[string]bool)
	for _, o := range old {
		taken[o.kind+o.name] = true
	}
	for _, o := range objects {
		if o.kind == "Namespace" || taken[o.kind+o.name] {
			t.Errorf("%s would replace what is there", o)
		}
		if namespaced := !strings.HasPrefix(o.kind, "Cluster"); namespaced && o.namespace != "kube-system" {
			t.Errorf("%s is in namespace %q", o, o.namespace)
		}
	}
	selects := func(s *metav1.LabelSelector, pods labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(pods)
	}
	for what, s := range map[string]*metav1.LabelSelector{
		"Deployment":          d.Spec.Selector,
		"Service":             {MatchLabels: one[corev1.Service](t, objects, "Service", name).Spec.Selector},
		"Service of peers":    {MatchLabels: one[corev1.Service](t, objects, "Service", name+"-peers").Spec.Selector},
		"PodDisruptionBudget": one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget", name).Spec.Selector,
		"NetworkPolicy":       &one[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", name).Spec.PodSelector,
	} {
		if !selects(s, newPods) || selects(s, oldPods) {
			t.Errorf("the new %s selects new pods: %t, old pods: %t", what, selects(s, newPods), selects(s, oldPods))
		}
	}
	if selects(oldDeployment.Spec.Selector, newPods) {
		t.Error("the old Deployment selects the new pods")
	}

	commands := servicePatch.FindAllStringSubmatch(notes, -1)
	if len(commands) != 2 {
		t.Fatalf("%d patches of the Service in\n%s", len(commands), notes)
	}
	there := patched(t, service, commands[0][1])
	back := patched(t, there, commands[1][1])
	for _, tt := range []struct {
		when     string
		selector map[string]string
		old, new bool
	}{{"before", service.Spec.Selector, true, false}, {"after the switch", there.Spec.Selector, false, true}, {"back", back.Spec.Selector, true, false}} {
		s := labels.SelectorFromSet(tt.selector)
		if s.Matches(oldPods) != tt.old || s.Matches(newPods) != tt.new {
			t.Errorf("%s, %v selects old pods: %t, new pods: %t", tt.when, s, s.Matches(oldPods), s.Matches(newPods))
		}
	}

	c := &d.Spec.Template.Spec.Containers[0]
	for _, s := range []*corev1.Service{service, one[corev1.Service](t, objects, "Service", name)} {
		for _, port := range s.Spec.Ports {
			if !listens(c, port.TargetPort.IntValue(), port.TargetPort.StrVal) {
				t.Errorf("Service %s: nothing listens at %v", s.Name, &port.TargetPort)
			}
		}
	}
	if c.Image != "example/routesrv:1.0.0" || *d.Spec.Template.Spec.SecurityContext.RunAsUser != 1000 {
		t.Errorf("image %s, user %d", c.Image, *d.Spec.Template.Spec.SecurityContext.RunAsUser)
	}
	if got := flagOf(c.Args, "--peers"); got != fmt.Sprintf("%s-peers.kube-system.svc:9990", name) {
		t.Errorf("peers %s", got)
	}
	binding := one[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", name)
	if s := binding.Subjects[0]; binding.RoleRef.Name != name || s.Name != d.Spec.Template.Spec.ServiceAccountName || s.Namespace != "kube-system" {
		t.Errorf("rights are given by %+v", binding)
	}
	one[rbacv1.ClusterRole](t, objects, "ClusterRole", name)

	// The program accepts every argument.
	p := process{binary: filepath.Join(binaries, "routesrv"), args: c.Args}
	if status, out := check(t, p); status != 0 || strings.Contains(out, "warning") {
		t.Errorf("exit status %d\n%s", status, out)
	}
}

// listens reports whether a container has a port with that number or name.
func listens(c *corev1.Container, number int, name string) bool {
	for _, p := range c.Ports {
		if int(p.ContainerPort) == number || name != "" && p.Name == name {
			return true
		}
	}
	return false
}
