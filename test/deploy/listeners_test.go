package deploy

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// routeServer returns the Deployment of the route server, and its only container.
func routeServer(t *testing.T, render string) (*appsv1.Deployment, *corev1.Container) {
	t.Helper()
	d := as[appsv1.Deployment](t, find(t, render, "Deployment", "routesrv"))
	return d, &d.Spec.Template.Spec.Containers[0]
}

// ports returns the ports of a container by name.
func ports(c *corev1.Container) map[string]int {
	all := make(map[string]int)
	for _, p := range c.Ports {
		all[p.Name] = int(p.ContainerPort)
	}
	return all
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPortsAreThoseThatTheServerListensOn: the ports of the container, the Service, the policy and the ServiceMonitor.
func TestPortsAreThoseThatTheServerListensOn(t *testing.T) {
	const render = "component-metrics"
	d, c := routeServer(t, render)
	listens := prepare(t, render, d, c, nil).reading(t, nowhere).listens(t)
	main, support := portOf(t, listens[mainListener]), portOf(t, listens[supportListener])
	for listener, address := range listens {
		if host, _, _ := net.SplitHostPort(address); host != "" && host != "::" {
			t.Errorf("the %s listener is at %s, which nobody outside of the pod can reach", listener, address)
		}
	}
	if diff := cmp.Diff(map[string]int{"http": main, "support": support}, ports(c)); diff != "" {
		t.Errorf("ports of the container (-listens +manifest):\n%s", diff)
	}

	service := as[corev1.Service](t, find(t, render, "Service", "routesrv"))
	targets := make(map[string]int)
	for _, p := range service.Spec.Ports {
		targets[p.Name] = ports(c)[p.TargetPort.StrVal]
	}
	if diff := cmp.Diff(map[string]int{"http": main, "support": support}, targets); diff != "" {
		t.Errorf("where the Service leads (-listens +manifest):\n%s", diff)
	}
	for label, value := range service.Spec.Selector {
		if d.Spec.Template.Labels[label] != value {
			t.Errorf("the Service selects %s=%s, which the pods do not have", label, value)
		}
	}

	policy := as[networkingv1.NetworkPolicy](t, find(t, render, "NetworkPolicy", "routesrv"))
	allowed := make(map[string][]int)
	for _, rule := range policy.Spec.Ingress {
		for _, from := range rule.From {
			for _, p := range rule.Ports {
				name := "the other replicas"
				if from.NamespaceSelector != nil {
					name = from.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
				} else if diff := cmp.Diff(policy.Spec.PodSelector, *from.PodSelector); diff != "" {
					t.Errorf("pods that are let in (-those of the policy +manifest):\n%s", diff)
				}
				allowed[name] = append(allowed[name], p.Port.IntValue())
			}
		}
	}
	if diff := cmp.Diff(map[string][]int{dataPlane(t, render).Namespace: {main}, "the other replicas": {main, support}, "monitoring": {support}}, allowed); diff != "" {
		t.Errorf("who may reach which port (-want +manifest):\n%s", diff)
	}
	for label, value := range policy.Spec.PodSelector.MatchLabels {
		if d.Spec.Template.Labels[label] != value {
			t.Errorf("the policy selects %s=%s, which the pods do not have", label, value)
		}
	}
}

// TestPortsAreThoseThatTheSidecarListensOn: the ports of its container, the PodMonitor, and the URL that the proxy uses.
func TestPortsAreThoseThatTheSidecarListensOn(t *testing.T) {
	const render = "component-metrics"
	d := dataPlane(t, render)
	c := sidecar(t, d)
	listens := prepare(t, render, d, c, nil).reading(t, nowhere).listens(t)
	if diff := cmp.Diff(map[string]int{"dataplane": portOf(t, listens[supportListener])}, ports(c)); diff != "" {
		t.Errorf("ports of the container (-listens +manifest):\n%s", diff)
	}
	if host, _, _ := net.SplitHostPort(listens[supportListener]); host != "" && host != "::" {
		t.Errorf("the support listener is at %s, which no kubelet can reach", listens[supportListener])
	}
	u, err := url.Parse(flagOf(d.Spec.Template.Spec.Containers[0].Args, "-routes-urls"))
	if err != nil {
		t.Fatal(err)
	}
	if u.Host != listens[mainListener] || u.Path != "/routes" {
		t.Errorf("the proxy is told to ask %s, the sidecar listens on %s", u, listens[mainListener])
	}
}

// TestMonitorsFindPortsThatHaveMetrics: by the names and labels that they select.
func TestMonitorsFindPortsThatHaveMetrics(t *testing.T) {
	const render = "component-metrics"
	api := shop(t)
	_, endpoint := monitor(t, render, "ServiceMonitor", "routesrv", "endpoints", find(t, render, "Service", "routesrv").fields)
	d, c := routeServer(t, render)
	service := as[corev1.Service](t, find(t, render, "Service", "routesrv"))
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.port })
	if at < 0 || service.Spec.Ports[at].TargetPort != intstr.FromString("support") {
		t.Fatalf("the port %q of the Service is not that of the support listener", endpoint.port)
	}
	s := prepare(t, render, d, c, nil).reading(t, api).serve(t)
	if status, body := s.get(t, supportListener, endpoint.path); status != http.StatusOK || !strings.Contains(body, "\nroutesrv_table_routes ") {
		t.Errorf("%s of the route server: %d", endpoint.path, status)
	}

	d = dataPlane(t, render)
	pods := find(t, render, "Deployment", d.Name).fields["spec"].(map[string]any)["template"].(map[string]any)
	spec, endpoint := monitor(t, render, "PodMonitor", "dataplane-client", "podMetricsEndpoints", pods)
	if diff := cmp.Diff(map[string]any{"any": true}, spec["namespaceSelector"]); diff != "" {
		t.Errorf("namespaces of the PodMonitor: %s", diff)
	}
	if c = sidecar(t, d); ports(c)[endpoint.port] == 0 {
		t.Errorf("the sidecar has no port %q", endpoint.port)
	}
	s = prepare(t, render, d, c, nil).reading(t, api).serve(t)
	if status, body := s.get(t, supportListener, endpoint.path); status != http.StatusOK || !strings.Contains(body, "\ndataplane_mode{") {
		t.Errorf("%s of the sidecar: %d", endpoint.path, status)
	}
}

