package deploy

import (
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// fromOutside sends a request to the support listener under a name that is not of the loopback interface, as a client of the pod
// does. It returns the status, 0 without a response.
func (s *server) fromOutside(t *testing.T, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addresses[supportListener]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "10.2.0.7:9006"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestSupportListenerOfDataPlanesIsForOperators: with components/sidecar-loopback only probes and Prometheus are answered over
// TCP.
func TestSupportListenerOfDataPlanesIsForOperators(t *testing.T) {
	const render = "component-sidecar-loopback"
	d, c := sidecarOf(t, render)
	s := prepare(t, render, d, c, nil).reading(t, shop(t)).asking(t, d, "127.0.0.1:1").serve(t)
	s.ready(t)
	for kind, probe := range probes(c) {
		if got := s.fromOutside(t, probe.HTTPGet.Path); !passes(got) {
			t.Errorf("the %s probe gets %d", kind, got)
		}
	}
	if got := s.fromOutside(t, "/metrics"); got != http.StatusOK {
		t.Errorf("Prometheus gets %d", got)
	}
	for _, path := range []string{"/status", "/shadow"} {
		if got := s.fromOutside(t, path); got != http.StatusForbidden {
			t.Errorf("%s from outside: %d, want 403", path, got)
		}
		if got, _ := s.get(t, supportListener, path); got != http.StatusForbidden {
			t.Errorf("%s through the loopback interface, which the proxy shares: %d, want 403", path, got)
		}
	}
}

// TestPolicyOfDataPlanesClosesOnePort: with components/dataplane-policy only Prometheus reaches the support listener, and
// everybody reaches the proxy.
func TestPolicyOfDataPlanesClosesOnePort(t *testing.T) {
	const render = "component-dataplane-policy"
	d, c := sidecarOf(t, render)
	o := find(t, render, "NetworkPolicy", "dataplane-client")
	policy := as[networkingv1.NetworkPolicy](t, o)
	if o.namespace != d.Namespace {
		t.Errorf("the policy is in %s, the pods are in %s", o.namespace, d.Namespace)
	}
	for label, value := range policy.Spec.PodSelector.MatchLabels {
		if d.Spec.Template.Labels[label] != value {
			t.Errorf("the policy selects %s=%s, which the pods do not have", label, value)
		}
	}
	// from returns who may connect: everybody, these namespaces, or nobody.
	from := func(protocol corev1.Protocol, port int32) (everybody bool, namespaces []string) {
		for _, rule := range policy.Spec.Ingress {
			for _, p := range rule.Ports {
				last := p.Port.IntVal
				if p.EndPort != nil {
					last = *p.EndPort
				}
				if *p.Protocol != protocol || port < p.Port.IntVal || port > last {
					continue
				}
				everybody = everybody || len(rule.From) == 0
				for _, peer := range rule.From {
					namespaces = append(namespaces, peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName])
				}
			}
		}
		return everybody, namespaces
	}
	support := int32(ports(c)["dataplane"])
	for _, port := range []int32{1, 80, 443, support - 1, support + 1, 9911, 9999, 65535} {
		if everybody, _ := from(corev1.ProtocolTCP, port); !everybody {
			t.Errorf("port %d is closed: it may be one of the proxy", port)
		}
		if everybody, _ := from(corev1.ProtocolUDP, port); !everybody {
			t.Errorf("UDP port %d is closed: it may be one of the proxy", port)
		}
	}
	if everybody, namespaces := from(corev1.ProtocolTCP, support); everybody || len(namespaces) != 1 || namespaces[0] != "monitoring" {
		t.Errorf("port %d is open for everybody: %t, for %q", support, everybody, namespaces)
	}
}
