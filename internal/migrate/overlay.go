package migrate

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed overlay/*.tmpl
var templates embed.FS

// overlay has a template for each file.
var overlay = template.Must(template.New("overlay").Funcs(template.FuncMap{
	"cell": strings.NewReplacer("|", `\|`, "\n", " ").Replace,
	"yaml": indented,
}).ParseFS(templates, "overlay/*.tmpl"))

// indented returns a value as YAML. Its lines after the first one are indented.
func indented(spaces int, value any) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n"+strings.Repeat(" ", spaces)), err
}

// files returns all files. A template without a result is not needed here.
func (m *migration) files() (map[string][]byte, error) {
	values, err := m.values()
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, t := range overlay.Templates() {
		var b bytes.Buffer
		if err := t.Execute(&b, values); err != nil {
			return nil, fmt.Errorf("write %s: %w", t.Name(), err)
		}
		if b.Len() > 0 {
			files[strings.TrimSuffix(t.Name(), ".tmpl")] = b.Bytes()
		}
	}
	return files, nil
}

// values returns what the templates need.
func (m *migration) values() (map[string]any, error) {
	deployment, err := m.deployment()
	if err != nil {
		return nil, err
	}
	clients, err := m.clients()
	if err != nil {
		return nil, err
	}
	old, a := m.in.Deployment, &m.arguments
	values := map[string]any{
		"Old": old.Name, "New": m.name(), "Namespace": m.in.Namespace(), "Prefix": m.Prefix, "Base": m.Base, "Image": m.Image,
		"Labels": m.labels, "Deployment": deployment, "Pod": m.pod, "Container": m.container, "Strategy": old.Spec.Strategy,
		"OwnReadiness": asks(m.container.ReadinessProbe), "Main": a.main, "Support": a.support, "API": a.api, "TLS": a.TLS.Enable,
		"EndpointSlices": a.Source.EndpointSlices, "Only": a.Source.Namespace, "Monitoring": m.Monitoring, "Clients": clients,
		"Services": m.switched(), "ServiceKnown": len(m.in.Services) > 0, "Replicas": int32(1),
		"Account": cmp.Or(m.pod.ServiceAccountName, "default"), "Notes": m.notes,
	}
	if r := old.Spec.Replicas; r != nil {
		values["Replicas"] = *r
	}
	return values, nil
}

// switched is a Service with the merge patches of its selector: to the new pods, and back.
type switched struct{ Name, There, Back string }

// switched returns the Services of the old pods, or one that stands for them. In a merge patch, null removes a label that the new pods lack.
func (m *migration) switched() (all []switched) {
	services := m.in.Services
	if len(services) == 0 {
		selector := m.in.Deployment.Spec.Selector.MatchLabels
		services = []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "SERVICE"}, Spec: corev1.ServiceSpec{Selector: selector}}}
	}
	for _, s := range services {
		to, from := make(object), make(object)
		for key, was := range s.Spec.Selector {
			if value := m.labels.of(key); value != was {
				to[key], from[key] = value, was
			}
		}
		all = append(all, switched{s.Name, selectorPatch(to), selectorPatch(from)})
	}
	return all
}

// selectorPatch returns the merge patch of a selector.
func selectorPatch(labels object) string {
	text, _ := json.Marshal(object{"spec": object{"selector": labels}}) // strings always have a JSON form
	return string(text)
}

// clients returns the rules for requests of clients.
//
// Without a policy for the old pods, the new pods accept requests for tables from everywhere, too: proxies on the network of
// their nodes have no namespace that a policy could name, and a policy that blocks them would show only after the switch.
func (m *migration) clients() (rules []any, err error) {
	if len(m.in.Policies) == 0 {
		m.note("the policy of the overlay lets every pod ask for tables, as before, but only the namespace `"+m.Monitoring+"` read metrics (`--monitoring-namespace`). "+
			"After the switch, narrow the first rule of networkpolicy.yaml: use `namespaceSelector` for proxies with pod addresses, and `ipBlock` with the node addresses "+
			"for proxies with hostNetwork", "no NetworkPolicy selects the old pods")
		return []any{object{"ports": []object{{"protocol": "TCP", "port": m.arguments.main}}}}, nil
	}
	for _, old := range m.in.Policies {
		if len(old.Spec.PolicyTypes) > 0 && !slices.Contains(old.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		spec, err := m.carried(old.Spec, nil)
		if err != nil {
			return nil, fmt.Errorf("NetworkPolicy %s: %w", old.Name, err)
		}
		m.selecting(spec["ingress"])
		ofOld, _ := spec["ingress"].([]any)
		rules = append(rules, ofOld...)
		m.note("the policy of the overlay has its ingress rules. It does not have its egress rules: routesrv needs only the API server, DNS and its other replicas",
			"NetworkPolicy `%s` selects the old pods", old.Name)
	}
	return rules, nil
}
