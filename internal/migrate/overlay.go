package migrate

import (
	"bytes"
	"cmp"
	_ "embed" // the text of the notes
	"fmt"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// object is a mapping in a file of the overlay.
type object map[string]any

// deleted removes an object of the base.
func deleted(kind, name string) object {
	text := "apiVersion: v1\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n$patch: delete\n"
	return object{"target": object{"kind": kind, "name": name}, "patch": text}
}

// files returns all files.
func (m *migration) files() (files map[string][]byte, err error) {
	without, deployment, err := m.deployment()
	if err != nil {
		return nil, err
	}
	network, err := m.network()
	if err != nil {
		return nil, err
	}
	service, peers := m.services()
	files = map[string][]byte{}
	role := m.role()
	// The namespace exists, and its labels are not ours. The flags are arguments.
	patches := []object{deleted("Namespace", baseName), deleted("ConfigMap", flagsName)}
	for _, f := range []struct {
		file, comment, kind, name string
		patch                     any
	}{
		{"deployment-base.yaml", "What the Deployment of the base must not have.", "Deployment", baseName, without},
		{"deployment.yaml", "What the Deployment " + m.in.Deployment.Name + " has and the base has not.", "Deployment", baseName, deployment},
		{"service.yaml", "The ports of the listeners.", "Service", baseName, service},
		{"service-peers.yaml", "The ports of the listeners.", "Service", peersName, peers},
		{"networkpolicy.yaml", "Who may talk to the route servers, and whom they talk to.", "NetworkPolicy", baseName, network},
		{"rbac.yaml", "Without -enable-kubernetes-endpointslices Endpoints are read.", "ClusterRole", baseName, role},
	} {
		if f.kind == "ClusterRole" && role == nil {
			continue
		}
		patches = append(patches, object{"target": object{"kind": f.kind, "name": f.name}, "path": f.file})
		if files[f.file], err = written(f.comment, f.patch); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.file, err)
		}
	}
	kustomization := object{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": m.in.Namespace(), "namePrefix": m.Prefix,
		"resources": []string{m.Base}, "labels": m.labels.entries(), "patches": patches,
	}
	about := "Made by routesrv migrate of Deployment " + m.in.Namespace() + "/" + m.in.Deployment.Name + ". NOTES.md says what to do with it."
	if files["kustomization.yaml"], err = written(about, kustomization); err != nil {
		return nil, fmt.Errorf("write kustomization.yaml: %w", err)
	}
	files["NOTES.md"], err = m.text()
	return files, err
}

// written returns YAML after a comment.
func written(comment string, content any) ([]byte, error) {
	text, err := yaml.Marshal(content)
	return append([]byte("# "+comment+"\n"), text...), err
}

//go:embed notes.md.tmpl
var notesText string

// notes is NOTES.md.
var notes = template.Must(template.New("NOTES.md").Funcs(template.FuncMap{"cell": strings.NewReplacer("|", `\|`, "\n", " ").Replace}).Parse(notesText))

// switched is a Service with the merge patches of its selector: to the new pods, and back.
type switched struct{ Name, There, Back string }

// text returns NOTES.md.
func (m *migration) text() ([]byte, error) {
	var services []switched
	for _, s := range m.in.Services {
		there, back := m.selectorPatch(s.Spec.Selector)
		services = append(services, switched{s.Name, there, back})
	}
	if len(services) == 0 {
		there, back := m.selectorPatch(m.in.Deployment.Spec.Selector.MatchLabels)
		services = []switched{{"SERVICE", there, back}}
	}
	values := map[string]any{
		"Old": m.in.Deployment.Name, "New": m.name(), "Namespace": m.in.Namespace(), "Image": m.Image, "Main": m.arguments.main, "TLS": m.arguments.TLS.Enable,
		"Services": services, "ServiceKnown": len(m.in.Services) > 0, "Replicas": int32(1), "Notes": m.notes, "Only": m.arguments.Source.Namespace,
		"Endpoints": "Endpoints", "Account": cmp.Or(m.pod.ServiceAccountName, "default"),
	}
	if r := m.in.Deployment.Spec.Replicas; r != nil {
		values["Replicas"] = *r
	}
	if m.arguments.Source.EndpointSlices {
		values["Endpoints"] = "EndpointSlices"
	}
	var b bytes.Buffer
	if err := notes.Execute(&b, values); err != nil {
		return nil, fmt.Errorf("write NOTES.md: %w", err)
	}
	return b.Bytes(), nil
}

// selectorPatch returns two merge patches of a selector of old pods: one makes it select the new pods, the other reverts that. A
// label that the new pods lack is removed.
func (m *migration) selectorPatch(selector map[string]string) (there, back string) {
	pod := m.labels.pod()
	var to, from []string
	for _, key := range sorted(selector) {
		value, has := pod[key]
		switch {
		case !has:
			to = append(to, fmt.Sprintf("%q:null", key))
		case value != selector[key]:
			to = append(to, fmt.Sprintf("%q:%q", key, value))
		default:
			continue
		}
		from = append(from, fmt.Sprintf("%q:%q", key, selector[key]))
	}
	wrap := func(pairs []string) string { return `{"spec":{"selector":{` + strings.Join(pairs, ",") + `}}}` }
	return wrap(to), wrap(from)
}
