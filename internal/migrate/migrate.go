// Package migrate creates a kustomize overlay that runs routesrv beside a Deployment of Skipper's route server. For everything that
// the overlay does not carry over it gives the reason.
//
// [Parse] returns the objects, [Make] the files of the overlay. Make is pure: it reads and writes nothing. The overlay is the base with
// patches. The old Deployment is one of them, without the fields in which routesrv has to follow the base. It runs in the same
// namespace under different names, so it has no traffic at first. Its pods have the labels of the old ones except for one, by which the
// old Deployment and its Services select. Changing that label in the selector of the Service switches the traffic, and changing it back
// reverts that.
package migrate

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/internal/config"
)

// Names and paths of the base of the overlay.
const (
	baseName  = "routesrv" // of the Deployment, the container, the Service and the rights
	peersName = "routesrv-peers"
	stateDir  = "/var/lib/routesrv"
)

// Options configure the overlay.
type Options struct {
	// Base is the path or URL of the folder deploy/kustomize/base, as kustomization.yaml names it.
	Base string
	// Prefix begins the names of all objects. Empty derives it from the name of the old Deployment.
	Prefix string
	// Image is the image of routesrv, NAME[:TAG][@DIGEST]. Empty keeps the image of the base.
	Image string
	// Container is the container of the old Deployment that is the route server. Empty finds it.
	Container string
	// LeaveOut are flags, without dashes, that are not carried over.
	LeaveOut []string
	// Monitoring is the namespace of Prometheus, for the NetworkPolicy.
	Monitoring string
}

// Overlay is the result of Make.
type Overlay struct {
	// Files are the contents by name, in one folder.
	Files map[string][]byte
	// Warnings are the warnings of --check-config for the old arguments.
	Warnings []config.Warning
	// NotCarried is what the overlay does not carry over, as in NOTES.md.
	NotCarried []Note
}

// Note is something that is not carried over, or is carried over differently.
type Note struct{ What, Why string }

// migration is one run of Make.
type migration struct {
	Options
	in        *Input
	pod       *corev1.PodSpec   // of the old Deployment
	container *corev1.Container // of the old Deployment

	arguments arguments
	labels    labelling
	notes     []Note
}

// Make creates the overlay. If the old arguments cannot be used, it returns the error of --check-config.
func Make(in *Input, o Options) (*Overlay, error) {
	m := &migration{Options: o, in: in, pod: &in.Deployment.Spec.Template.Spec}
	if err := m.begin(); err != nil {
		return nil, err
	}
	warnings, err := m.readArguments()
	if err != nil {
		return &Overlay{Warnings: warnings}, err
	}
	if err := m.label(); err != nil {
		return nil, err
	}
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return &Overlay{Files: files, Warnings: warnings, NotCarried: m.notes}, nil
}

// begin completes the options and finds the container of the route server.
func (m *migration) begin() error {
	if m.Base == "" {
		return errors.New("no base")
	}
	if m.Prefix == "" {
		m.Prefix = strings.TrimSuffix(strings.TrimSuffix(m.in.Deployment.Name, baseName), "-") + "-next-"
		m.Prefix = strings.TrimPrefix(m.Prefix, "-")
	}
	if longest := m.Prefix + peersName; len(validation.IsDNS1035Label(longest)) > 0 {
		return fmt.Errorf("prefix %q: %q is no name of a Service: want at most 63 small letters, digits and dashes, a letter first", m.Prefix, longest)
	}
	if m.name() == m.in.Deployment.Name {
		return fmt.Errorf("prefix %q: the new Deployment would replace the old one, %s: want another prefix", m.Prefix, m.in.Deployment.Name)
	}
	m.Monitoring = cmp.Or(m.Monitoring, "monitoring")
	c, err := pick("container", m.Container, m.pod.Containers, func(c corev1.Container) string { return c.Name }, isRouteServer)
	if err != nil {
		return fmt.Errorf("%w of Deployment %s", err, m.in.Deployment.Name)
	}
	m.container = &c
	for _, other := range slices.Concat(m.pod.Containers, m.pod.InitContainers) {
		if other.Name != c.Name {
			m.note("it is not the route server. If you need it, add it to deployment.yaml", "container `%s`", other.Name)
		}
	}
	return nil
}

// name returns the name of the new Deployment and its Service.
func (m *migration) name() string { return m.Prefix + baseName }

// note records what is not carried over.
func (m *migration) note(why, format string, args ...any) {
	m.notes = append(m.notes, Note{fmt.Sprintf(format, args...), why})
}

// isRouteServer reports whether the name of the program is in the command or is the first argument.
func isRouteServer(c corev1.Container) bool {
	words := slices.Concat(c.Command, c.Args)
	return len(words) > 0 && isProgram(words[0])
}

func isProgram(word string) bool { return word == baseName || strings.HasSuffix(word, "/"+baseName) }

// sorted returns the keys of a map, sorted.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

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
