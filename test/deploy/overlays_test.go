package deploy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestOverlaysDifferInTheModeAlone: the step from one overlay to the next is one value of one ConfigMap, so nothing is restarted.
func TestOverlaysDifferInTheModeAlone(t *testing.T) {
	modes := []struct{ render, mode string }{{"overlay-false", "False"}, {"overlay-pre", "Pre"}, {"overlay-exec", "Exec"}}
	for i, from := range modes {
		if got := find(t, from.render, "ConfigMap", "dataplane-mode").fields["data"]; !reflect.DeepEqual(got, map[string]any{"mode": from.mode}) {
			t.Errorf("%s has the mode %v, want %s", from.render, got, from.mode)
		}
		for _, to := range modes[i+1:] {
			want := []string{fmt.Sprintf("ConfigMap routesrv/dataplane-mode.data.mode: %s -> %s", from.mode, to.mode)}
			if diff := cmp.Diff(want, changes(rendered[from.render], rendered[to.render])); diff != "" {
				t.Errorf("from %s to %s (-want +got):\n%s", from.render, to.render, diff)
			}
		}
	}
}

// changes lists what differs between two renders.
func changes(from, to []*object) []string {
	byName := func(objects []*object) map[string]any {
		all := make(map[string]any)
		for _, o := range objects {
			all[o.String()] = o.fields
		}
		return all
	}
	a, b := byName(from), byName(to)
	names := make(map[string]bool)
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, differences(name, a[name], b[name])...)
	}
	return all
}

// TestModeReachesARunningPod: a ConfigMap whose name changes with its content restarts the pods, and a file that is mounted by
// itself is never updated.
func TestModeReachesARunningPod(t *testing.T) {
	for render := range rendered {
		d := dataPlane(t, render)
		if d == nil || render == "component-exec-only" { // which has one mode for good
			continue
		}
		c := sidecar(t, d)
		path := flagOf(c.Args, "--mode-file")
		mount := mountOf(t, c, path)
		if mount.SubPath != "" || mount.SubPathExpr != "" {
			t.Errorf("%s: %s is mounted as a single file", render, path)
		}
		v := volumeOf(t, d, mount.Name)
		if v.ConfigMap == nil || v.ConfigMap.Name != "dataplane-mode" {
			t.Errorf("%s: %s is of the volume %v, want the ConfigMap dataplane-mode", render, path, v)
		}
		mode := find(t, render, "ConfigMap", "dataplane-mode")
		if mode.namespace != d.Namespace {
			t.Errorf("%s: the mode is in the namespace %s, the pods are in %s", render, mode.namespace, d.Namespace)
		}
		if want := strings.TrimPrefix(strings.TrimPrefix(path, mount.MountPath), "/"); as[corev1.ConfigMap](t, mode).Data[want] == "" {
			t.Errorf("%s: the ConfigMap has no key %q", render, want)
		}
	}
}

// TestDataPlaneOnlyAdds: a Deployment keeps everything it had, with additional flags after its own.
func TestDataPlaneOnlyAdds(t *testing.T) {
	own, err := readObjects("testdata/own/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		before *object
		render string
	}{
		{"the example", find(t, "skipper", "Deployment", "skipper-ingress"), "overlay-exec"},
		{"somebody's own", own[0], "own-deployment"},
	} {
		after := find(t, tt.render, "Deployment", "skipper-ingress")
		for _, loss := range losses("", tt.before.fields, after.fields) {
			t.Errorf("%s: %s", tt.name, loss)
		}
		before, now := as[appsv1.Deployment](t, tt.before), as[appsv1.Deployment](t, after)
		args := now.Spec.Template.Spec.Containers[0].Args[len(before.Spec.Template.Spec.Containers[0].Args):]
		want := []string{"-kubernetes=false", "-routes-urls=http://127.0.0.1:9005/routes", "-wait-first-route-load", "-normalize-host"}
		if diff := cmp.Diff(want, args); diff != "" {
			t.Errorf("%s: flags for the proxy (-want +got):\n%s", tt.name, diff)
		}
	}
}

