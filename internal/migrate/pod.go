package migrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// object is a mapping in a file of the overlay.
type object map[string]any

// fields are fields of an object that the new Deployment has as the base has them, with the reason where that is worth a note.
type fields map[string]string

const noRights = "routesrv needs no rights on the node. If it listened on a port below 1024, choose a higher one"

var (
	ofBase    = fields{"selector": "", "template": "", "paused": "the new Deployment has to start"}
	ofBasePod = fields{
		"hostNetwork": "two route servers on one node cannot share its ports, and routesrv does not need the network of the node",
		"hostPID":     noRights, "hostIPC": noRights, "serviceAccountName": "", "serviceAccount": "", "automountServiceAccountToken": "",
		"enableServiceLinks": "", "initContainers": "", "ephemeralContainers": "", "securityContext": "",
	}
	ofBaseContainer = fields{
		"imagePullPolicy": "", "command": "", "securityContext": "",
		"lifecycle":     "the image has no shell, and -wait-for-healthcheck-interval is the time to keep serving",
		"livenessProbe": "the base has its own, which asks /status. A server without a table answers that as well: a restart does not help a server that waits for the API server",
	}
)

// carried returns an object in JSON without what is as in the base.
func (m *migration) carried(of any, without fields) (values map[string]any, err error) {
	text, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	for _, name := range sorted(without) {
		if why := without[name]; why != "" && values[name] != nil {
			m.note(why, "`%s`", name)
		}
		delete(values, name)
	}
	return values, err
}

// deployment returns the patch with what the old Deployment has.
func (m *migration) deployment() (object, error) {
	old, own := m.in.Deployment, map[string]string{}
	if r := old.Spec.Replicas; r != nil && *r < 2 {
		m.note("set two or more where proxies depend on it: while the only one moves to another node nobody answers", "%d replica, as before", *r)
	}
	for key, value := range old.Labels {
		if _, ofPod := old.Spec.Template.Labels[key]; !ofPod && !ofTool(key) {
			own[key] = value
		}
	}
	annotations := map[string]string{}
	for _, key := range sorted(old.Spec.Template.Annotations) {
		if ofTool(key) {
			m.note("a tool writes it", "annotation `%s` of the pods", key)
			continue
		}
		annotations[key] = old.Spec.Template.Annotations[key]
	}
	spec, err1 := m.carried(old.Spec, ofBase)
	pod, err2 := m.carried(m.changedPod(), ofBasePod)
	container, err3 := m.carried(m.changedContainer(), ofBaseContainer)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	container["livenessProbe"] = object{"httpGet": object{"port": m.arguments.support}}
	pod["securityContext"] = m.user()
	m.selecting(pod)
	pod["containers"] = []any{container}
	spec["template"] = object{"metadata": object{"annotations": annotations}, "spec": pod}
	metadata := object{"name": baseName, "labels": own}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}, nil
}

// changedPod returns the old pod without what routesrv does not need. Only the volumes that the container mounts stay, under names that the base
// does not have.
func (m *migration) changedPod() *corev1.PodSpec {
	pod, l := m.pod.DeepCopy(), m.arguments.Listen
	seconds := int64(math.Ceil((l.WaitForHealthcheckInterval + l.ShutdownTimeout + 5*time.Second).Seconds()))
	if old := pod.TerminationGracePeriodSeconds; old == nil || *old < seconds {
		m.note(fmt.Sprintf("%d s: -wait-for-healthcheck-interval, the time for open requests, and five seconds to write the last-known-good file", seconds),
			"`terminationGracePeriodSeconds`")
		pod.TerminationGracePeriodSeconds = &seconds
	}
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool {
		return !slices.ContainsFunc(m.container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == v.Name })
	})
	for i := range pod.Volumes {
		pod.Volumes[i].Name = "old-" + pod.Volumes[i].Name
	}
	return pod
}

// user returns the user and the group of the old process. The base has the rest of the security context.
func (m *migration) user() *corev1.PodSecurityContext {
	to := &corev1.PodSecurityContext{}
	if s := m.pod.SecurityContext; s != nil {
		to.RunAsUser, to.RunAsGroup = s.RunAsUser, s.RunAsGroup
	}
	if s := m.container.SecurityContext; s != nil {
		to.RunAsUser, to.RunAsGroup = cmp.Or(s.RunAsUser, to.RunAsUser), cmp.Or(s.RunAsGroup, to.RunAsGroup)
		if s.Privileged != nil && *s.Privileged || s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
			m.note(noRights, "privileges and added capabilities")
		}
	}
	for field, id := range map[string]**int64{"runAsUser": &to.RunAsUser, "runAsGroup": &to.RunAsGroup} {
		if *id != nil && **id == 0 {
			m.note("routesrv needs no root. The overlay keeps user and group 65532 of the base", "`%s: 0`", field)
			*id = nil
		}
	}
	return to
}

// asks reports whether a probe works without a shell, which the image does not have.
func asks(p *corev1.Probe) bool { return p != nil && (p.HTTPGet != nil || p.TCPSocket != nil) }

// changedContainer returns the old container as it runs routesrv. What it leaves out is merged from the base.
func (m *migration) changedContainer() *corev1.Container {
	c := m.container.DeepCopy()
	if p := c.StartupProbe; p != nil && !asks(p) {
		m.note("the image has no shell that could run a command", "the startup probe")
		c.StartupProbe = nil
	}
	if p := c.ReadinessProbe; !asks(p) {
		if p != nil {
			m.note("the image has no shell that could run a command. For readiness the base asks /health", "the readiness probe")
		}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(m.arguments.main)}}}
	}
	c.Name, c.Image, c.Args, c.Ports, c.Env = baseName, m.Image, m.arguments.words, m.ports(), m.env()
	for i := range c.VolumeMounts {
		c.VolumeMounts[i].Name = "old-" + c.VolumeMounts[i].Name
	}
	return c
}

// ports returns the old ports, so that Services by name or number still fit, with those of the listeners.
func (m *migration) ports() []corev1.ContainerPort {
	ports := slices.Clone(m.container.Ports)
	for i := range ports {
		if p := &ports[i]; p.HostPort != 0 {
			m.note("two route servers on one node cannot share it", "`hostPort: %d`", p.HostPort)
			p.HostPort, p.HostIP = 0, ""
		}
	}
	for _, number := range []int{m.arguments.main, m.arguments.support} {
		if !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return int(p.ContainerPort) == number }) {
			ports = append(ports, corev1.ContainerPort{ContainerPort: int32(number)})
		}
	}
	return ports
}

// env returns the old variables and a limit of the heap.
func (m *migration) env() []corev1.EnvVar {
	env := slices.Clone(m.container.Env)
	own := slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if memory := m.container.Resources.Limits.Memory().Value(); memory > 0 && !own {
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: fmt.Sprintf("%dMiB", max(memory*7/8>>20, 1))})
	}
	return env
}

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
