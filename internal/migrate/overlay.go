package migrate

import (
	"fmt"

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
