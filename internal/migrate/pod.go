package migrate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch is a JSON patch.
type patch []operation

func (p *patch) replace(path string, value any) { *p = append(*p, operation{"replace", path, value}) }
func (p *patch) add(path string, value any)     { *p = append(*p, operation{"add", path, value}) }

// escaped escapes a key for a path of a JSON patch.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

const (
	podPath       = "/spec/template/spec"
	containerPath = podPath + "/containers/0"
)

// deployment returns the patch of the Deployment of the base.
func (m *migration) deployment() patch {
	var p patch
	old := m.in.Deployment
	if old.Spec.Replicas != nil {
		p.replace("/spec/replicas", *old.Spec.Replicas)
		if *old.Spec.Replicas < 2 {
			m.notes = append(m.notes, Note{fmt.Sprintf("%d replica, as before", *old.Spec.Replicas), "set two or more where proxies depend on it: while the only one moves to another node nobody answers"})
		}
	}
	if old.Spec.Strategy.Type != "" {
		p.replace("/spec/strategy", old.Spec.Strategy)
	}
	if old.Spec.MinReadySeconds > 0 {
		p.add("/spec/minReadySeconds", old.Spec.MinReadySeconds)
	}
	for _, key := range sorted(old.Labels) {
		if _, ofPod := old.Spec.Template.Labels[key]; !ofPod && !ofTool(key) {
			p.add("/metadata/labels/"+escaped(key), old.Labels[key])
		}
	}
	annotations := map[string]string{}
	for key, value := range old.Spec.Template.Annotations {
		if ofTool(key) {
			m.note("a tool writes it", "annotation `%s` of the pods", key)
			continue
		}
		annotations[key] = value
	}
	if len(annotations) > 0 {
		p.add("/spec/template/metadata/annotations", annotations)
	}
	m.schedule(&p)
	m.user(&p)
	m.run(&p)
	return p
}

// schedule carries over where pods run.
func (m *migration) schedule(p *patch) {
	grace := m.arguments.wait + m.arguments.shutdown + 5*time.Second
	seconds := int64(math.Ceil(grace.Seconds()))
	if old := m.pod.TerminationGracePeriodSeconds; old != nil && *old >= seconds {
		seconds = *old
	} else {
		m.note(fmt.Sprintf("%d s: -wait-for-healthcheck-interval, --shutdown-timeout for open requests, and five seconds to write the last-known-good file", seconds), "`terminationGracePeriodSeconds`")
	}
	p.replace(podPath+"/terminationGracePeriodSeconds", seconds)
	if len(m.pod.Tolerations) > 0 {
		p.add(podPath+"/tolerations", m.pod.Tolerations)
	}
	if len(m.pod.NodeSelector) > 0 {
		p.add(podPath+"/nodeSelector", m.pod.NodeSelector)
	}
	if m.pod.Affinity != nil {
		p.add(podPath+"/affinity", m.affinity())
	}
	if spread := m.pod.TopologySpreadConstraints; len(spread) > 0 {
		spread = slices.Clone(spread)
		for i := range spread {
			c := spread[i].DeepCopy()
			m.selecting(c.LabelSelector)
			spread[i] = *c
		}
		p.replace(podPath+"/topologySpreadConstraints", spread)
	}
	if m.pod.PriorityClassName != "" {
		p.add(podPath+"/priorityClassName", m.pod.PriorityClassName)
	}
	if len(m.pod.ImagePullSecrets) > 0 {
		p.add(podPath+"/imagePullSecrets", m.pod.ImagePullSecrets)
	}
	if m.pod.DNSConfig != nil {
		p.add(podPath+"/dnsConfig", m.pod.DNSConfig)
	}
	if len(m.pod.HostAliases) > 0 {
		p.add(podPath+"/hostAliases", m.pod.HostAliases)
	}
	if s := m.pod.SchedulerName; s != "" && s != corev1.DefaultSchedulerName {
		p.add(podPath+"/schedulerName", s)
	}
	if m.pod.RuntimeClassName != nil {
		p.add(podPath+"/runtimeClassName", *m.pod.RuntimeClassName)
	}
}

