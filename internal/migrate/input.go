package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/manifests"
)

// Limits of the input.
const (
	maxInput   = 16 << 20
	maxObjects = 10_000
)

// Input is what is known about the old route server. All objects are in the namespace of the Deployment.
type Input struct {
	Deployment *appsv1.Deployment
	Services   []*corev1.Service // that select its pods
	ConfigMaps map[string]*corev1.ConfigMap
	Policies   []*networkingv1.NetworkPolicy // that select its pods
}

// Namespace returns the namespace of the old Deployment.
func (in *Input) Namespace() string { return in.Deployment.Namespace }

// Parse reads manifests from a file, or from stdin if the place is "-": YAML or JSON documents, including lists. If there are several Deployments, name selects one; an empty
// name selects the only one that is a route server. Objects without a namespace are in "default".
func Parse(place string, stdin io.Reader, name string) (*Input, error) {
	source, err := manifests.New(manifests.Config{Paths: []string{place}, Stdin: stdin, MaxFileBytes: maxInput})
	if err != nil {
		return nil, err
	}
	var objects []metav1.Object
	count := 0
	err = source.Objects(context.Background(), func(kind string, text []byte) error {
		o := map[string]metav1.Object{ // of other kinds the base has what it needs
			"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
			"ConfigMap": &corev1.ConfigMap{}, "NetworkPolicy": &networkingv1.NetworkPolicy{},
		}[kind]
		switch count++; {
		case count > maxObjects:
			return fmt.Errorf("more than %d objects", maxObjects)
		case kind == "":
			return errors.New("an object without a kind")
		case o == nil:
			return nil
		}
		if err := json.Unmarshal(text, o); err != nil {
			return fmt.Errorf("object %s: %w", o.GetName(), err)
		}
		o.SetNamespace(cmp.Or(o.GetNamespace(), "default"))
		objects = append(objects, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newInput(objects, name)
}

// newInput collects what belongs to one Deployment.
func newInput(objects []metav1.Object, name string) (*Input, error) {
	var deployments []*appsv1.Deployment
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok {
			deployments = append(deployments, d)
		}
	}
	d, err := pick("Deployment", name, deployments, (*appsv1.Deployment).GetName, func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers, isRouteServer)
	})
	if err == nil && len(d.Spec.Template.Spec.Containers) == 0 {
		err = fmt.Errorf("the Deployment %s has no container", d.Name)
	}
	if err != nil {
		return nil, err
	}
	in := &Input{Deployment: d, ConfigMaps: map[string]*corev1.ConfigMap{}}
	pod := labels.Set(d.Spec.Template.Labels)
	for _, o := range objects {
		if o.GetNamespace() != d.Namespace {
			continue
		}
		switch o := o.(type) {
		case *corev1.ConfigMap:
			in.ConfigMaps[o.Name] = o
		case *corev1.Service:
			if len(o.Spec.Selector) > 0 && labels.SelectorFromSet(o.Spec.Selector).Matches(pod) {
				in.Services = append(in.Services, o)
			}
		case *networkingv1.NetworkPolicy:
			selector, err := metav1.LabelSelectorAsSelector(&o.Spec.PodSelector)
			if err != nil {
				return nil, fmt.Errorf("NetworkPolicy %s: %w", o.Name, err)
			}
			if selector.Matches(pod) {
				in.Policies = append(in.Policies, o)
			}
		}
	}
	return in, nil
}

// pick returns the one with the name or, without a name, the only one or the only route server.
func pick[T any](what, name string, all []T, nameOf func(T) string, isServer func(T) bool) (one T, err error) {
	var fit []T
	var names []string
	for _, x := range all {
		names = append(names, nameOf(x))
		if name == nameOf(x) || name == "" && (len(all) == 1 || isServer(x)) {
			fit = append(fit, x)
		}
	}
	switch {
	case len(all) == 0:
		return one, fmt.Errorf("there is no %s in the manifests", what)
	case len(fit) == 0:
		return one, fmt.Errorf("none of the %ss %s is %s", what, strings.Join(names, ", "), cmp.Or(name, "a route server: name one"))
	case len(fit) > 1:
		return one, fmt.Errorf("several of the %ss %s are route servers: name one", what, strings.Join(names, ", "))
	}
	return fit[0], nil
}

// arguments is the old command line, and what it says.
type arguments struct {
	config.RouteServer
	words         []string // arguments of the new container, as they were
	main, support int      // ports
	api           int      // port of -kubernetes-url; 0 for the port of the cluster's API
}

// ours are flags that the overlay sets itself.
var ours = []string{"state-dir", "peers"}

