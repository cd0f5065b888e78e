package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	valuesFile   = "kustomize/values/values.yaml"
	valuesGolden = "testdata/values.changes.txt"
)

// otherValues are the values of another cluster, all different from the defaults.
var otherValues = map[string]any{
	"image":                      "registry.example.org/edge/other:v1",
	"runbookBase":                "https://wiki.example.org/runbook",
	"namespace":                  "edge-routes",
	"flags":                      "kubernetes-path-mode: path-prefix\n",
	"watchedNamespace":           "tenant",
	"proxies.namespace":          "edge",
	"proxies.serviceAccount":     "edge-proxy",
	"proxies.mode":               "Exec:25%",
	"network.clients":            []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.1.0.0/16"}}},
	"network.monitoring":         []any{namespacePeer("observability")},
	"network.apiServer":          map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.1/32"}}}, "ports": []any{port("TCP", 8443)}},
	"network.dns":                map[string]any{"to": []any{namespacePeer("dns")}, "ports": []any{port("UDP", 5353)}},
	"certificates.caNamespace":   "pki",
	"certificates.clusterDomain": "example.internal",
}

func namespacePeer(name string) map[string]any {
	return map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": name}}}
}

func port(protocol string, number int) map[string]any {
	return map[string]any{"protocol": protocol, "port": number}
}

// defaultValues returns the values of the file, by the paths of otherValues.
func defaultValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(valuesFile)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict(text, &fields); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]any)
	for key, value := range fields {
		switch group, isGroup := value.(map[string]any); {
		case key == "apiVersion" || key == "kind" || key == "metadata":
		case isGroup:
			for name, v := range group {
				values[key+"."+name] = v
			}
		default:
			values[key] = value
		}
	}
	return values
}

// renderValues renders everything with the default values and the changed ones, from a folder that has one file of values and
// refers to the manifests.
func renderValues(t *testing.T, changed map[string]any) []*object {
	t.Helper()
	content := map[string]any{
		"apiVersion": "routesrv.github.io/v1alpha1", "kind": "SiteValues",
		"metadata": map[string]any{"name": "routesrv", "annotations": map[string]any{"config.kubernetes.io/local-config": "true"}},
	}
	values := defaultValues(t)
	maps.Copy(values, changed)
	for path, value := range values {
		group, name, isGroup := strings.Cut(path, ".")
		if !isGroup {
			content[path] = value
			continue
		}
		if content[group] == nil {
			content[group] = map[string]any{}
		}
		content[group].(map[string]any)[name] = value
	}
	// kustomize resolves relative paths after following the links of a temporary folder.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"values.yaml": content,
		"kustomization.yaml": map[string]any{
			"resources":  []any{filepath.Join(manifests, "testdata/everything"), "values.yaml"},
			"components": []any{filepath.Join(manifests, "kustomize/components/values")},
		},
	} {
		text, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kustomize(kubectl, dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// hash matches the end of the name of a ConfigMap with flags.
var hash = regexp.MustCompile(`-[a-z0-9]{10}$`)

// places lists what differs between two renders, by kinds and names only, because a namespace may be among the changes.
func places(t *testing.T, from, to []*object) []string {
	t.Helper()
	byName := func(objects []*object) map[string]any {
		all := make(map[string]any)
		for _, o := range objects {
			name := o.name
			switch o.kind {
			case "ConfigMap":
				name = hash.ReplaceAllString(name, "")
			case "Namespace":
				name = "of the route servers"
			}
			name = o.kind + " " + name
			if all[name] != nil {
				t.Fatalf("two objects %s", name)
			}
			all[name] = o.fields
		}
		return all
	}
	a, b := byName(from), byName(to)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if b[name] == nil {
			t.Errorf("%s is lost", name)
		}
		all = append(all, differences(name, a[name], b[name])...)
	}
	if len(a) != len(b) {
		t.Errorf("%d objects became %d", len(a), len(b))
	}
	return all
}

// TestDefaultValuesChangeNothing: except the comments in the file of flags.
func TestDefaultValuesChangeNothing(t *testing.T) {
	flags := func(text string) (settings map[string]any) {
		if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
			t.Fatal(err)
		}
		return settings
	}
	read := func(render, name string) map[string]any {
		for _, o := range rendered[render] {
			if o.kind == "ConfigMap" && hash.ReplaceAllString(o.name, "") == name {
				return flags(o.fields["data"].(map[string]any)["flags.yaml"].(string))
			}
		}
		t.Fatalf("%s has no ConfigMap %s", render, name)
		return nil
	}
	for _, name := range []string{"routesrv-flags", "dataplane-flags"} {
		if diff := cmp.Diff(read("everything", name), read("values", name)); diff != "" {
			t.Errorf("%s (-without values +with the default ones):\n%s", name, diff)
		}
	}
	var rest []string
	for _, place := range places(t, rendered["everything"], rendered["values"]) {
		if !strings.Contains(place, "-flags") {
			rest = append(rest, place)
		}
	}
	if len(rest) > 0 {
		t.Errorf("the default values change\n%s", strings.Join(rest, "\n"))
	}
}

