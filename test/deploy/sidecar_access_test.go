package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// fromOutside sends a request to the support listener under a name that is not of the loopback interface, as a client of the pod
// does. It returns the status, 0 without a response.
func (s *server) fromOutside(t *testing.T, scheme, path string, cfg *tls.Config) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+s.addresses[supportListener]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "10.2.0.7:9006"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg}, Timeout: patience}
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

// scrape is how the PodMonitor scrapes pods.
type scrape struct {
	Port, Path, Interval, Scheme string
	TLSConfig                    struct {
		ServerName string `json:"serverName"`
		CA         struct {
			Secret corev1.SecretKeySelector `json:"secret"`
		} `json:"ca"`
		Cert struct {
			Secret corev1.SecretKeySelector `json:"secret"`
		} `json:"cert"`
		KeySecret corev1.SecretKeySelector `json:"keySecret"`
	} `json:"tlsConfig"`
}

// TestSupportListenerOfDataPlanesWantsCertificates: with components/sidecar-tls and the Secrets of its Certificates. The probes
// of the kubelet, which has no certificate, are answered; Prometheus gets metrics, as its PodMonitor says; other clients get
// nothing.
func TestSupportListenerOfDataPlanesWantsCertificates(t *testing.T) {
	const render = "component-sidecar-tls"
	by := newIssuer(t)
	secrets := make(map[string]map[string][]byte)
	namespaces := make(map[string]string) // of the Secrets
	for _, name := range []string{"routesrv", "routesrv-dataplane", "routesrv-dataplane-support", "routesrv-monitoring"} {
		c := certificate(t, render, name)
		find(t, render, c.IssuerRef.Kind, c.IssuerRef.Name)
		secrets[c.SecretName] = by.secret(t, c, net.IPv4(127, 0, 0, 1))
		namespaces[c.SecretName] = find(t, render, "Certificate", name).namespace
	}
	d, c := sidecarOf(t, render)
	if at := namespaces["routesrv-dataplane-support-tls"]; at != d.Namespace {
		t.Errorf("the Secret of the listener is in %s, the pods are in %s", at, d.Namespace)
	}
	s := prepare(t, render, d, c, secrets).reading(t, shop(t)).asking(t, d, "127.0.0.1:1").serve(t)

	anyServer := &tls.Config{InsecureSkipVerify: true} // as the kubelet does
	for deadline := time.Now().Add(patience); s.fromOutside(t, "https", "/health", anyServer) != http.StatusNoContent; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no table")
		}
	}
	for kind, probe := range probes(c) {
		if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("the %s probe uses %s", kind, probe.HTTPGet.Scheme)
		}
		if got := s.fromOutside(t, "https", probe.HTTPGet.Path, anyServer); !passes(got) {
			t.Errorf("the %s probe gets %d", kind, got)
		}
	}

	monitors := find(t, render, "PodMonitor", "dataplane-client")
	text, err := yaml.Marshal(monitors.fields["spec"].(map[string]any)["podMetricsEndpoints"].([]any)[0])
	if err != nil {
		t.Fatal(err)
	}
	var how scrape
	if err := yaml.UnmarshalStrict(text, &how); err != nil {
		t.Fatal(err)
	}
	of := how.TLSConfig
	for _, ref := range []corev1.SecretKeySelector{of.CA.Secret, of.Cert.Secret, of.KeySecret} {
		if at := namespaces[ref.Name]; at != monitors.namespace {
			t.Errorf("the PodMonitor is in %s, its Secret %s in %q", monitors.namespace, ref.Name, at)
		}
	}
	pair, err := tls.X509KeyPair(secrets[of.Cert.Secret.Name][of.Cert.Secret.Key], secrets[of.KeySecret.Name][of.KeySecret.Key])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secrets[of.CA.Secret.Name][of.CA.Secret.Key]) {
		t.Fatal("the PodMonitor names no authority")
	}
	prometheus := &tls.Config{ServerName: of.ServerName, RootCAs: roots, Certificates: []tls.Certificate{pair}}
	if got := s.fromOutside(t, how.Scheme, how.Path, prometheus); got != http.StatusOK {
		t.Errorf("Prometheus gets %d", got)
	}
	stranger := &tls.Config{ServerName: of.ServerName, RootCAs: roots}
	for _, path := range []string{how.Path, "/status", "/shadow", "/problems", "/guard/held"} {
		if got := s.fromOutside(t, "https", path, stranger); got != http.StatusForbidden {
			t.Errorf("%s without a certificate: %d, want 403", path, got)
		}
	}
}

// TestSupportListenerOfDataPlanesIsForOperators: with components/sidecar-loopback only probes and Prometheus are answered over
// TCP.
func TestSupportListenerOfDataPlanesIsForOperators(t *testing.T) {
	const render = "component-sidecar-loopback"
	d, c := sidecarOf(t, render)
	s := prepare(t, render, d, c, nil).reading(t, shop(t)).asking(t, d, "127.0.0.1:1").serve(t)
	s.ready(t)
	for kind, probe := range probes(c) {
		if got := s.fromOutside(t, "http", probe.HTTPGet.Path, nil); !passes(got) {
			t.Errorf("the %s probe gets %d", kind, got)
		}
	}
	if got := s.fromOutside(t, "http", "/metrics", nil); got != http.StatusOK {
		t.Errorf("Prometheus gets %d", got)
	}
	for _, path := range []string{"/status", "/shadow"} {
		if got := s.fromOutside(t, "http", path, nil); got != http.StatusForbidden {
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
