package deploy

import (
	"os"
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// readObjects reads a file of manifests.
func readObjects(path string) ([]*object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseObjects(string(text))
}

// dataPlane returns the Deployment of proxies with the sidecar; nil if the render has none. A DaemonSet or a StatefulSet becomes
// a Deployment with the same pods.
func dataPlane(t *testing.T, render string) *appsv1.Deployment {
	t.Helper()
	for _, o := range rendered[render] {
		d := &appsv1.Deployment{}
		switch o.kind {
		case "Deployment":
			d = as[appsv1.Deployment](t, o)
		case "DaemonSet":
			set := as[appsv1.DaemonSet](t, o)
			d.ObjectMeta, d.Spec.Template = set.ObjectMeta, set.Spec.Template
		case "StatefulSet":
			set := as[appsv1.StatefulSet](t, o)
			d.ObjectMeta, d.Spec.Template = set.ObjectMeta, set.Spec.Template
		}
		if d.Spec.Template.Labels["routesrv/dataplane"] == "true" {
			return d
		}
	}
	return nil
}

// sidecar returns the container of dataplane-client.
func sidecar(t *testing.T, d *appsv1.Deployment) *corev1.Container {
	t.Helper()
	for i := range d.Spec.Template.Spec.InitContainers {
		if c := &d.Spec.Template.Spec.InitContainers[i]; c.Name == "dataplane-client" {
			return c
		}
	}
	t.Fatalf("Deployment %s/%s has no sidecar", d.Namespace, d.Name)
	return nil
}

// containers returns all containers of a pod, in the order in which they start.
func containers(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}

// ours reports whether a container runs one of our binaries, and which.
func ours(c *corev1.Container) (binary string, ok bool) {
	if image, _, _ := strings.Cut(path.Base(c.Image), ":"); image != "routesrv" {
		return "", false
	}
	return strings.TrimPrefix(c.Command[0], "/usr/bin/"), true
}

// flagOf returns the value of a flag in the form -name=value.
func flagOf(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return ""
}

// mountOf returns the mount with a path.
func mountOf(t *testing.T, c *corev1.Container, path string) *corev1.VolumeMount {
	t.Helper()
	for i, m := range c.VolumeMounts {
		if path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/") {
			return &c.VolumeMounts[i]
		}
	}
	t.Fatalf("container %s: nothing is mounted where %q is", c.Name, path)
	return nil
}

func volumeOf(t *testing.T, d *appsv1.Deployment, name string) *corev1.Volume {
	t.Helper()
	for i, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return &d.Spec.Template.Spec.Volumes[i]
		}
	}
	t.Fatalf("Deployment %s/%s has no volume %s", d.Namespace, d.Name, name)
	return nil
}
