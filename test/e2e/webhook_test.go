package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/test/certtest"
	"github.com/routesrv/routesrv/test/programs"
)

const (
	webhookFile      = "../../deploy/kustomize/components/webhook/webhook.yaml"
	webhookNamespace = "reviewed"
)

// warnings collects the warnings of API servers.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// TestWebhookOnARealAPIServer uses the manifest's rules with the address of a local process. The webhook refuses, warns, is not
// asked about other namespaces, keeps working with a new certificate, and while it is down everything passes.
func TestWebhookOnARealAPIServer(t *testing.T) {
	c := ownCluster(t)
	ctx := t.Context()
	api := newFaultProxy(t, c)
	token, err := c.token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir, authority := t.TempDir(), certtest.New(t)
	issue := func(serial int64) {
		authority.Files(dir, "tls", certtest.Loopback, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) })
	}
	issue(2)
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	args := append([]string{"webhook", "-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s",
		"-tls-cert=" + filepath.Join(dir, "tls.crt"), "-tls-key=" + filepath.Join(dir, "tls.key")}, sourceArgs(t, api, token)...)
	p := startProcess(t, binary, main, support, args)
	programs.Eventually(t, "a first snapshot", func() bool {
		a, err := programs.Fetch(ctx, p.Support+"/health", "")
		return err == nil && a.Status == http.StatusOK
	})
	seen := &warnings{}
	config := rest.CopyConfig(c.config)
	config.WarningHandler = seen
	client := *c
	if client.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	register(t, c, "https://"+main+"/validate", authority.Cert)
	t.Cleanup(func() { c.remove(context.WithoutCancel(ctx), reviewedObjects) })

	// Routes are checked once their Service has endpoints.
	if err := client.apply(ctx, webService); err != nil {
		t.Fatal(err)
	}
	// The API server applies the configuration after a moment, and the webhook needs to see the endpoints. Both have happened
	// when the bad object is refused.
	programs.Eventually(t, "the first refusal", func() bool {
		err := client.apply(ctx, crashingIngress)
		if err == nil {
			err = client.remove(ctx, crashingIngress)
		}
		return err != nil && strings.Contains(err.Error(), "would_crash_proxy")
	})
	err = client.apply(ctx, crashingIngress)
	if err == nil || !strings.Contains(err.Error(), `admission webhook "routes.routesrv.github.io" denied the request: would_crash_proxy: `) {
		t.Errorf("refused with: %v", err)
	}
	if err := client.apply(ctx, invalidGroup); err == nil || !strings.Contains(err.Error(), "invalid_object") {
		t.Errorf("the RouteGroup was refused with: %v", err)
	}
	seen.take()
	if err := client.apply(ctx, lonelyIngress); err != nil {
		t.Error(err)
	}
	if got := seen.take(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "service_not_found: ") }) {
		t.Errorf("warnings %q", got)
	}
	// The same object in a namespace without the webhook.
	elsewhere := strings.ReplaceAll(crashingIngress, "namespace: "+webhookNamespace, "namespace: elsewhere")
	if err := client.apply(ctx, elsewhere); err != nil {
		t.Error(err)
	}
	if err := c.remove(ctx, elsewhere); err != nil {
		t.Error(err)
	}

	issue(3)
	programs.Eventually(t, "the new certificate", func() bool { return serialOf(t, main, authority.Cert) == 3 })
	if err := client.apply(ctx, crashingIngress); err == nil {
		t.Error("nothing is refused after the certificate was replaced")
	}

	p.Stop(t)
	if err := client.apply(ctx, crashingIngress); err != nil {
		t.Errorf("while the webhook is away: %v", err)
	}
	// Back again: the stored object is broken, and can still be changed.
	p = startProcess(t, binary, main, support, args)
	programs.Eventually(t, "a first snapshot", func() bool {
		a, err := programs.Fetch(ctx, p.Support+"/health", "")
		return err == nil && a.Status == http.StatusOK
	})
	seen.take()
	if err := client.apply(ctx, strings.Replace(crashingIngress, "annotations:", "labels: {team: shop}\n  annotations:", 1)); err != nil {
		t.Errorf("a label on an object that was broken before: %v", err)
	}
	programs.Eventually(t, "a warning", func() bool {
		got := seen.take()
		if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "would_crash_proxy: ") }) {
			return true
		}
		// The API server may not have noticed yet that the webhook answers again.
		return client.apply(ctx, strings.Replace(crashingIngress, "annotations:", "labels: {at: \""+fmt.Sprint(time.Now().UnixNano())+"\"}\n  annotations:", 1)) != nil
	})
}

const (
	crashingIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: crashing
  namespace: ` + webhookNamespace + `
  annotations: {zalando.org/skipper-filter: 'admissionControl("m", "active", "0s", 10, 10, 0.5, 0.1, 1)'}
spec:
  rules: [{host: crashing.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`
	webService = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ` + webhookNamespace + `}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: ` + webhookNamespace + `, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.9.9.9]}]
ports: [{name: http, port: 80}]
`
	invalidGroup = `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: unknown-backend, namespace: ` + webhookNamespace + `}
spec:
  hosts: [group.example.org]
  backends: [{name: a, type: shunt}]
  routes: [{pathSubtree: /, backends: [{backendName: b}]}]
`
	lonelyIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: lonely, namespace: ` + webhookNamespace + `}
spec:
  rules: [{host: lonely.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: later, port: {number: 80}}}}]}}]
`
	reviewedObjects = crashingIngress + "---" + webService + "---" + invalidGroup + "---" + lonelyIngress
)

// register registers the webhook of the manifests, for one namespace and at the address.
func register(t *testing.T, c *cluster, url string, authority *x509.Certificate) {
	t.Helper()
	text, err := os.ReadFile(webhookFile)
	if err != nil {
		t.Fatal(err)
	}
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	w := &config.Webhooks[0]
	w.ClientConfig = admissionregistrationv1.WebhookClientConfig{
		URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}),
	}
	w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{webhookNamespace},
	})
	all := c.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := all.Create(t.Context(), &config, metav1.CreateOptions{}); err != nil {
		asJSON, _ := json.Marshal(config)
		t.Fatalf("%v: %s", err, asJSON)
	}
	t.Cleanup(func() {
		if err := all.Delete(context.WithoutCancel(t.Context()), config.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// serialOf returns the serial number of the certificate on a new connection.
func serialOf(t *testing.T, address string, authority *x509.Certificate) int64 {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}
