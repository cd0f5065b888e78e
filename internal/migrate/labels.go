package migrate

import (
	"errors"
	"slices"
	"strings"
)

// labelling decides which labels the new pods have.
type labelling struct {
	// Changed have another value than on the old pods: neither the old Deployment nor its Services select the new pods. The new
	// Deployment selects by them.
	Changed map[string]string
	// Kept are the labels of the old pods.
	Kept map[string]string
}

// nameLabel is the label that the base selects by.
const nameLabel = "app.kubernetes.io/name"

// preferred are the labels to change if there is a choice: selectors of other labels still match old and new pods.
var preferred = []string{"component", "app.kubernetes.io/component", nameLabel, "k8s-app", "app", "application"}

// tools are the prefixes of labels and annotations that tools own: a tool would take new objects with them for its own, and
// delete them.
var tools = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "app.kubernetes.io/part-of", "helm.sh/", "meta.helm.sh/",
	"argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "pod-template-hash", "kubectl.kubernetes.io/", "deployment.kubernetes.io/",
	"checksum/", "version", "chart", "heritage", "release",
}

func ofTool(key string) bool {
	return slices.ContainsFunc(tools, func(t string) bool { return key == t || strings.HasSuffix(t, "/") && strings.HasPrefix(key, t) })
}

// label decides the labels.
func (m *migration) label() error {
	old := m.in.Deployment.Spec.Template.Labels
	selector := m.in.Deployment.Spec.Selector
	if selector == nil || len(selector.MatchLabels) == 0 {
		return errors.New("the old Deployment selects its pods by no label (spec.selector.matchLabels): its pods cannot be told from new ones")
	}
	m.labels = labelling{Changed: map[string]string{}, Kept: map[string]string{}}
	selectors := []map[string]string{selector.MatchLabels}
	for _, s := range m.in.Services {
		selectors = append(selectors, s.Spec.Selector)
	}
	for _, s := range selectors {
		if slices.ContainsFunc(sorted(s), func(key string) bool { _, ok := m.labels.Changed[key]; return ok }) {
			continue
		}
		best := sorted(s)[0]
		if i := slices.IndexFunc(preferred, func(key string) bool { _, ok := s[key]; return ok }); i >= 0 {
			best = preferred[i]
		}
		m.labels.Changed[best] = next(s[best])
	}
	for key, value := range old {
		_, changed := m.labels.Changed[key]
		switch {
		case changed:
		case ofTool(key):
			m.note("it belongs to the old image, or to a tool that would treat the new objects as its own", "label `%s: %s`", key, value)
		case key == nameLabel: // the base selects by it
			m.labels.Changed[key] = value
		default:
			m.labels.Kept[key] = value
		}
	}
	return nil
}

// next returns the new value of a changed label.
func next(value string) string {
	if len(value) == 0 || len(value) > 63-len("-next") {
		return "next"
	}
	return value + "-next"
}

// of returns the value of a label of the new pods, or nil if they lack it.
func (l labelling) of(key string) any {
	for _, labels := range []map[string]string{l.Changed, l.Kept} {
		if value, ok := labels[key]; ok {
			return value
		}
	}
	return nil
}

// selecting makes selectors of old pods select the new ones, too, wherever they are in a value. It uses expressions, because kustomize
// adds the changed labels to everything with matchLabels, even where other pods are meant.
func (m *migration) selecting(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			m.selecting(v)
		}
	case map[string]any:
		for _, v := range value {
			m.selecting(v)
		}
		match, ok := value["matchLabels"].(map[string]any)
		if !ok {
			return
		}
		expressions, _ := value["matchExpressions"].([]any)
		for _, key := range sorted(match) {
			values := []any{match[key]}
			if changed, ok := m.labels.Changed[key]; ok && m.in.Deployment.Spec.Template.Labels[key] == match[key] && changed != match[key] {
				values = append(values, changed)
			}
			expressions = append(expressions, map[string]any{"key": key, "operator": "In", "values": values})
		}
		value["matchExpressions"] = expressions
		delete(value, "matchLabels")
	}
}
