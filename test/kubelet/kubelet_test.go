//go:build linux

package kubelet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/test/kubelet"
	"github.com/routesrv/routesrv/test/sandbox"
)

// worker is the image of the tests, made by TestMain.
var worker kubelet.Image

func TestMain(m *testing.M) {
	if status, done := sandbox.Enter(); done {
		os.Exit(status)
	}
	dir, err := os.MkdirTemp("", "kubelet-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	file := filepath.Join(dir, "worker")
	build := exec.Command("go", "build", "-o", file, "./testdata/worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v: %s\n", build, err, out)
		os.Exit(1)
	}
	worker = kubelet.Image{Files: map[string]string{"/bin/worker": file}, Entrypoint: []string{"/bin/worker"}, User: "70000:70001"}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		os.RemoveAll(dir)
		os.Exit(status)
	}))
}

// manifest is a pod as an API server has it. Tests may modify its text.
const manifest = `
metadata: {name: web-1, namespace: shop, uid: u-1, labels: {app: web}}
spec:
  serviceAccountName: web
  restartPolicy: Always
  terminationGracePeriodSeconds: 20
  enableServiceLinks: true
  securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1001, fsGroup: 1002}
  initContainers:
  - name: side
    image: worker:1
    restartPolicy: Always
    args: ["0.0.0.0:9001", late]
    ports: [{name: side, containerPort: 9001}]
    startupProbe: {httpGet: {path: /health, port: side, scheme: HTTP}, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 20}
    securityContext: {runAsUser: 2000, runAsGroup: 2000, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
  containers:
  - name: main
    image: worker:1
    command: [/bin/worker]
    args: ["0.0.0.0:9000", "--flag=a b", "$(POD) $$(POD) $(NOBODY) $(SECRET) $("]
    env:
    - {name: PLAIN, value: "text"}
    - {name: POD, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
    - {name: SECRET, valueFrom: {secretKeyRef: {name: token, key: a}}}
    ports: [{name: http, containerPort: 9000}]
    readinessProbe: {httpGet: {path: /health, port: http, scheme: HTTP}, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 1}
    volumeMounts:
    - {name: settings, mountPath: /etc/settings, readOnly: true}
    - {name: data, mountPath: /data}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
  volumes:
  - {name: settings, configMap: {name: settings, defaultMode: 420}}
  - {name: data, emptyDir: {}}
  - {name: none, configMap: {name: none, optional: true, defaultMode: 420}}
`

// settings is the ConfigMap that the pod mounts.
func settings(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "shop"}, Data: data}
}

var backend = &corev1.Service{
	ObjectMeta: metav1.ObjectMeta{Name: "back-end", Namespace: "shop"},
	Spec: corev1.ServiceSpec{
		ClusterIP: "198.51.100.7", Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	},
}

// configOf prepares the pod of the manifest, with replacements in its text.
func configOf(t *testing.T, replace ...string) kubelet.Config {
	t.Helper()
	text := manifest
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("there is no %q to replace", replace[i])
		}
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "shop"}, Data: map[string][]byte{"a": []byte("s3cret")}}
	client := fake.NewClientset(settings(map[string]string{"a": "1", "b": "2"}), backend, token)
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		create, ok := a.(clienttesting.CreateActionImpl)
		if !ok || a.GetSubresource() != "token" || create.Name != "web" {
			return true, nil, fmt.Errorf("unexpected %v", a)
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t0ken"}}, nil
	})
	return kubelet.Config{
		Pod: pod, IP: netip.MustParseAddr("192.0.2.10"), Images: map[string]kubelet.Image{"worker:1": worker}, Client: client,
		APIServer: "127.0.0.1:1", CA: []byte("authority"), Dir: t.TempDir(),
	}
}

func start(t *testing.T, c kubelet.Config) *kubelet.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := kubelet.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("main:\n%s\nside:\n%s", p.Log("main"), p.Log("side"))
		}
	})
	if err := p.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// get sends a request to a container of the pod.
func get(t *testing.T, p *kubelet.Pod, port uint16, path string, form ...string) (status int, body string) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.Dial(ctx, port)
	}}}
	resp, err := client.Get("http://pod" + path + "?" + values.Encode())
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func wantFile(t *testing.T, p *kubelet.Pod, path, want string) {
	t.Helper()
	if status, got := get(t, p, 9000, "/file", "path", path); status != http.StatusOK || got != want {
		t.Errorf("%s: %d %q, want %q", path, status, got, want)
	}
}

