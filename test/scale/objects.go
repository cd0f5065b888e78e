package scale

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/routesrv/routesrv/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	filterAnnotation    = "zalando.org/skipper-filter"
	predicateAnnotation = "zalando.org/skipper-predicate"
	redirectAnnotation  = "zalando.org/skipper-ingress-redirect"
	weightsAnnotation   = "zalando.org/backend-weights"
	domain              = "apps.platform.example.org"
)

var (
	apps   = []string{"cart", "checkout", "catalog", "search", "profile", "payments", "returns", "wishlist", "reviews", "pricing"}
	teams  = []string{"ananas", "borealis", "cosmos", "delta", "everest", "fjord", "gravity", "horizon"}
	zones  = []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}
	places = []string{"/", "/api", "/api/v2/orders", "/static/assets", "/health", "/internal/metrics", "/events", "/graphql"}
	verbs  = []string{"GET", "POST", "PUT", "DELETE"}

	filters = []string{
		`setRequestHeader("X-Source", "ingress") -> compress()`,
		`corsOrigin("https://www.example.org", "https://m.example.org") -> setResponseHeader("Strict-Transport-Security", "max-age=31536000; includeSubDomains")`,
		`clusterClientRatelimit("login", 100, "1m", "Authorization") -> backendTimeout("5s")`,
		`modPath("^/api/(.*)$", "/$1") -> tee("https://shadow.example.org") -> flowId("reuse")`,
		`oauthTokeninfoAnyScope("uid", "read") -> unverifiedAuditLog("https://identity.example.org/managed-id") -> lifo()`,
	}
	predicates = []string{
		`Header("X-Canary", "true")`, `Cookie("experiment", "^b$") && QueryParam("beta")`,
		`Between("2024-01-01T00:00:00+01:00", "2034-01-01T00:00:00+01:00")`,
	}
	born = metav1.NewTime(time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC))
)

func (c *Cluster) namespace(i int) string {
	n := i % c.namespaces
	return fmt.Sprintf("%s-%s-%04d", teams[n%len(teams)], apps[n/len(teams)%len(apps)], n)
}

// base returns the common name of the objects of a service.
func (c *Cluster) base(i int) string { return fmt.Sprintf("%s-%06d", apps[i%len(apps)], i) }

// sibling returns the number of another service in the same namespace, or i if there is none.
func (c *Cluster) sibling(i int) int {
	switch {
	case i+c.namespaces < c.services:
		return i + c.namespaces
	case i >= c.namespaces:
		return i - c.namespaces
	default:
		return i
	}
}

// meta returns the metadata of a stored object. fields are the managed fields of the spec.
func (c *Cluster) meta(r *rand.Rand, i int, name, manager, fields string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: name, Namespace: c.namespace(i), Generation: 1 + int64(r.IntN(30)),
		UID:             types.UID(fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))),
		ResourceVersion: fmt.Sprint(100000 + r.IntN(800000)), CreationTimestamp: born,
		Labels: map[string]string{
			"application": apps[i%len(apps)], "component": name, "team": teams[i%len(teams)],
		},
	}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &born,
		FieldsType: "FieldsV1", FieldsV1: fieldsV1(`{"f:metadata":{"f:annotations":{".":{}},"f:labels":{".":{},"f:application":{},"f:component":{},"f:team":{}}},"f:spec":{` + fields + `}}`),
	}}
	return m
}

// apply copies the object into its own annotation, as kubectl apply does.
func apply(m *metav1.ObjectMeta, apiVersion, kind string, spec any) {
	applied, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": m.Name, "namespace": m.Namespace, "labels": m.Labels, "annotations": m.Annotations},
	})
	if err != nil {
		panic(fmt.Sprintf("made-up object: %v", err)) // programming error: all fields are plain
	}
	m.Annotations[kube.LastAppliedAnnotation] = string(applied)
}

