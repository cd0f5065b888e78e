package migrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Limits of the input.
const (
	maxInput   = 16 << 20
	maxObjects = 10_000
)

// Input is what is known about the old route server. All objects but the Deployment are in its namespace or in none.
type Input struct {
	Deployment *appsv1.Deployment
	Services   []*corev1.Service // that select its pods
	ConfigMaps map[string]*corev1.ConfigMap
	Policies   []*networkingv1.NetworkPolicy // that select its pods

	Bindings     []Binding
	Roles        map[string][]rbacv1.PolicyRule
	ClusterRoles map[string][]rbacv1.PolicyRule
	// Others are given objects that are not used, as "Kind name".
	Others []string
}

// Binding is a RoleBinding, or a ClusterRoleBinding if it has no namespace.
type Binding struct {
	Namespace, Name string
	Role            rbacv1.RoleRef
	Subjects        []rbacv1.Subject
}

// Namespace returns the namespace of the old Deployment.
func (in *Input) Namespace() string { return in.Deployment.Namespace }

// Parse reads manifests: YAML or JSON documents, including lists. If there are several Deployments, name selects one; an empty
// name selects the only one that is a route server. namespace is the namespace of objects without one.
func Parse(r io.Reader, name, namespace string) (*Input, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("the manifests have more than %d bytes", maxInput)
	}
	c := collector{defaultNamespace: namespace}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.add(doc, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d of the manifests: %w", n, err)
		}
	}
	return c.input(name)
}

// collector keeps objects until it is known which Deployment they belong to.
type collector struct {
	defaultNamespace string
	count            int
	deployments      []*appsv1.Deployment
	services         []*corev1.Service
	configMaps       []*corev1.ConfigMap
	policies         []*networkingv1.NetworkPolicy
	bindings         []Binding
	roles            []*rbacv1.Role
	clusterRoles     []*rbacv1.ClusterRole
	others           []string
}

// maxDepth is how deep lists may be in each other: each level is read again for the next one.
const maxDepth = 8

// add adds a document, or an item of a list of that depth.
func (c *collector) add(doc []byte, depth int) error {
	text, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(text)) == "null" {
		return nil
	}
	var head struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Items    []json.RawMessage
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if c.count++; c.count > maxObjects {
		return fmt.Errorf("more than %d objects", maxObjects)
	}
	if strings.HasSuffix(head.Kind, "List") && head.Items != nil {
		if depth == maxDepth {
			return fmt.Errorf("lists are more than %d deep in each other", maxDepth)
		}
		for _, item := range head.Items {
			if err := c.add(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := c.object(head.Kind, text); err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	if head.Kind == "" {
		return errors.New("an object without a kind")
	}
	if !used(head.Kind) {
		c.others = append(c.others, head.Kind+" "+head.Metadata.Name)
	}
	return nil
}

// used reports whether objects of a kind are used.
func used(kind string) bool {
	return slices.Contains([]string{
		"Deployment", "Service", "ConfigMap", "NetworkPolicy", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding",
		"ServiceAccount", "Namespace",
	}, kind)
}

func decode[T any](text []byte, to *[]*T) (*T, error) {
	o := new(T)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	*to = append(*to, o)
	return o, nil
}

// object adds one object.
func (c *collector) object(kind string, text []byte) error {
	in := func(m *metav1.ObjectMeta) {
		if m.Namespace == "" {
			m.Namespace = c.defaultNamespace
		}
	}
	switch kind {
	case "Deployment":
		d, err := decode(text, &c.deployments)
		if err != nil {
			return err
		}
		in(&d.ObjectMeta)
	case "Service":
		s, err := decode(text, &c.services)
		if err != nil {
			return err
		}
		in(&s.ObjectMeta)
	case "ConfigMap":
		m, err := decode(text, &c.configMaps)
		if err != nil {
			return err
		}
		in(&m.ObjectMeta)
	case "NetworkPolicy":
		p, err := decode(text, &c.policies)
		if err != nil {
			return err
		}
		in(&p.ObjectMeta)
	case "Role":
		r, err := decode(text, &c.roles)
		if err != nil {
			return err
		}
		in(&r.ObjectMeta)
	case "ClusterRole":
		_, err := decode(text, &c.clusterRoles)
		return err
	case "RoleBinding", "ClusterRoleBinding": // both have the same fields
		var b rbacv1.RoleBinding
		if err := json.Unmarshal(text, &b); err != nil {
			return err
		}
		if kind == "RoleBinding" {
			in(&b.ObjectMeta)
		}
		c.bindings = append(c.bindings, Binding{b.Namespace, b.Name, b.RoleRef, b.Subjects})
	}
	return nil
}

// input collects what belongs to one Deployment.
func (c *collector) input(name string) (*Input, error) {
	d, err := c.deployment(name)
	if err != nil {
		return nil, err
	}
	in := &Input{
		Deployment: d, ConfigMaps: map[string]*corev1.ConfigMap{}, Roles: map[string][]rbacv1.PolicyRule{},
		ClusterRoles: map[string][]rbacv1.PolicyRule{}, Others: c.others,
	}
	here := func(namespace string) bool { return namespace == d.Namespace }
	pod := labels.Set(d.Spec.Template.Labels)
	for _, s := range c.services {
		if here(s.Namespace) && len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(pod) {
			in.Services = append(in.Services, s)
		}
	}
	for _, p := range c.policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			return nil, fmt.Errorf("NetworkPolicy %s: %w", p.Name, err)
		}
		if here(p.Namespace) && selector.Matches(pod) {
			in.Policies = append(in.Policies, p)
		}
	}
	for _, m := range c.configMaps {
		if here(m.Namespace) {
			in.ConfigMaps[m.Name] = m
		}
	}
	for _, r := range c.roles {
		if here(r.Namespace) {
			in.Roles[r.Name] = r.Rules
		}
	}
	for _, r := range c.clusterRoles {
		in.ClusterRoles[r.Name] = r.Rules
	}
	for _, b := range c.bindings {
		if b.Namespace == "" || here(b.Namespace) {
			in.Bindings = append(in.Bindings, b)
		}
	}
	return in, nil
}

// deployment returns the selected Deployment.
func (c *collector) deployment(name string) (*appsv1.Deployment, error) {
	var fit []*appsv1.Deployment
	var names []string
	for _, d := range c.deployments {
		names = append(names, d.Name)
		if name == d.Name || name == "" && (len(c.deployments) == 1 || slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return isRouteServer(&c) })) {
			fit = append(fit, d)
		}
	}
	switch {
	case len(c.deployments) == 0:
		return nil, errors.New("there is no Deployment in the manifests")
	case len(fit) == 1 && len(fit[0].Spec.Template.Spec.Containers) == 0:
		return nil, fmt.Errorf("the Deployment %s has no container", fit[0].Name)
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) == 0:
		return nil, fmt.Errorf("none of the Deployments %s is %s", strings.Join(names, ", "), cmpOr(name, "a route server: name one"))
	}
	return nil, fmt.Errorf("several of the Deployments %s are route servers: name one", strings.Join(names, ", "))
}
