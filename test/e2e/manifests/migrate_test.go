package manifests

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testMigrated applies a Deployment of the reference, and then the kustomization that replaces its image and command.
func (m *manifests) testMigrated(t *testing.T) {
	const dir, old = "examples/migrate", "examples/migrate/skipper-ingress-routesrv.yaml"
	deployment := func() *appsv1.Deployment {
		d, err := m.client.AppsV1().Deployments("kube-system").Get(t.Context(), "skipper-ingress-routesrv", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-f", old)
	before := deployment()
	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-k", dir)
	m.checkPods(t)
	after := deployment()
	if after.UID != before.UID {
		t.Error("the Deployment was replaced, not changed")
	}
	c := &after.Spec.Template.Spec.Containers[0]
	if c.Image != "routesrv:1.0.0" || !slices.Equal(c.Command, []string{"/usr/bin/routesrv"}) {
		t.Errorf("image %s, command %q", c.Image, c.Command)
	}
	c.Image, c.Command = before.Spec.Template.Spec.Containers[0].Image, nil
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("more than image and command changed (-before +after):\n%s", diff)
	}

	m.kubectl(t, "apply", "--server-side", "--validate=strict", "-f", old) // the way back
	if diff := cmp.Diff(before.Spec, deployment().Spec); diff != "" {
		t.Errorf("after going back (-before +after):\n%s", diff)
	}
	m.kubectl(t, "delete", "--wait", "-f", old)
}