func TestContainersGetWhatTheManifestSays(t *testing.T) {
	p := start(t, configOf(t))
	report := func(port uint16) (r struct {
		Args, Env []string
		UID, GID  int
		Groups    []int
		Host      string
	}) {
		_, body := get(t, p, port, "/report")
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return r
	}
	main := report(9000)
	if want := []string{"/bin/worker", "0.0.0.0:9000", "--flag=a b", "web-1 $(POD) $(NOBODY) s3cret $("}; !slices.Equal(main.Args, want) {
		t.Errorf("arguments %q, want %q", main.Args, want)
	}
	if main.UID != 1000 || main.GID != 1001 || main.Host != "web-1" {
		t.Errorf("user %d:%d on %q", main.UID, main.GID, main.Host)
	}
	for _, want := range []string{
		"PLAIN=text", "POD=web-1", "HOSTNAME=web-1", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=443",
		"BACK_END_SERVICE_HOST=198.51.100.7", "BACK_END_PORT=tcp://198.51.100.7:80", "BACK_END_SERVICE_PORT_HTTP=80",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	} {
		if !slices.Contains(main.Env, want) {
			t.Errorf("no %s in %q", want, main.Env)
		}
	}
	for _, e := range main.Env {
		if strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "GOCACHE=") {
			t.Errorf("variable of the test in the container: %s", e)
		}
	}
	side := report(9001)
	if want := []string{"/bin/worker", "0.0.0.0:9001", "late"}; !slices.Equal(side.Args, want) || side.UID != 2000 || side.GID != 2000 {
		t.Errorf("the sidecar: %+v, want the entrypoint of the image and the user of the container", side)
	}
	wantFile(t, p, "/etc/settings/a", "1")
	wantFile(t, p, "/var/run/secrets/kubernetes.io/serviceaccount/token", "t0ken")
	wantFile(t, p, "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "authority")
	wantFile(t, p, "/var/run/secrets/kubernetes.io/serviceaccount/namespace", "shop")
	for path, may := range map[string]bool{"/data/x": true, "/x": false, "/etc/settings/x": false, "/tmp/x": false} {
		if status, body := get(t, p, 9000, "/write", "path", path); (status == http.StatusOK) != may {
			t.Errorf("writing %s: %d %s", path, status, body)
		}
	}
	if _, err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := p.Faults(); err != nil {
		t.Error(err)
	}
}

// stamp returns when a worker printed a word.
func stamp(t *testing.T, log, word string) int64 {
	t.Helper()
	m := regexp.MustCompile(word + ` (\d+)`).FindStringSubmatch(log)
	if m == nil {
		t.Fatalf("no %q in %q", word, log)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSidecarStartsFirstAndEndsLast(t *testing.T) {
	p := start(t, configOf(t))
	if _, err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	side, main := p.Log("side"), p.Log("main")
	if after := time.Duration(stamp(t, main, "started") - stamp(t, side, "started")); after < 300*time.Millisecond {
		t.Errorf("the container started %v after the sidecar, which is not healthy before 300 ms", after)
	}
	if stamp(t, side, "stopped") < stamp(t, main, "stopped") {
		t.Error("the sidecar was stopped before the container")
	}
}

func TestConfigMapChangesAllFilesAtOnce(t *testing.T) {
	c := configOf(t)
	p := start(t, c)
	if _, err := c.Client.CoreV1().ConfigMaps("shop").Update(t.Context(), settings(map[string]string{"a": "3", "c": "4"}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, "/etc/settings/a", "1")
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, "/etc/settings/a", "3")
	wantFile(t, p, "/etc/settings/c", "4")
	wantFile(t, p, "/etc/settings/..data/c", "4")
	if status, _ := get(t, p, 9000, "/file", "path", "/etc/settings/b"); status == http.StatusOK {
		t.Error("a key that was removed is still there")
	}
}

func TestPodReachesTheAPIServerAndServices(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the API") }))
	defer api.Close()
	behind := start(t, configOf(t))
	service := backend.DeepCopy()
	service.Spec.Ports[0].TargetPort.Type, service.Spec.Ports[0].TargetPort.StrVal = 1, "http"
	dial, err := kubelet.Service(service, 80, behind)
	if err != nil {
		t.Fatal(err)
	}
	c := configOf(t)
	at := netip.MustParseAddr(service.Spec.ClusterIP)
	c.IP, c.APIServer = netip.MustParseAddr("192.0.2.11"), strings.TrimPrefix(api.URL, "http://")
	c.Reach, c.Hosts = map[netip.AddrPort]kubelet.Dial{netip.AddrPortFrom(at, 80): dial}, map[string]netip.Addr{"back-end.shop.svc": at}
	p := start(t, c)
	if status, body := get(t, p, 9000, "/get", "url", "http://127.0.0.1:443/"); body != "the API" {
		t.Errorf("the API server: %d %s", status, body)
	}
	through := "http://back-end.shop.svc/file?path=" + url.QueryEscape("/etc/settings/a")
	if status, body := get(t, p, 9000, "/get", "url", through); body != "1" {
		t.Errorf("the service: %d %s", status, body)
	}
	if _, err := behind.Stop(); err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, p, 9000, "/get", "url", through); status == http.StatusOK {
		t.Errorf("the service without a pod: %s", body)
	}
	for name, change := range map[string]func(*corev1.Service){
		"does not select": func(s *corev1.Service) { s.Spec.Selector["app"] = "other" },
		"no port":         func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.StrVal = "nothing" },
		"has no port 80":  func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
	} {
		s := service.DeepCopy()
		change(s)
		if _, err := kubelet.Service(s, 80, behind); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q in it", err, name)
		}
	}
}

