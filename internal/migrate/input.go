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
