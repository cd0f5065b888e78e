package migrate

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/routesrv/routesrv/internal/config"
)

// arguments is the old command line, divided for the new container.
type arguments struct {
	file    []config.Setting // of flags.yaml: settings that decide the table
	args    []string         // of the container: settings that decide how this server runs
	ignored []config.Ignored
	files   []string // paths named by settings
	env     []string // variables that args refer to

	main, support  int // ports
	wait, shutdown time.Duration
	slices         bool // the server reads EndpointSlices, else Endpoints
	namespace      string
	apiPort        int // of -kubernetes-url; 0 for the port of the cluster's API
}

// inFile are the groups of flags that decide the table: dataplane-client has them, too, and reads the same file.
var inFile = []config.Group{
	config.GroupPolling, config.GroupSelection, config.GroupGenerated, config.GroupConversion, config.GroupAnnotations, config.GroupEastWest,
	config.GroupProcessing, config.GroupGuard, config.GroupLogging,
}

// own are flags that the overlay sets itself.
var own = []string{"config-file", "kubernetes", "kubernetes-in-cluster", "state-dir", "peers"}

// pathFlags name files or folders of the container, some of them several separated by commas.
var pathFlags = []string{
	"default-filters-dir", "tls-cert", "tls-key", "mtls-authn-ca", "kubernetes-token-file", "kubeconfig", "upstream-ca-file", "upstream-client-cert",
	"upstream-client-key",
}

// readArguments reads the command of the old container. Unusable arguments are an error of package config.
func (m *migration) readArguments() ([]config.Warning, error) {
	words := slices.Concat(m.container.Command, m.container.Args)
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		if !isProgram(words[0]) {
			return nil, fmt.Errorf("container %s runs %q, which is no route server: its flags cannot be read", m.container.Name, words[0])
		}
		words = words[1:]
	}
	plain, raw := m.expand(m.leaveOut(words))
	reading, err := config.ReadArguments(plain, config.Env{Environ: m.environ(), ReadFile: m.readFile})
	if err != nil {
		return reading.Warnings, err
	}
	a := &m.arguments
	a.ignored = reading.Ignored
	if err := a.take(reading.Settings); err != nil {
		return reading.Warnings, err
	}
	a.args = append(a.args, raw...)
	if m.pod.HostNetwork {
		m.note("two route servers on one node cannot share its ports, and routesrv does not need the network of the node", "`hostNetwork`")
	}
	return reading.Warnings, nil
}

// leaveOut drops the flags of Options.LeaveOut.
func (m *migration) leaveOut(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		if !strings.HasPrefix(words[i], "-") || !slices.Contains(m.LeaveOut, name) {
			kept = append(kept, words[i])
			continue
		}
		if !hasValue && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++ // its value
		}
		m.note("`--leave-out` names it", "`-%s`", name)
	}
	return kept
}

// expand replaces $(NAME) as the kubelet does, as far as the manifest has the values. Arguments with other variables are raw: the
// kubelet expands them, and they are not read here, except for those that have no effect on routesrv.
func (m *migration) expand(words []string) (plain, raw []string) {
	ignored := make(map[string]bool)
	for _, f := range config.UnsupportedFlags() {
		ignored[f.Name] = !f.Refused
	}
	for i := 0; i < len(words); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		word, unknown := m.references(words[i])
		group := []string{word}
		if flag := strings.HasPrefix(words[i], "-"); flag && !hasValue && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value, more := m.references(words[i+1])
			if len(more) > 0 {
				group, unknown = append(group, value), append(unknown, more...)
				i++
			}
		}
		if len(unknown) == 0 || ignored[name] {
			plain = append(plain, group...)
			continue
		}
		raw = append(raw, words[i+1-len(group):i+1]...)
		m.arguments.env = append(m.arguments.env, unknown...)
		m.note("its value is known only in the pod. It stays an argument, and was not checked", "`-%s` in `flags.yaml`", name)
	}
	return plain, raw
}

// references replaces $(NAME) by the value in the manifest, and $$ by $. unknown are the names of variables whose value comes
// from elsewhere. A name that is not a variable of the container stays, as for the kubelet.
func (m *migration) references(s string) (text string, unknown []string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		end := 0
		if strings.HasPrefix(s[i:], "$(") {
			end = strings.IndexByte(s[i:], ')')
		}
		switch {
		case strings.HasPrefix(s[i:], "$$"):
			b.WriteByte('$')
			i++
		case end > 0:
			name := s[i+2 : i+end]
			value, known := m.variable(name)
			if known {
				b.WriteString(value)
			} else {
				b.WriteString(s[i : i+end+1])
				if m.fromElsewhere(name) {
					unknown = append(unknown, name)
				}
			}
			i += end
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), unknown
}

