package deploy

import (
	"fmt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// object is one rendered object.
type object struct {
	kind, namespace, name string
	fields                map[string]any
}

func (o *object) String() string {
	return strings.TrimSpace(o.kind + " " + strings.TrimPrefix(o.namespace+"/"+o.name, "/"))
}

// parseObjects reads a stream of objects.
func parseObjects(stream string) ([]*object, error) {
	var all []*object
	for doc := range strings.SplitSeq(stream, "\n---\n") {
		o := &object{}
		if err := yaml.Unmarshal([]byte(doc), &o.fields); err != nil {
			return nil, err
		}
		if len(o.fields) == 0 {
			continue
		}
		o.kind, _ = o.fields["kind"].(string)
		meta, _ := o.fields["metadata"].(map[string]any)
		o.namespace, _ = meta["namespace"].(string)
		o.name, _ = meta["name"].(string)
		if o.kind == "" || o.name == "" {
			return nil, fmt.Errorf("an object without kind or name: %s", doc)
		}
		all = append(all, o)
	}
	return all, nil
}

// text returns the object with sorted keys, whichever version of kustomize wrote it.
func (o *object) text(t *testing.T) string {
	t.Helper()
	text, err := yaml.Marshal(o.fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// as decodes the object; a field that its kind does not have fails the test.
func as[T any](t *testing.T, o *object) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(o.text(t)), v); err != nil {
		t.Fatalf("%s: %v", o, err)
	}
	return v
}

// find returns the one object of the kind and name.
func find(t *testing.T, render, kind, name string) *object {
	t.Helper()
	var found []*object
	for _, o := range rendered[render] {
		if o.kind == kind && o.name == name {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects %s %s in %s, want one", len(found), kind, name, render)
	}
	return found[0]
}

// TestKindsOfKubernetesHaveNoUnknownFields finds misspelled fields without an API server.
func TestKindsOfKubernetesHaveNoUnknownFields(t *testing.T) {
	known := map[string]func(*testing.T, *object){
		"Namespace":                      decode[corev1.Namespace],
		"ServiceAccount":                 decode[corev1.ServiceAccount],
		"ConfigMap":                      decode[corev1.ConfigMap],
		"Service":                        decode[corev1.Service],
		"Deployment":                     decode[appsv1.Deployment],
		"DaemonSet":                      decode[appsv1.DaemonSet],
		"StatefulSet":                    decode[appsv1.StatefulSet],
		"HorizontalPodAutoscaler":        decode[autoscalingv2.HorizontalPodAutoscaler],
		"PodDisruptionBudget":            decode[policyv1.PodDisruptionBudget],
		"NetworkPolicy":                  decode[networkingv1.NetworkPolicy],
		"Ingress":                        decode[networkingv1.Ingress],
		"ClusterRole":                    decode[rbacv1.ClusterRole],
		"ClusterRoleBinding":             decode[rbacv1.ClusterRoleBinding],
		"Role":                           decode[rbacv1.Role],
		"RoleBinding":                    decode[rbacv1.RoleBinding],
		"ValidatingWebhookConfiguration": decode[admissionregistrationv1.ValidatingWebhookConfiguration],
	}
	// Kinds of other projects, or without a type here: the API server of the e2e tests knows them.
	foreign := []string{
		"RouteGroup", "CustomResourceDefinition", "ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "ClusterIssuer", "Issuer",
	}
	for name, objects := range rendered {
		for _, o := range objects {
			if check := known[o.kind]; check != nil {
				check(t, o)
			} else if !slices.Contains(foreign, o.kind) {
				t.Errorf("%s: nobody checks %s", name, o)
			}
		}
	}
}

func decode[T any](t *testing.T, o *object) { as[T](t, o) }

// differences lists where two values differ, as "a.b[2].c: x -> y".
func differences(path string, a, b any) []string {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		var all []string
		keys := make(map[string]bool)
		for k := range am {
			keys[k] = true
		}
		for k := range bm {
			keys[k] = true
		}
		for k := range keys {
			all = append(all, differences(path+"."+k, am[k], bm[k])...)
		}
		slices.Sort(all)
		return all
	}
	al, aok := a.([]any)
	bl, bok := b.([]any)
	if aok && bok && len(al) == len(bl) {
		var all []string
		for i := range al {
			all = append(all, differences(path+"["+strconv.Itoa(i)+"]", al[i], bl[i])...)
		}
		return all
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v -> %v", path, a, b)}
}

// lineDiff shows the differences of two texts side by side; empty if there are none.
func lineDiff(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}