// readArguments reads the command of the old container. Unusable arguments are an error of package config.
func (m *migration) readArguments() ([]config.Warning, error) {
	words := slices.Concat(m.container.Command, m.container.Args)
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		if !isProgram(words[0]) {
			return nil, fmt.Errorf("container %s runs %q, which is no route server: its flags cannot be read", m.container.Name, words[0])
		}
		words = words[1:]
	}
	a := &m.arguments
	read, warnings, err := config.ParseRouteServer(m.divide(words), config.Env{ReadFile: m.readFile})
	if err != nil {
		return warnings, err
	}
	a.RouteServer = *read
	for _, w := range warnings {
		m.note(w.Text, "`%s`", w.Flag)
	}
	if a.Listen.SupportAddress == "" { // metrics, status and the liveness probe need it
		a.Listen.SupportAddress = config.DefaultSupportAddress
		a.words = append(a.words, "-support-listener="+config.DefaultSupportAddress)
	}
	if a.main, err = port("address", a.Listen.Address); err != nil {
		return warnings, err
	}
	if a.support, err = port("support-listener", a.Listen.SupportAddress); err != nil {
		return warnings, err
	}
	if u, err := url.Parse(a.Source.URL); err == nil {
		a.api, _ = strconv.Atoi(u.Port())
	}
	a.words = append(a.words, "--state-dir="+stateDir, fmt.Sprintf("--peers=%s%s.%s.svc:%d", m.Prefix, peersName, m.in.Namespace(), a.main))
	return warnings, nil
}

// divide drops the arguments that have no effect, that the user leaves out and that the overlay sets. The others stay as they are. It
// returns the arguments with their variables replaced, as far as the manifest has the values; others are not checked.
func (m *migration) divide(words []string) (known []string) {
	a := &m.arguments
	ignored := make(map[string]bool)
	for _, f := range config.UnsupportedFlags() {
		ignored[f.Name] = !f.Refused
	}
	for i := 0; i < len(words); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		group := words[i : i+1]
		if !hasValue && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			group = append(group[:1:1], words[i])
		}
		leftOut := slices.Contains(m.LeaveOut, name)
		var expanded []string
		complete := true
		for _, word := range group {
			text, all := m.expand(word)
			expanded, complete = append(expanded, text), complete && all
		}
		switch {
		case leftOut:
			m.note("`--leave-out` names it", "`-%s`", name)
		case !complete && !ignored[name]:
			m.note("its value is known only in the pod. It is an argument as before, and was not checked", "`-%s`", name)
		default:
			known = append(known, expanded...)
		}
		if !leftOut && !ignored[name] && !slices.Contains(ours, name) && (name != "support-listener" || expanded[len(expanded)-1] != "-"+name+"=") {
			a.words = append(a.words, group...)
		}
	}
	return known
}

// reference matches a reference to a variable in an argument, and an escaped dollar.
var reference = regexp.MustCompile(`\$\$|\$\([^)]*\)`)

// expand replaces $(NAME) as the kubelet does. complete is false if the pod has a variable whose value is not in the manifest. A name
// that is not a variable of the container stays.
func (m *migration) expand(s string) (text string, complete bool) {
	complete = true
	text = reference.ReplaceAllStringFunc(s, func(r string) string {
		if r == "$$" {
			return "$"
		}
		for _, e := range slices.Backward(m.container.Env) {
			if e.Name != r[2:len(r)-1] {
				continue
			}
			if e.ValueFrom == nil && !strings.Contains(e.Value, "$(") {
				return e.Value
			}
			complete = false
			return r
		}
		complete = complete && len(m.container.EnvFrom) == 0
		return r
	})
	return text, complete
}

// readFile reads a file of a ConfigMap that the old container mounts.
func (m *migration) readFile(name string) ([]byte, error) {
	for _, mount := range m.container.VolumeMounts {
		i := slices.IndexFunc(m.pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.ConfigMap != nil })
		rest, within := strings.CutPrefix(path.Clean(name), path.Clean(mount.MountPath))
		if i < 0 || !within || rest != "" && rest[0] != '/' {
			continue
		}
		volume := m.pod.Volumes[i].ConfigMap
		from := m.in.ConfigMaps[volume.Name]
		if from == nil {
			return nil, fmt.Errorf("%s is in ConfigMap %s, which was not given: add it to the manifests", name, volume.Name)
		}
		key := path.Join(mount.SubPath, strings.TrimPrefix(rest, "/"))
		if at := slices.IndexFunc(volume.Items, func(item corev1.KeyToPath) bool { return item.Path == key }); at >= 0 {
			key = volume.Items[at].Key
		}
		if text, ok := from.Data[key]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("%s: ConfigMap %s has no key %s", name, from.Name, key)
	}
	return nil, fmt.Errorf("%s is in no ConfigMap that the container mounts", name)
}

// port returns the port number of a listener.
func port(flag, address string) (int, error) {
	if _, text, err := net.SplitHostPort(address); err == nil {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<16 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("-%s=%s: want a port from 1 to 65535, for Services and policies", flag, address)
}
