package migrate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch is a JSON patch.
type patch []operation

// set adds a field or replaces it, whether it exists or not.
func (p *patch) set(path string, value any) {
	*p = append(*p, operation{Op: "add", Path: path, Value: value})
}
func (p *patch) replace(path string, value any) {
	*p = append(*p, operation{Op: "replace", Path: path, Value: value})
}

// escaped escapes a key for a path of a JSON patch.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

const (
	podPath       = "/spec/template/spec"
	containerPath = podPath + "/containers/0"
)

// The fields that the new Deployment takes over as they are. Fields of the base that are not among them stay.
var (
	deploymentFields = []string{"replicas", "strategy", "minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit"}
	podFields        = []string{
		"affinity", "dnsConfig", "dnsPolicy", "hostAliases", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName", "schedulerName",
		"tolerations", "topologySpreadConstraints",
	}
	containerFields = []string{"envFrom", "readinessProbe", "resources", "startupProbe"}
)

// carry sets fields of an object at a path. It returns an error only for objects that are not those of the API.
func (m *migration) carry(p *patch, path string, object any, fields []string) error {
	values, err := plain(object)
	if err != nil {
		return err
	}
	for _, name := range fields {
		if value := values[name]; !empty(value) {
			m.selecting(value)
			p.set(path+"/"+name, value)
		}
	}
	return nil
}

// empty reports whether a value says nothing: structures of the API that are not set are empty objects.
func empty(value any) bool {
	object, ok := value.(map[string]any)
	return value == nil || ok && len(object) == 0
}

// plain converts an object to its form in JSON.
func plain(object any) (values map[string]any, err error) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	return values, err
}

// deployment returns the patch of the Deployment of the base.
func (m *migration) deployment() (p patch, err error) {
	old := m.in.Deployment
	if r := old.Spec.Replicas; r != nil && *r < 2 {
		m.note("set two or more where proxies depend on it: while the only one moves to another node nobody answers", "%d replica, as before", *r)
	}
	for _, key := range sorted(old.Labels) {
		if _, ofPod := old.Spec.Template.Labels[key]; !ofPod && !ofTool(key) {
			p.set("/metadata/labels/"+escaped(key), old.Labels[key])
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
	if len(annotations) > 0 {
		p.set("/spec/template/metadata/annotations", annotations)
	}
	if err := m.carry(&p, "/spec", old.Spec, deploymentFields); err != nil {
		return nil, err
	}
	if err := m.carry(&p, podPath, m.pod, podFields); err != nil {
		return nil, err
	}
	m.end(&p)
	m.user(&p)
	return p, m.run(&p)
}

// end sets the time that a pod has to end.
func (m *migration) end(p *patch) {
	l := m.arguments.Listen
	seconds := int64(math.Ceil((l.WaitForHealthcheckInterval + l.ShutdownTimeout + 5*time.Second).Seconds()))
	if old := m.pod.TerminationGracePeriodSeconds; old != nil && *old >= seconds {
		seconds = *old
	} else {
		m.note(fmt.Sprintf("%d s: -wait-for-healthcheck-interval, the time for open requests, and five seconds to write the last-known-good file", seconds),
			"`terminationGracePeriodSeconds`")
	}
	p.replace(podPath+"/terminationGracePeriodSeconds", seconds)
	if m.pod.HostNetwork {
		m.note("two route servers on one node cannot share its ports, and routesrv does not need the network of the node", "`hostNetwork`")
	}
}

// user carries over the user and group of the process. The base has the rest of the security context.
func (m *migration) user(p *patch) {
	ids := map[string]*int64{}
	if s := m.pod.SecurityContext; s != nil {
		ids["runAsUser"], ids["runAsGroup"] = s.RunAsUser, s.RunAsGroup
	}
	if s := m.container.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			ids["runAsUser"] = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			ids["runAsGroup"] = s.RunAsGroup
		}
		if s.Privileged != nil && *s.Privileged || s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
			m.note("routesrv needs no rights on the node. If it listened on a port below 1024, choose a higher one", "privileges and added capabilities")
		}
	}
	for _, field := range sorted(ids) {
		switch id := ids[field]; {
		case id == nil:
		case *id == 0:
			m.note("routesrv needs no root. The overlay keeps user and group 65532 of the base", "`%s: 0`", field)
		default:
			p.replace(podPath+"/securityContext/"+field, *id)
		}
	}
}

// run carries over what runs in the container.
func (m *migration) run(p *patch) error {
	a, c := &m.arguments, m.container.DeepCopy()
	for name, probe := range map[string]**corev1.Probe{"readiness": &c.ReadinessProbe, "startup": &c.StartupProbe} {
		if *probe != nil && (*probe).HTTPGet == nil && (*probe).TCPSocket == nil {
			m.note("the image has no shell that could run a command. For readiness the base asks /health", "the %s probe", name)
			*probe = nil
		}
	}
	if c.ReadinessProbe == nil {
		p.replace(containerPath+"/readinessProbe/httpGet/port", a.main)
	}
	if c.LivenessProbe != nil {
		m.note("the base has its own, which asks /status. A server without a table answers that as well: a restart does not help a server that waits for the API server", "the liveness probe")
	}
	if c.Lifecycle != nil {
		m.note("the image has no shell, and -wait-for-healthcheck-interval is the time to keep serving", "the lifecycle hooks")
	}
	p.replace(containerPath+"/args", a.words)
	p.replace(containerPath+"/ports", m.ports())
	p.replace(containerPath+"/livenessProbe/httpGet/port", a.support)
	if err := m.carry(p, containerPath, c, containerFields); err != nil {
		return err
	}
	p.replace(containerPath+"/env", m.env())
	// The base mounts its flags first, which are in the arguments here, and then its state.
	*p = append(*p, operation{Op: "remove", Path: containerPath + "/volumeMounts/0"}, operation{Op: "remove", Path: podPath + "/volumes/0"})
	for _, mount := range c.VolumeMounts {
		mount.Name = "old-" + mount.Name
		p.set(containerPath+"/volumeMounts/-", mount)
	}
	for _, v := range m.pod.Volumes {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			v.Name = "old-" + v.Name
			p.set(podPath+"/volumes/-", v)
		}
	}
	return nil
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

// env returns the old variables without those that only dropped arguments refer to, and a limit of the heap.
func (m *migration) env() []corev1.EnvVar {
	env := []corev1.EnvVar{}
	refers := func(words []string, name string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "$("+name+")") })
	}
	for _, e := range m.container.Env {
		if refers(m.arguments.dropped, e.Name) && !refers(m.arguments.words, e.Name) {
			m.note("no argument of the overlay refers to it", "variable `%s`", e.Name)
			continue
		}
		env = append(env, e)
	}
	resources := m.container.Resources
	memory := resources.Limits.Memory().Value()
	switch {
	case slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" }):
	case memory > 0:
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: fmt.Sprintf("%dMiB", max(memory*7/8>>20, 1))})
	case len(resources.Requests)+len(resources.Limits) == 0:
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "900MiB"}) // the limit is that of the base
	}
	return env
}