// ingress returns Ingress number i after its n-th change.
func (c *Cluster) ingress(i, n int) *networkingv1.Ingress {
	r := random(kube.KindIngress, i)
	annotations := make(map[string]string)
	if r.IntN(100) < 55 {
		annotations[filterAnnotation] = filters[r.IntN(len(filters))]
	}
	if r.IntN(100) < 8 {
		annotations[predicateAnnotation] = predicates[r.IntN(len(predicates))]
	}
	switch p := r.IntN(100); {
	case p < 5:
		annotations[redirectAnnotation] = "false"
	case p < 10:
		annotations[redirectAnnotation] = "true"
	}
	service := i % c.services
	spec := networkingv1.IngressSpec{}
	hosts := 1
	if r.IntN(100) < 15 {
		hosts = 2
	}
	split := r.IntN(100) < 6
	for h := range hosts {
		host := fmt.Sprintf("%s.%s.%s", c.base(i), teams[i%len(teams)], domain)
		if h > 0 {
			host = fmt.Sprintf("%s-%d.%s", c.base(i), h, domain)
		}
		spec.Rules = append(spec.Rules, c.rule(r, host, service, split))
	}
	if split {
		other := c.base(c.sibling(service))
		annotations[weightsAnnotation] = fmt.Sprintf(`{%q: 80, %q: 20}`, c.base(service), other)
	}
	if n > 0 {
		annotations[filterAnnotation] = fmt.Sprintf(`setResponseHeader("X-Version", "%d")`, n)
		spec.Rules[0].HTTP.Paths[0].Path = fmt.Sprintf("/version/%d", n)
	}
	class := "skipper"
	spec.IngressClassName = &class
	m := c.meta(r, i, c.base(i), "kubectl-client-side-apply", `"f:ingressClassName":{},"f:rules":{}`)
	m.Annotations = annotations
	m.Generation += int64(n)
	apply(&m, "networking.k8s.io/v1", "Ingress", spec)
	o := &networkingv1.Ingress{TypeMeta: metav1.TypeMeta{Kind: "Ingress", APIVersion: "networking.k8s.io/v1"}, ObjectMeta: m, Spec: spec}
	o.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "lb-1.eu-central-1.elb.example.org"}}
	return o
}

// rule returns a host with one to three paths; with split, each path has two backends.
func (c *Cluster) rule(r *rand.Rand, host string, service int, split bool) networkingv1.IngressRule {
	pathType := networkingv1.PathTypeImplementationSpecific
	switch p := r.IntN(100); {
	case p < 40:
		pathType = networkingv1.PathTypePrefix
	case p < 45:
		pathType = networkingv1.PathTypeExact
	}
	number := 1
	switch p := r.IntN(100); {
	case p < 10:
		number = 3
	case p < 36:
		number = 2
	}
	from := r.IntN(len(places))
	if number == 1 && r.IntN(2) == 0 {
		from = 0 // most hosts have only the root path
	}
	rule := networkingv1.IngressRule{Host: host}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
	for p := range number {
		backends := []int{service}
		if split {
			backends = append(backends, c.sibling(service))
		}
		for _, b := range backends {
			rule.HTTP.Paths = append(rule.HTTP.Paths, networkingv1.HTTPIngressPath{
				Path: places[(from+p)%len(places)], PathType: &pathType,
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: c.base(b), Port: networkingv1.ServiceBackendPort{Name: "http"},
				}},
			})
		}
	}
	return rule
}

// routeGroup is a RouteGroup as JSON has it.
type routeGroup struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            routeGroupSpec    `json:"spec"`
}

type routeGroupSpec struct {
	Hosts           []string          `json:"hosts"`
	Backends        []routeBackend    `json:"backends"`
	DefaultBackends []routeReference  `json:"defaultBackends"`
	Routes          []routeDefinition `json:"routes,omitempty"`
}

type routeBackend struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	ServiceName string `json:"serviceName,omitempty"`
	ServicePort int    `json:"servicePort,omitempty"`
	Algorithm   string `json:"algorithm,omitempty"`
}

type routeReference struct {
	BackendName string `json:"backendName"`
	Weight      int    `json:"weight,omitempty"`
}

type routeDefinition struct {
	Path        string           `json:"path,omitempty"`
	PathSubtree string           `json:"pathSubtree,omitempty"`
	Methods     []string         `json:"methods,omitempty"`
	Predicates  []string         `json:"predicates,omitempty"`
	Filters     []string         `json:"filters,omitempty"`
	Backends    []routeReference `json:"backends,omitempty"`
}