// losses lists what a has and b lacks or has changed. Lists of named items are compared by name; others may be longer.
func losses(path string, a, b any) []string {
	switch a := a.(type) {
	case map[string]any:
		bm, ok := b.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: %v became %v", path, a, b)}
		}
		var all []string
		for _, k := range slices.Sorted(maps.Keys(a)) {
			all = append(all, losses(path+"."+k, a[k], bm[k])...)
		}
		return all
	case []any:
		bl, _ := b.([]any)
		var all []string
		for i, item := range a {
			if m, ok := item.(map[string]any); ok && m["name"] != nil {
				at := slices.IndexFunc(bl, func(other any) bool { return other.(map[string]any)["name"] == m["name"] })
				if at < 0 {
					all = append(all, fmt.Sprintf("%s: %v is gone", path, m["name"]))
					continue
				}
				all = append(all, losses(fmt.Sprintf("%s[%v]", path, m["name"]), m, bl[at])...)
			} else if i >= len(bl) || !reflect.DeepEqual(item, bl[i]) {
				all = append(all, fmt.Sprintf("%s[%d]: %v is gone or elsewhere", path, i, item))
			}
		}
		return all
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v became %v", path, a, b)}
}

// TestSidecarIsUpBeforeTheProxyAndDownAfterIt: an init container with a restart policy ensures that. A Skipper that finds no
// table when it starts gives up.
func TestSidecarIsUpBeforeTheProxyAndDownAfterIt(t *testing.T) {
	for render := range rendered {
		d := dataPlane(t, render)
		if d == nil {
			continue
		}
		c := sidecar(t, d)
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: the sidecar is an init container that has to end", render)
		}
		if c.StartupProbe == nil || c.StartupProbe.HTTPGet == nil || c.StartupProbe.HTTPGet.Path != "/health" {
			t.Errorf("%s: the proxy does not wait until there is a table", render)
		}
		if c.ReadinessProbe != nil {
			t.Errorf("%s: the sidecar can take a proxy out of service that has its table", render)
		}
	}
}

// TestRightsGoToTheAccountOfTheProxies: in every mode, for the way back.
func TestRightsGoToTheAccountOfTheProxies(t *testing.T) {
	for _, render := range []string{"overlay-false", "overlay-pre", "overlay-exec", "own-deployment", "component-namespaced", "example-cluster"} {
		d := dataPlane(t, render)
		kind := "ClusterRoleBinding"
		if render == "component-namespaced" {
			kind = "RoleBinding"
		}
		b := find(t, render, kind, "routesrv-dataplane")
		want := []any{map[string]any{"kind": "ServiceAccount", "name": d.Spec.Template.Spec.ServiceAccountName, "namespace": d.Namespace}}
		if diff := cmp.Diff(want, b.fields["subjects"]); diff != "" {
			t.Errorf("%s: subjects (-want +got):\n%s", render, diff)
		}
	}
}

// TestPolicyLetsTheProxiesIn: in any namespace. Pods with the network of their node match no namespace.
func TestPolicyLetsTheProxiesIn(t *testing.T) {
	for render := range rendered {
		d := dataPlane(t, render)
		if d == nil {
			continue
		}
		policy := as[networkingv1.NetworkPolicy](t, find(t, render, "NetworkPolicy", "routesrv"))
		if !slices.ContainsFunc(policy.Spec.Ingress[0].From, func(peer networkingv1.NetworkPolicyPeer) bool {
			if d.Spec.Template.Spec.HostNetwork {
				return peer.IPBlock != nil
			}
			return peer.NamespaceSelector != nil && peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] == d.Namespace
		}) {
			t.Errorf("%s: the proxies are in the namespace %q, with the network of the node: %t; the policy lets in %v",
				render, d.Namespace, d.Spec.Template.Spec.HostNetwork, policy.Spec.Ingress[0].From)
		}
	}
}

// TestBothSidesHaveTheSameFlags: the comparison would report a flag that only one side has.
func TestBothSidesHaveTheSameFlags(t *testing.T) {
	for render := range rendered {
		d := dataPlane(t, render)
		if d == nil {
			continue
		}
		server := as[appsv1.Deployment](t, find(t, render, "Deployment", "routesrv"))
		a := configFile(t, render, server, &server.Spec.Template.Spec.Containers[0])
		b := configFile(t, render, d, sidecar(t, d))
		if a == "" || a != b {
			t.Errorf("%s: the route server has the flags\n%s\nand the data planes have\n%s", render, a, b)
		}
	}
}

// configFile returns the content of the file that -config-file names.
func configFile(t *testing.T, render string, d *appsv1.Deployment, c *corev1.Container) string {
	t.Helper()
	path := flagOf(c.Args, "-config-file")
	mount := mountOf(t, c, path)
	name := volumeOf(t, d, mount.Name).ConfigMap.Name
	o := find(t, render, "ConfigMap", name)
	if o.namespace != d.Namespace {
		t.Errorf("%s: %s is not in the namespace of %s/%s", render, o, d.Namespace, d.Name)
	}
	return as[corev1.ConfigMap](t, o).Data[strings.TrimPrefix(path, mount.MountPath+"/")]
}