// variable returns the value of a variable, if the manifest has it.
func (m *migration) variable(name string) (string, bool) {
	for _, e := range slices.Backward(m.container.Env) {
		if e.Name == name && e.ValueFrom == nil {
			return e.Value, !strings.Contains(e.Value, "$(")
		}
		if e.Name == name {
			return "", false
		}
	}
	return "", false
}

// fromElsewhere reports whether the pod has a variable whose value is not in the manifest.
func (m *migration) fromElsewhere(name string) bool {
	return len(m.container.EnvFrom) > 0 || slices.ContainsFunc(m.container.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// environ returns the variables that are settings: a Deployment that already runs routesrv may have some.
func (m *migration) environ() (all []string) {
	for _, e := range m.container.Env {
		if value, ok := m.variable(e.Name); ok {
			all = append(all, e.Name+"="+value)
		}
	}
	return all
}

// readFile reads a file of a ConfigMap that the old container mounts.
func (m *migration) readFile(name string) ([]byte, error) {
	mount, volume := m.mountOf(name)
	if mount == nil || volume.ConfigMap == nil {
		return nil, fmt.Errorf("%s is in no ConfigMap that the container mounts", name)
	}
	from := m.in.ConfigMaps[volume.ConfigMap.Name]
	if from == nil {
		return nil, fmt.Errorf("%s is in ConfigMap %s, which was not given: add it to the manifests", name, volume.ConfigMap.Name)
	}
	key := strings.TrimPrefix(strings.TrimPrefix(path.Clean(name), path.Clean(mount.MountPath)), "/")
	if mount.SubPath != "" {
		key = path.Join(mount.SubPath, key)
	}
	for _, item := range volume.ConfigMap.Items {
		if item.Path == key {
			key = item.Key
			break
		}
	}
	if text, ok := from.Data[key]; ok {
		return []byte(text), nil
	}
	if text, ok := from.BinaryData[key]; ok {
		return text, nil
	}
	return nil, fmt.Errorf("%s: ConfigMap %s has no key %s", name, from.Name, key)
}

// mountOf finds the mount and volume for a path of the old container: the longest mount path wins.
func (m *migration) mountOf(name string) (mount *corev1.VolumeMount, volume *corev1.Volume) {
	for i := range m.container.VolumeMounts {
		v := &m.container.VolumeMounts[i]
		at := path.Clean(v.MountPath)
		if name = path.Clean(name); (name == at || strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/")) && (mount == nil || len(at) > len(mount.MountPath)) {
			mount = v
		}
	}
	if mount == nil {
		return nil, nil
	}
	for i := range m.pod.Volumes {
		if m.pod.Volumes[i].Name == mount.Name {
			return mount, &m.pod.Volumes[i]
		}
	}
	return nil, nil
}

// take divides the settings between file and arguments.
func (a *arguments) take(settings []config.Setting) (err error) {
	for _, s := range settings {
		value := ""
		if len(s.Values) > 0 {
			value = s.Values[0]
		}
		switch s.Name {
		case "address":
			a.main, err = port(s.Name, value)
		case "support-listener":
			if value == "" { // metrics, status and the liveness probe need it
				s.Changed, value = false, config.DefaultSupportAddress
			}
			a.support, err = port(s.Name, value)
		case "wait-for-healthcheck-interval":
			a.wait, err = time.ParseDuration(value)
		case "shutdown-timeout":
			a.shutdown, err = time.ParseDuration(value)
		case "enable-kubernetes-endpointslices":
			a.slices = value == "true"
			a.file = append(a.file, s) // the rights depend on it, so the file states it in any case
			continue
		case "kubernetes-namespace":
			a.namespace = value
		case "kubernetes-in-cluster":
			if value == "true" {
				a.args = append([]string{"-kubernetes-in-cluster"}, a.args...)
			}
		case "kubernetes-url":
			a.apiPort = portOfURL(value)
		}
		if err != nil {
			return err
		}
		if slices.Contains(own, s.Name) || !s.Changed {
			continue
		}
		if slices.Contains(pathFlags, s.Name) {
			a.files = append(a.files, strings.Split(value, ",")...)
		}
		if slices.Contains(inFile, s.Group) || s.Name == "default-filters-dir" {
			a.file = append(a.file, s)
			continue
		}
		for _, v := range s.Values {
			a.args = append(a.args, s.Argument(strings.ReplaceAll(v, "$(", "$$(")))
		}
	}
	a.args = append([]string{"-kubernetes"}, a.args...)
	return nil
}

// port returns the port number of a listener.
func port(flag, address string) (int, error) {
	_, text, err := net.SplitHostPort(address)
	if err == nil {
		var n int
		if n, err = strconv.Atoi(text); err == nil && n > 0 && n < 1<<16 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("-%s=%s: want a port from 1 to 65535, for Services and policies", flag, address)
}

// portOfURL returns the port of a URL, 0 if it has none.
func portOfURL(url string) int {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		if n, err := strconv.Atoi(host[i+1:]); err == nil {
			return n
		}
	}
	return 0
}
