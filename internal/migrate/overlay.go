package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/internal/config"
)

// kustomization is kustomization.yaml, its fields in the order of the file.
type kustomization struct {
	APIVersion         string            `json:"apiVersion"`
	Kind               string            `json:"kind"`
	Namespace          string            `json:"namespace"`
	NamePrefix         string            `json:"namePrefix"`
	Resources          []string          `json:"resources"`
	ConfigMapGenerator []configMap       `json:"configMapGenerator"`
	Images             []image           `json:"images,omitempty"`
	Labels             []label           `json:"labels"`
	Patches            []patchOfResource `json:"patches"`
}

type configMap struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Behavior  string   `json:"behavior"`
	Files     []string `json:"files"`
}

type image struct {
	Name    string `json:"name"`
	NewName string `json:"newName,omitempty"`
	NewTag  string `json:"newTag,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

type label struct {
	Pairs            map[string]string `json:"pairs"`
	IncludeSelectors bool              `json:"includeSelectors,omitempty"`
	IncludeTemplates bool              `json:"includeTemplates,omitempty"`
}

type patchOfResource struct {
	Target target `json:"target"`
	Path   string `json:"path,omitempty"`
	Patch  string `json:"patch,omitempty"`
}

type target struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// files returns all files.
func (m *migration) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	var err error
	put := func(name, comment string, content any) {
		text, failed := yaml.Marshal(content)
		if failed != nil && err == nil {
			err = fmt.Errorf("write %s: %w", name, failed)
		}
		files[name] = append(comments(comment), text...)
	}
	k := kustomization{
		APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization", Namespace: m.in.Namespace(), NamePrefix: m.Prefix,
		Resources:          []string{m.Base},
		ConfigMapGenerator: []configMap{{Name: flagsName, Namespace: baseName, Behavior: "replace", Files: []string{"flags.yaml"}}},
		Images:             m.images(),
		Labels:             m.labelsOfAll(),
		Patches: []patchOfResource{{ // the namespace exists, and its labels are not ours
			Target: target{"Namespace", baseName},
			Patch:  "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: routesrv\n$patch: delete\n",
		}},
	}
	patched := func(kind, name, file, comment string, p patch) {
		if p == nil {
			return
		}
		put(file, comment, p)
		k.Patches = append(k.Patches, patchOfResource{Target: target{kind, name}, Path: file})
	}
	service, peers := m.services()
	patched("Deployment", baseName, "deployment.yaml", "What the Deployment "+m.in.Deployment.Name+" has and the base has not.", m.deployment())
	patched("Service", baseName, "service.yaml", "The ports of the listeners.", service)
	patched("Service", peersName, "service-peers.yaml", "The ports of the listeners.", peers)
	patched("NetworkPolicy", baseName, "networkpolicy.yaml", "Who may talk to the route servers, and whom they talk to.", m.network())
	patched("ClusterRole", baseName, "rbac.yaml", "Without enable-kubernetes-endpointslices Endpoints are read.", m.role())
	put("kustomization.yaml", "Made by routesrv migrate of Deployment "+m.in.Namespace()+"/"+m.in.Deployment.Name+". NOTES.md says what to do with it.", k)
	flags, failed := config.File(m.arguments.file)
	if failed != nil && err == nil {
		err = fmt.Errorf("write flags.yaml: %w", failed)
	}
	files["flags.yaml"] = append(comments("What the table says: the flags of the old Deployment that are not the default. dataplane-client can read the same file."), flags...)
	files["NOTES.md"] = m.text()
	return files, err
}

// comments returns lines of YAML that describe a file.
func comments(text string) []byte { return []byte("# " + text + "\n") }

// images returns the entry for the image of routesrv.
func (m *migration) images() []image {
	if m.Image == "" {
		return nil
	}
	name, digest, _ := strings.Cut(m.Image, "@")
	i := image{Name: "routesrv", Digest: digest}
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name, i.NewTag = name[:at], name[at+1:]
	}
	i.NewName = name
	return []image{i}
}

// labelsOfAll returns the labels, with those of selectors last, because they win.
func (m *migration) labelsOfAll() []label {
	var all []label
	if len(m.labels.kept) > 0 {
		all = append(all, label{Pairs: m.labels.kept, IncludeTemplates: true})
	}
	return append(all, label{Pairs: m.labels.changed, IncludeSelectors: true})
}

// selectorPatch returns two merge patches of a selector of old pods: one makes it select the new pods, the other reverts that. A
// label that the new pods lack is removed.
func (m *migration) selectorPatch(selector map[string]string) (there, back string) {
	pod := m.labels.pod()
	var to, from []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
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

// table returns a Markdown table.
func table(head string, rows [][2]string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| %s |\n|---|---|\n", head)
	for _, r := range rows {
		cell := strings.NewReplacer("|", `\|`, "\n", " ")
		fmt.Fprintf(&b, "| %s | %s |\n", cell.Replace(r[0]), cell.Replace(r[1]))
	}
	return b.String()
}
