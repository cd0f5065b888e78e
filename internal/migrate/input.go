package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
	var c collector
	if err := source.Objects(context.Background(), c.add); err != nil {
		return nil, err
	}
	return c.input(name)
}

// collector keeps objects until it is known which Deployment they belong to.
type collector struct {
	count       int
	deployments []*appsv1.Deployment
	services    []*corev1.Service
	configMaps  []*corev1.ConfigMap
	policies    []*networkingv1.NetworkPolicy
}

// add adds an object. Other kinds are not read: the base has what it needs.
func (c *collector) add(kind string, object []byte) error {
	if c.count++; c.count > maxObjects {
		return fmt.Errorf("more than %d objects", maxObjects)
	}
	switch kind {
	case "":
		return errors.New("an object without a kind")
	case "Deployment":
		return decode(object, &c.deployments)
	case "Service":
		return decode(object, &c.services)
	case "ConfigMap":
		return decode(object, &c.configMaps)
	case "NetworkPolicy":
		return decode(object, &c.policies)
	}
	return nil
}

// decode appends an object.
func decode[T any, P interface {
	*T
	metav1.Object
}](text []byte, to *[]P) error {
	o := P(new(T))
	if err := json.Unmarshal(text, o); err != nil {
		return fmt.Errorf("object %s: %w", o.GetName(), err)
	}
	o.SetNamespace(cmp.Or(o.GetNamespace(), "default"))
	*to = append(*to, o)
	return nil
}

// input collects what belongs to one Deployment.
func (c *collector) input(name string) (*Input, error) {
	d, err := pick("Deployment", name, c.deployments, (*appsv1.Deployment).GetName, func(d *appsv1.Deployment) bool {
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
	for _, s := range c.services {
		if s.Namespace == d.Namespace && len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(pod) {
			in.Services = append(in.Services, s)
		}
	}
	for _, p := range c.policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			return nil, fmt.Errorf("NetworkPolicy %s: %w", p.Name, err)
		}
		if p.Namespace == d.Namespace && selector.Matches(pod) {
			in.Policies = append(in.Policies, p)
		}
	}
	for _, m := range c.configMaps {
		if m.Namespace == d.Namespace {
			in.ConfigMaps[m.Name] = m
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
