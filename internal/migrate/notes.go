package migrate

import (
	"bytes"
	"cmp"
	_ "embed" // the text of the notes
	"fmt"
	"strings"
	"text/template"
)

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
