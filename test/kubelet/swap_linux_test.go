package kubelet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/test/kubelet"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
)

const migration = "../../examples/migrate/"

// oldDeployment returns the Deployment of the reference.
func oldDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	text, err := os.ReadFile(migration + "skipper-ingress-routesrv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n---\n"))
	d := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(first, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// patched returns a Deployment with the patch of the example, applied as kustomize applies it.
func patched(t *testing.T, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	text, err := os.ReadFile(migration + "routesrv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	changed := &appsv1.Deployment{}
	if err := json.Unmarshal(after, changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

// defaulted sets the defaults that an API server sets.
func defaulted(pod *corev1.PodSpec) {
	pod.RestartPolicy = corev1.RestartPolicyAlways
	for i := range pod.Containers {
		if p := pod.Containers[i].ReadinessProbe; p != nil {
			p.HTTPGet.Scheme = corev1.URISchemeHTTP
			p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold = 10, 1, 3
		}
	}
}

// The objects from which the proxies get routes.
const shop = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec:
  rules:
  - host: shop.example.org
    http: {paths: [{path: /cart, pathType: ImplementationSpecific, backend: {service: {name: shop, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec: {clusterIP: 10.3.0.7, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, namespace: shop, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.2.0.7], conditions: {ready: true}}, {addresses: [10.2.0.8], conditions: {ready: true}}]
`

// TestPatchedDeploymentOfTheReferenceServes: a Deployment that was written for the reference runs with our image and command when
// nothing else is changed. The reference itself is not run here.
func TestPatchedDeploymentOfTheReferenceServes(t *testing.T) {
	old := oldDeployment(t)
	swapped := patched(t, old)
	container := &swapped.Spec.Template.Spec.Containers[0]
	back := swapped.DeepCopy()
	back.Spec.Template.Spec.Containers[0].Image, back.Spec.Template.Spec.Containers[0].Command = old.Spec.Template.Spec.Containers[0].Image, nil
	if diff := cmp.Diff(old, back); diff != "" {
		t.Errorf("the patch changes more than image and command (-old +patched):\n%s", diff)
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "skipper-ingress-routesrv-1", Namespace: old.Namespace, UID: "u-1", Labels: swapped.Spec.Template.Labels},
		Spec:       swapped.Spec.Template.Spec,
	}
	defaulted(&pod.Spec)
	// The one thing that the test changes: the lame duck period of the platform takes most of a minute.
	args := pod.Spec.Containers[0].Args
	for i := range args {
		args[i] = strings.Replace(args[i], "-wait-for-healthcheck-interval=45s", "-wait-for-healthcheck-interval=1s", 1)
	}

	server, err := kubetest.New([]byte(shop), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewTLSServer(server)
	defer api.Close()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "skipper-ingress", Namespace: old.Namespace}, Data: map[string][]byte{"lightstep-token": []byte("hunter2")},
	}
	client := fake.NewClientset(secret)
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		if create, ok := a.(clienttesting.CreateActionImpl); !ok || a.GetSubresource() != "token" || create.Name != "skipper-ingress" {
			return true, nil, fmt.Errorf("unexpected %v", a)
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t0ken"}}, nil
	})

	built, remove, err := programs.Build("../..", programs.Plain, "routesrv", "dataplane-client") // takes minutes on a busy machine
	defer remove()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := kubelet.Start(ctx, kubelet.Config{
		Pod: pod, IP: netip.MustParseAddr("192.0.2.10"), Images: map[string]kubelet.Image{container.Image: kubelet.Routesrv(built)}, Client: client,
		APIServer: api.Listener.Addr().String(), CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}), Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log:\n%s", p.Log("routesrv"))
		}
	}()
	if err := p.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}

	// The requests of the proxies and Prometheus, to the ports that the manifest has always had.
	resp, table := ask(t, p, 9990, "/routes", "")
	for _, want := range []string{
		`kube_shop__shop__shop_example_org___cart__shop: Host(/^(shop[.]example[.]org[.]?(:[0-9]+)?)$/) && PathSubtree("/cart")`,
		"enableAccessLog(4, 5) -> lifo(2000, 20000, \"3s\")", `stateBagToTag("auth-user", "client.uid")`, `<powerOfRandomNChoices, "http://10.2.0.7:8080", "http://10.2.0.8:8080">`,
	} {
		if resp.StatusCode != http.StatusOK || !strings.Contains(table, want) {
			t.Errorf("/routes: %s, no %s in\n%s", resp.Status, want, table)
		}
	}
	if resp, _ := ask(t, p, 9990, "/routes", resp.Header.Get("Etag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("/routes again: %s", resp.Status)
	}
	if resp, text := ask(t, p, 9911, "/metrics", ""); resp.StatusCode != http.StatusOK || !strings.Contains(text, `routesrv_custom_gauges{key="routes.total"}`) {
		t.Errorf("/metrics: %s\n%s", resp.Status, text)
	}
	if resp, _ := ask(t, p, 9911, "/debug/pprof/cmdline", ""); resp.StatusCode != http.StatusOK { // -enable-profile
		t.Errorf("profiles: %s", resp.Status)
	}
	log := p.Log("routesrv")
	for _, want := range []string{"msg=\"starting polling\"", "msg=\"routes initialized\"", "level=INFO"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log", want)
		}
	}
	if strings.Contains(log, "hunter2") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log has a password or an error")
	}

	took, err := p.Stop()
	if err != nil || took < time.Second {
		t.Errorf("the end took %v: %v", took, err)
	}
	if err := p.Faults(); err != nil {
		t.Error(err)
	}
	if log := p.Log("routesrv"); !strings.Contains(log, "shutting down the server in 1s...") {
		t.Errorf("no word of the end in the log")
	}
}

// ask sends a request to a port of the pod as another pod does.
func ask(t *testing.T, p *kubelet.Pod, port uint16, path, etag string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pod"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.Dial(ctx, port)
	}}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, body.String()
}