// user carries over the user of the process.
func (m *migration) user(p *patch) {
	uid, gid := (*int64)(nil), (*int64)(nil)
	if s := m.pod.SecurityContext; s != nil {
		uid, gid = s.RunAsUser, s.RunAsGroup
	}
	if s := m.container.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			uid = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			gid = s.RunAsGroup
		}
		if s.Privileged != nil && *s.Privileged || s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
			m.note("routesrv needs no rights on the node. If it listened on a port below 1024, choose a higher one", "privileges and added capabilities")
		}
	}
	for _, id := range []struct {
		path, name string
		value      *int64
	}{{"runAsUser", "user", uid}, {"runAsGroup", "group", gid}} {
		switch {
		case id.value == nil:
		case *id.value == 0:
			m.note("routesrv needs no root. The overlay keeps user and group 65532 of the base", "%s 0", id.name)
		default:
			p.replace(podPath+"/securityContext/"+id.path, *id.value)
		}
	}
}

// run carries over what runs in the container.
func (m *migration) run(p *patch) {
	a := &m.arguments
	args := slices.Clone(a.args)
	at := 1
	if slices.Contains(args, "-kubernetes-in-cluster") {
		at = 2
	}
	args = slices.Insert(args, at, "-config-file="+flagsPath, "--state-dir="+stateDir,
		fmt.Sprintf("--peers=%s%s.%s.svc:%d", m.Prefix, peersName, m.in.Namespace(), a.main))
	p.replace(containerPath+"/args", args)
	p.replace(containerPath+"/ports", m.ports())
	p.replace(containerPath+"/readinessProbe", m.readiness())
	p.replace(containerPath+"/livenessProbe/httpGet/port", a.support)
	if s := m.container.StartupProbe; s != nil {
		if s, ok := m.probe(s); ok {
			p.add(containerPath+"/startupProbe", s)
		} else {
			m.note("a command cannot be run: the image has no shell", "the startup probe")
		}
	}
	if m.container.LivenessProbe != nil {
		m.note("the base has its own, which asks /status. A server without a table answers that as well: a restart does not help a server that waits for the API server", "the liveness probe")
	}
	if r := m.container.Resources; len(r.Limits)+len(r.Requests) > 0 {
		p.replace(containerPath+"/resources", r)
	}
	p.replace(containerPath+"/env", m.env())
	if len(m.container.EnvFrom) > 0 && len(a.env) > 0 {
		p.add(containerPath+"/envFrom", m.container.EnvFrom)
	}
	m.volumes(p)
}

// ports returns the old ports, so that Services by name or number still fit, with those of the listeners.
func (m *migration) ports() []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	has := func(number int, name string) bool {
		return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return int(p.ContainerPort) == number || p.Name == name })
	}
	for _, port := range m.container.Ports {
		if port.HostPort != 0 {
			if !m.pod.HostNetwork {
				m.note("two route servers on one node cannot share it", "`hostPort: %d`", port.HostPort)
			}
			port.HostPort, port.HostIP = 0, ""
		}
		ports = append(ports, port)
	}
	for _, l := range []struct {
		number int
		name   string
	}{{m.arguments.main, "http"}, {m.arguments.support, "support"}} {
		switch {
		case !has(l.number, ""):
			name := l.name
			if has(0, name) {
				name = "routesrv-" + name // the old container uses this name for another port
			}
			ports = append(ports, corev1.ContainerPort{Name: name, ContainerPort: int32(l.number)})
		}
	}
	return ports
}

// readiness returns the old probe, or that of the base.
func (m *migration) readiness() *corev1.Probe {
	if old := m.container.ReadinessProbe; old != nil {
		if p, ok := m.probe(old); ok {
			return p
		}
		m.note("a command cannot be run, as the image has no shell: that of the base asks /health", "the readiness probe")
	}
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(int32(m.arguments.main))}},
		PeriodSeconds: 2, TimeoutSeconds: 2,
	}
}