// routeGroup returns RouteGroup number i. Its services are the last ones, which have no Ingress.
func (c *Cluster) routeGroup(i int) *routeGroup {
	r := random(kube.KindRouteGroup, i)
	service := i + (c.services-c.routeGroups)/c.namespaces*c.namespaces // in the namespace of number i
	service = min(service, c.services-1)
	name := fmt.Sprintf("%s-group-%06d", apps[i%len(apps)], i)
	g := &routeGroup{TypeMeta: metav1.TypeMeta{Kind: "RouteGroup", APIVersion: "zalando.org/v1"}}
	g.Spec.Hosts = []string{fmt.Sprintf("%s.%s.%s", name, teams[i%len(teams)], domain)}
	if r.IntN(100) < 40 {
		g.Spec.Hosts = append(g.Spec.Hosts, fmt.Sprintf("%s.mobile.%s", name, domain))
	}
	g.Spec.Backends = []routeBackend{
		{Name: "main", Type: "service", ServiceName: c.base(service), ServicePort: 80},
		{Name: "canary", Type: "service", ServiceName: c.base(c.sibling(service)), ServicePort: 80, Algorithm: "powerOfRandomNChoices"},
		{Name: "gone", Type: "shunt"},
	}
	g.Spec.DefaultBackends = []routeReference{{"main", 0}}
	weighted := []routeReference{{"main", 90}, {"canary", 10}}
	if r.IntN(100) < 10 {
		g.Spec.DefaultBackends = weighted
	}
	g.Spec.Routes = []routeDefinition{{PathSubtree: "/", Filters: strings.Split(filters[r.IntN(2)], " -> ")}}
	for p := range 2 + r.IntN(3) {
		d := routeDefinition{PathSubtree: places[1+(i+p)%(len(places)-1)]}
		switch kind := r.IntN(100); {
		case kind < 35:
			from := r.IntN(3)
			d.Methods = verbs[from : from+1+r.IntN(2)]
			d.Filters = strings.Split(filters[r.IntN(len(filters))], " -> ")
		case kind < 50:
			d.Predicates = strings.Split(predicates[r.IntN(len(predicates))], " && ")
		case kind < 65:
			d.Backends = weighted
		case kind < 72:
			d.Path, d.PathSubtree = d.PathSubtree, ""
			d.Filters = []string{"status(410)", `inlineContent("gone")`}
			d.Backends = []routeReference{{"gone", 0}}
		}
		g.Spec.Routes = append(g.Spec.Routes, d)
	}
	g.Metadata = c.meta(r, i, name, "cdp-controller", `"f:backends":{},"f:defaultBackends":{},"f:hosts":{},"f:routes":{}`)
	g.Metadata.Annotations = map[string]string{
		"pipeline.example.org/build": fmt.Sprintf("https://pipeline.example.org/builds/%016x", r.Uint64()),
		"pipeline.example.org/owner": teams[i%len(teams)] + "@teams.example.org",
	}
	return g
}

func (c *Cluster) service(i int) *corev1.Service {
	r := random(kube.KindService, i)
	o := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: c.meta(r, i, c.base(i), "cdp-controller", `"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:targetPort":{}}},"f:selector":{}`),
	}
	o.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: address(172, i), ClusterIPs: []string{address(172, i)},
		SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Selector: map[string]string{"application": apps[i%len(apps)], "component": c.base(i)},
		Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}
	if r.IntN(100) < 20 {
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{
			Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromString("metrics"),
		})
	}
	return o
}

func (c *Cluster) endpointSlice(i int) *discoveryv1.EndpointSlice {
	r := random(kube.KindEndpointSlice, i)
	o := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta:  c.meta(r, i, fmt.Sprintf("%s-%05x", c.base(i), i*31%0xfffff), "kube-controller-manager", ""),
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	o.Labels[kube.ServiceNameLabel] = c.base(i)
	o.Labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
	name, port, protocol, yes, no := "http", int32(8080), corev1.ProtocolTCP, true, false
	o.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}
	for e := range 2 + r.IntN(4) {
		zone := zones[(i+e)%len(zones)]
		node := fmt.Sprintf("ip-10-%d-%d.eu-central-1.compute.internal", r.IntN(256), r.IntN(256))
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address(10, 5*i+e)}, Zone: &zone, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: c.namespace(i), Name: fmt.Sprintf("%s-%010x-%05x", c.base(i), r.Int64N(1<<40), r.IntN(1<<20)),
			},
		})
	}
	return o
}

// address returns the IPv4 address for a number.
func address(net, i int) string { return fmt.Sprintf("%d.%d.%d.%d", net, i>>16&255, i>>8&255, i&255) }

func fieldsV1(text string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawString(text)
	return f
}