// endpoint is where a monitor scrapes.
type endpoint struct{ port, path string }

// monitor returns the spec and the only endpoint of a monitor, and expects it to select the object.
func monitor(t *testing.T, render, kind, name, list string, selected map[string]any) (spec map[string]any, _ endpoint) {
	t.Helper()
	spec = find(t, render, kind, name).fields["spec"].(map[string]any)
	labels := selected["metadata"].(map[string]any)["labels"].(map[string]any)
	for label, value := range spec["selector"].(map[string]any)["matchLabels"].(map[string]any) {
		if labels[label] != value {
			t.Errorf("%s %s selects %s=%v, which is not among %v", kind, name, label, value, labels)
		}
	}
	endpoints := spec[list].([]any)
	if len(endpoints) != 1 {
		t.Fatalf("%s %s has %d endpoints, want one", kind, name, len(endpoints))
	}
	e := endpoints[0].(map[string]any)
	return spec, endpoint{e["port"].(string), e["path"].(string)}
}

// TestDataPlanesAskWhereTheServiceIs: under the name of the Service, and at one of its ports.
func TestDataPlanesAskWhereTheServiceIs(t *testing.T) {
	for render := range rendered {
		d := dataPlane(t, render)
		if d == nil {
			continue
		}
		u := serverURL(t, d)
		service := as[corev1.Service](t, find(t, render, "Service", "routesrv"))
		if want := service.Name + "." + service.Namespace + ".svc"; u.Hostname() != want {
			t.Errorf("%s: data planes ask %s, the Service is %s", render, u, want)
		}
		port := map[string]int32{"http": 80, "https": 443}[u.Scheme]
		at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port && p.Name == u.Scheme })
		if at < 0 || u.Port() != "" || service.Spec.Ports[at].TargetPort != intstr.FromString("http") {
			t.Errorf("%s: data planes ask %s, the Service has the ports %v", render, u, service.Spec.Ports)
		}
	}
}

// serverURL returns the URL of the route servers for the sidecar.
func serverURL(t *testing.T, d *appsv1.Deployment) *url.URL {
	t.Helper()
	for _, e := range sidecar(t, d).Env {
		if e.Name == serverVariable {
			u, err := url.Parse(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
	}
	t.Fatalf("Deployment %s/%s: the sidecar is told of no route server", d.Namespace, d.Name)
	return nil
}

const serverVariable = "ROUTESRV_FLAG_UPSTREAM"

// asking makes a sidecar use another address, with the scheme that it is configured with.
func (p process) asking(t *testing.T, d *appsv1.Deployment, address string) process {
	t.Helper()
	env := slices.Clone(p.env)
	for i, e := range env {
		if strings.HasPrefix(e, serverVariable+"=") {
			env[i] = serverVariable + "=" + serverURL(t, d).Scheme + "://" + address
		}
	}
	return process{p.binary, p.args, env}
}