// probe returns an old probe with the number of its port. ok is false if it runs a command or uses gRPC.
func (m *migration) probe(old *corev1.Probe) (p *corev1.Probe, ok bool) {
	p = old.DeepCopy()
	switch {
	case p.HTTPGet != nil:
		p.HTTPGet.Port = m.number(p.HTTPGet.Port)
		path, _, _ := strings.Cut(p.HTTPGet.Path, "?")
		if path != "/health" && path != "/routes" && path != "/metrics" {
			m.notes = append(m.notes, Note{fmt.Sprintf("a probe asks for `%s`", p.HTTPGet.Path), "the overlay has it, too. Check that routesrv answers this path; its path for probes is /health"})
		}
	case p.TCPSocket != nil:
		p.TCPSocket.Port = m.number(p.TCPSocket.Port)
	default:
		return nil, false
	}
	return p, true
}

// number returns the number of a port of the old container.
func (m *migration) number(port intstr.IntOrString) intstr.IntOrString {
	for _, p := range m.container.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return intstr.FromInt32(p.ContainerPort)
		}
	}
	return port
}

// runtimeVariables have a meaning for any Go program, or for clients of the API server.
var runtimeVariables = []string{
	"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "KUBERNETES_SERVICE_HOST",
	"KUBERNETES_SERVICE_PORT",
}

// env returns the variables that have an effect.
func (m *migration) env() []corev1.EnvVar {
	env := []corev1.EnvVar{}
	limit := false
	for _, e := range m.container.Env {
		switch {
		case slices.Contains(runtimeVariables, e.Name), slices.Contains(m.arguments.env, e.Name), m.referred(e.Name):
			env = append(env, e)
			limit = limit || e.Name == "GOMEMLIMIT"
		case strings.HasPrefix(e.Name, "ROUTESRV_FLAG_"): // already read
		default:
			m.note("no argument of the overlay refers to it", "variable `%s`", e.Name)
		}
	}
	if len(m.container.EnvFrom) > 0 && len(m.arguments.env) == 0 {
		m.note("no argument of the overlay refers to a variable of it", "`envFrom`")
	}
	memory := m.container.Resources.Limits.Memory().Value()
	switch {
	case limit:
	case memory > 0:
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: fmt.Sprintf("%dMiB", max(memory*7/8>>20, 1))})
	case len(m.container.Resources.Requests)+len(m.container.Resources.Limits) == 0:
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "900MiB"}) // the limit is that of the base
	}
	return env
}

// referred reports whether a variable that is carried over refers to another.
func (m *migration) referred(name string) bool {
	return slices.ContainsFunc(m.container.Env, func(e corev1.EnvVar) bool {
		return slices.Contains(m.arguments.env, e.Name) && strings.Contains(e.Value, "$("+name+")")
	})
}

// volumes carries over the volumes with files that settings name.
func (m *migration) volumes(p *patch) {
	carried := map[string]bool{}
	for _, file := range m.arguments.files {
		mount, volume := m.mountOf(file)
		switch {
		case file == "":
		case mount == nil:
			m.note("the old container mounts nothing there: the old image had it, or it was missing", "the file or folder `%s`", file)
		case !carried[mount.Name+mount.MountPath]:
			carried[mount.Name+mount.MountPath] = true
			at := *mount
			at.Name = "old-" + volume.Name
			if !carried[volume.Name] {
				carried[volume.Name] = true
				v := *volume
				v.Name = at.Name
				p.add(podPath+"/volumes/-", v)
			}
			p.add(containerPath+"/volumeMounts/-", at)
		}
	}
	for _, v := range m.container.VolumeMounts {
		if !carried[v.Name] {
			m.note("no flag of the overlay names a file in it", "volume `%s` at `%s`", v.Name, v.MountPath)
		}
	}
}