// TestEachValueChangesItsPlaces: and no others; the golden file lists them for each value.
func TestEachValueChangesItsPlaces(t *testing.T) {
	defaults := defaultValues(t)
	var got strings.Builder
	got.WriteString("What each value of deploy/kustomize/values/values.yaml changes. Written by make golden.\n")
	for _, path := range slices.Sorted(maps.Keys(defaults)) {
		value, ok := otherValues[path]
		if !ok {
			t.Errorf("no other value for %s", path)
			continue
		}
		changed := places(t, rendered["values"], renderValues(t, map[string]any{path: value}))
		if len(changed) == 0 {
			t.Errorf("%s changes nothing", path)
		}
		fmt.Fprintf(&got, "\n%s: %v -> %v\n", path, defaults[path], value)
		for _, place := range changed {
			fmt.Fprintf(&got, "    %s\n", strings.ReplaceAll(place, "\n", `\n`))
		}
	}
	if len(otherValues) != len(defaults) {
		t.Errorf("%d values in the file, %d in the test", len(defaults), len(otherValues))
	}
	if *update {
		if err := os.WriteFile(valuesGolden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(valuesGolden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := lineDiff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs; if that is meant, run make golden and read the diff:\n%s", valuesGolden, diff)
	}
}

// TestNothingIsLeftOfTheDefaultValues: when all are changed; otherwise a manifest that names a default value somewhere else would
// have to be edited.
func TestNothingIsLeftOfTheDefaultValues(t *testing.T) {
	defaults := regexp.MustCompile(`[./]routesrv[./]|^docs/|^routesrv:devel$|^shop$|^kube-system$|^skipper-ingress$|^monitoring$|^cert-manager$|cluster\.local|enable-kubernetes-endpointslices`)
	namespaces := map[any]bool{"edge-routes": true, "edge": true, "tenant": true, "pki": true}
	kept := map[string]bool{
		// The webhook ignores this namespace, whatever is in it.
		"ValidatingWebhookConfiguration routesrv.webhooks[0].namespaceSelector.matchExpressions[0].values[0]": true,
		"ValidatingWebhookConfiguration routesrv.webhooks[0].name":                                            true, // a domain of the project
	}
	objects := renderValues(t, otherValues)
	for _, o := range objects {
		if o.namespace == "kube-system" { // the proxies of the test are a user's own manifest
			continue
		}
		name := o.kind + " " + o.name
		if o.namespace != "" && !namespaces[o.namespace] {
			t.Errorf("%s is in the namespace %s", name, o.namespace)
		}
		leaves(name, o.fields, func(path string, value any) {
			text, ok := value.(string)
			if strings.HasSuffix(path, ".namespace") && !namespaces[value] {
				t.Errorf("%s: %v", path, value)
			}
			// Paths in images name the program, not the namespace.
			isPath := strings.HasPrefix(text, "/") || strings.Contains(text, "=/")
			if ok && !isPath && !kept[path] && o.name != "routesrv-dashboard" && defaults.MatchString(text) {
				t.Errorf("%s: %s", path, text)
			}
		})
	}
	// The sidecar is ours, the rest of the pod is not.
	for _, o := range objects {
		if o.kind == "StatefulSet" {
			side, err := yaml.Marshal(o.fields["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["initContainers"])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"https://routesrv.edge-routes.svc", "registry.example.org/edge/other:v1", "value: tenant"} {
				if !strings.Contains(string(side), want) {
					t.Errorf("the sidecar has no %q:\n%s", want, side)
				}
			}
		}
	}
}

// leaves visits every value that contains no other values.
func leaves(path string, value any, visit func(path string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			leaves(path+"."+key, inner, visit)
		}
	case []any:
		for i, inner := range v {
			leaves(fmt.Sprintf("%s[%d]", path, i), inner, visit)
		}
	default:
		visit(path, v)
	}
}

// TestAMissingValueIsAnError: otherwise a new version that needs another value could be applied with a wrong one.
func TestAMissingValueIsAnError(t *testing.T) {
	text, err := os.ReadFile(valuesFile)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"image: ", "namespace: ", "  mode: ", "  clusterDomain: "} {
		dir := t.TempDir()
		tree := filepath.Join(dir, "vendor")
		if err := os.CopyFS(tree, os.DirFS("kustomize")); err != nil {
			t.Fatal(err)
		}
		broken := strings.Replace(string(text), "\n"+key, "\n"+strings.TrimRight(key, ": ")+"Misspelled: ", 1)
		if broken == string(text) {
			t.Fatalf("the file has no %q", key)
		}
		if err := os.WriteFile(filepath.Join(tree, "values", "values.yaml"), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		own := "resources: [vendor/base, vendor/values]\ncomponents: [vendor/components/sidecar, vendor/components/values]\n"
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := kustomize(kubectl, dir); err == nil || !strings.Contains(err.Error(), "is missing for replacement source SiteValues") {
			t.Errorf("without %q: %v", key, err)
		}
	}
}