func TestFaultsAreWhatAKubeletRestartsFor(t *testing.T) {
	await := func(p *kubelet.Pod, want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if err := p.Faults(); err != nil && strings.Contains(err.Error(), want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("faults %v, want %q", p.Faults(), want)
			}
		}
	}
	p := start(t, configOf(t, `"--flag=a b"`, "fragile"))
	get(t, p, 9000, "/break")
	await(p, "main ended by itself: exit status 3")
	if p.Ready() {
		t.Error("ready without its container")
	}

	p = start(t, configOf(t, "readinessProbe", "livenessProbe"))
	get(t, p, 9000, "/break")
	await(p, "main would be restarted")

	p = start(t, configOf(t))
	get(t, p, 9000, "/break")
	for deadline := time.Now().Add(20 * time.Second); p.Ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still ready")
		}
	}
	if err := p.Faults(); err != nil {
		t.Errorf("not ready is no fault: %v", err)
	}

	// A startup probe that uses an address on which nothing listens: that of the pod.
	c := configOf(t, "0.0.0.0:9001", "127.0.0.1:9001", "failureThreshold: 20", "failureThreshold: 2")
	if _, err := kubelet.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "startup probe failed 2 times") {
		t.Errorf("error %v", err)
	}
}

func TestGracePeriodEndsWithAKill(t *testing.T) {
	p := start(t, configOf(t, `"--flag=a b"`, "deaf", "terminationGracePeriodSeconds: 20", "terminationGracePeriodSeconds: 1"))
	took, err := p.Stop()
	if err == nil || !strings.Contains(err.Error(), "main did not end in 1s") || took < time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func TestWhatIsNotImitatedIsRefused(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"restartPolicy: Always\n  term", "hostNetwork: true\n  restartPolicy: Always\n  term", "HostNetwork"},
		{"env:", "lifecycle: {preStop: {sleep: {seconds: 1}}}\n    env:", "Lifecycle"},
		{"emptyDir: {}", "hostPath: {path: /}", "HostPath"},
		{"emptyDir: {}", "emptyDir: {medium: Memory}", "Medium"},
		{"readOnly: true}", "subPath: x}", "SubPath"},
		{"fieldPath: metadata.name", "fieldPath: status.hostIP", "status.hostIP"},
		{"httpGet: {path: /health, port: http, scheme: HTTP}", "tcpSocket: {port: 1}", "none by HTTP"},
		{"port: http, scheme: HTTP", "port: http, scheme: HTTPS", "HTTPS"},
		{"port: http, scheme: HTTP", "port: http, scheme: HTTP, host: elsewhere", "Host"},
		{"    restartPolicy: Always\n", "", "init containers that end"},
		{"worker:1", "other:1", "no image"},
		{"value: \"text\"", "valueFrom: {secretKeyRef: {name: nothing, key: a}}", "not found"},
		{"value: \"text\"", "value: $(POD)", "variables in it are not imitated"},
		{"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "without any rights"},
		{"{drop: [ALL]}", "{drop: [ALL], add: [NET_ADMIN]}", "without any rights"},
		{"runAsUser: 1000", "runAsUser: 0", "it would run as root"},
		{"name: settings, mountPath", "name: nothing, mountPath", "no volume nothing"},
	} {
		p, err := kubelet.Start(t.Context(), configOf(t, tt.old, tt.new))
		if err == nil {
			p.Kill()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.new, err, tt.want)
		}
	}
	c := configOf(t)
	c.Without = []string{"nobody"}
	if _, err := kubelet.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no container nobody") {
		t.Errorf("error %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	c := configOf(t, "0.0.0.0:9001", "127.0.0.1:9001")
	if _, err := kubelet.Start(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
