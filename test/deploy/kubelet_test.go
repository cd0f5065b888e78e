package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// zone is the zone label of the pods.
const zone = "eu-central-1b"

// process is how a kubelet would start a container, with the volumes in folders of the test.
type process struct {
	binary    string
	args, env []string
}

// prepare creates the volumes of a container and adapts its arguments and variables to their paths. Nothing else is changed.
// Secrets are given by name.
func prepare(t *testing.T, render string, d *appsv1.Deployment, c *corev1.Container, secrets map[string]map[string][]byte) process {
	t.Helper()
	root := t.TempDir()
	var moved []string // pairs for a replacer
	for _, m := range c.VolumeMounts {
		dir := filepath.Join(root, m.Name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range volumeFiles(t, render, d, m.Name, secrets) {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		moved = append(moved, m.MountPath+"/", dir+"/", "="+m.MountPath, "="+dir)
	}
	local := strings.NewReplacer(moved...)
	binary, _ := ours(c)
	p := process{binary: filepath.Join(binaries, binary)}
	for _, a := range c.Args {
		p.args = append(p.args, local.Replace(a))
	}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = field(t, e.ValueFrom.FieldRef.FieldPath)
		}
		p.env = append(p.env, e.Name+"="+local.Replace(value))
	}
	return p
}

// volumeFiles returns the files that a volume has when the container starts.
func volumeFiles(t *testing.T, render string, d *appsv1.Deployment, name string, secrets map[string]map[string][]byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	switch v := volumeOf(t, d, name); {
	case v.ConfigMap != nil:
		for key, text := range as[corev1.ConfigMap](t, find(t, render, "ConfigMap", v.ConfigMap.Name)).Data {
			files[key] = []byte(text)
		}
	case v.DownwardAPI != nil:
		for _, item := range v.DownwardAPI.Items {
			files[item.Path] = []byte(field(t, item.FieldRef.FieldPath))
		}
	case v.Secret != nil:
		for key, value := range secrets[v.Secret.SecretName] {
			files[key] = value
		}
	case v.EmptyDir == nil:
		t.Fatalf("%s: volume %s is of a kind that this test does not know", render, name)
	}
	return files
}

// field returns the value of a field of the downward API.
func field(t *testing.T, path string) string {
	t.Helper()
	switch path {
	case "metadata.namespace":
		return "routesrv"
	case "metadata.name":
		return "skipper-ingress-6d9f7c-x2x7z"
	case "spec.nodeName":
		return "node-1"
	case "metadata.labels['topology.kubernetes.io/zone']":
		return zone
	}
	t.Fatalf("field %q of the downward API is not known to this test", path)
	return ""
}
