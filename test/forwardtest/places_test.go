package forwardtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/forward"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/test/certtest"
	"github.com/routesrv/routesrv/test/forwardtest"
)

// cluster is a fake API server with pods whose ports lead to listeners of the test.
type cluster struct {
	namespace, selector string
	pods                []corev1.Pod
	ports               map[string]string // maps "POD:PORT" to an address
	exec                forwardtest.Exec
	user                string // who the API server says the caller is
}

func (c *cluster) serve(t *testing.T) (url string) {
	t.Helper()
	kubelet := forwardtest.Kubelet{Dial: func(ctx context.Context, _, pod string, port int) (net.Conn, error) {
		address := c.ports[fmt.Sprintf("%s:%d", pod, port)]
		if address == "" {
			return nil, fmt.Errorf("nobody listens on port %d", port)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("namespace") != c.namespace || r.URL.Query().Get("labelSelector") != c.selector {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: c.pods})
	})
	mux.Handle("/api/v1/namespaces/"+c.namespace+"/pods/", kubelet)
	mux.Handle("/api/v1/namespaces/"+c.namespace+"/pods/{pod}/exec", c.exec)
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: c.user}}})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func shopPod(name string, phase corev1.PodPhase, ports ...corev1.ContainerPort) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "routesrv", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// kubeconfig names clusters by their contexts; the first is the current one.
func kubeconfig(t *testing.T, contexts ...string) string {
	t.Helper()
	text := "apiVersion: v1\nkind: Config\ncurrent-context: " + contexts[0] + "\nusers: [{name: u, user: {}}]\n"
	var clusters, names string
	for i := 0; i < len(contexts); i += 2 {
		clusters += fmt.Sprintf("- {name: %[1]s, cluster: {server: %[2]q}}\n", contexts[i], contexts[i+1])
		names += fmt.Sprintf("- {name: %[1]s, context: {cluster: %[1]s, user: u}}\n", contexts[i])
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text+"clusters:\n"+clusters+"contexts:\n"+names), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	var b bytes.Buffer
	p := cli.Program{Name: "kubectl routesrv", Places: forward.NewPlaces, Remote: true}
	status = p.Run(t.Context(), args, program.Stdio{In: strings.NewReader(""), Out: &b, Err: &b})
	return status, b.String()
}

// routeServer answers that it is fine, and sends the host of each request to hosts.
func routeServer(t *testing.T, hosts chan<- string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.Host
		fmt.Fprintf(w, `{"started":"2026-11-22T12:00:00Z","ready":true,"table":{"digest":"%064x"}}`, 1)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestPodsAreFoundAndReached(t *testing.T) {
	hosts := make(chan string, 100)
	server := routeServer(t, hosts)
	support := corev1.ContainerPort{Name: "support", ContainerPort: 8811}
	c := &cluster{namespace: "routesrv", selector: "app.kubernetes.io/name=routesrv", pods: []corev1.Pod{
		shopPod("named", corev1.PodRunning, support), shopPod("unnamed", corev1.PodRunning), shopPod("evicted", corev1.PodFailed), shopPod("new", corev1.PodPending),
		shopPod("deaf", corev1.PodRunning, corev1.ContainerPort{Name: "support", ContainerPort: 1}),
	}, ports: map[string]string{"named:8811": server, "unnamed:9911": server}}
	status, out := run(t, "status", "--kubeconfig", kubeconfig(t, "here", c.serve(t)))
	for _, want := range []string{
		"here      named     healthy", "here      unnamed   healthy", "here      new       not running", "here/new: the pod is pending",
		"here/deaf: pod deaf port 1: error forwarding port 1 to pod deaf: nobody listens on port 1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status != cli.Trouble || strings.Contains(out, "evicted") {
		t.Errorf("status %d\n%s", status, out)
	}
	// Accepting a held table requires a host name of the loopback interface.
	close(hosts)
	for h := range hosts {
		if !strings.HasPrefix(h, "localhost:") {
			t.Errorf("asked as %s", h)
		}
	}
}

func TestFlagsChoosePods(t *testing.T) {
	hosts := make(chan string, 100)
	server := routeServer(t, hosts)
	c := &cluster{namespace: "edge", selector: "app=routes", pods: []corev1.Pod{shopPod("a", corev1.PodRunning)}, ports: map[string]string{"a:7000": server}}
	c.pods[0].Namespace = "edge"
	empty := &cluster{namespace: "edge", selector: "app=routes"}
	config := kubeconfig(t, "other", "http://127.0.0.1:1", "here", c.serve(t), "empty", empty.serve(t))
	for _, q := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--context=here", "--server-namespace", "edge", "-l", "app=routes", "--support-port=7000"}, cli.Healthy, "healthy"},
		{[]string{"--contexts=e*", "--server-namespace", "edge", "-l", "app=routes"}, cli.Trouble, "empty: no pod with the labels app=routes in namespace edge: name them with --server-namespace and -l"},
		{[]string{"--contexts=her?,oth*", "--server-namespace", "edge", "-l", "app=routes", "--support-port=7000"}, cli.Trouble, "connection refused"},
		{[]string{"--contexts=x*"}, cli.Trouble, `--contexts: no context of the kubeconfig matches "x*": it has empty, here, other`},
		{[]string{"--context=none"}, cli.Trouble, `context "none" does not exist`},
		{[]string{"--context=here", "--contexts=h*"}, cli.Trouble, "cannot be combined"},
		{[]string{"--server-namespace", "a/b"}, cli.Trouble, `"a/b" is not a namespace`},
		{[]string{"--main-port=70000"}, cli.Trouble, "must be a whole number from 0 to 65535"},
	} {
		if status, out := run(t, append([]string{"status", "--kubeconfig", config}, q.args...)...); status != q.status || !strings.Contains(out, q.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s", q.args, status, q.status, q.want, out)
		}
	}
	if status, out := run(t, "__complete", "status", "--kubeconfig", config, "--context", "h"); status != 0 || !strings.HasPrefix(out, "empty\nhere\nother\n:4\n") {
		t.Errorf("completion: %q", out)
	}
}

// TestDiffByCertificates: the main listener requires client certificates, and its own certificate has the name of the Service.
func TestDiffByCertificates(t *testing.T) {
	a, dir := certtest.New(t), t.TempDir()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `a: * -> <shunt>;`) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs failed handshakes
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.Pair("routesrv.routesrv.svc")}, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	s.StartTLS()
	defer s.Close()
	other := httptest.NewUnstartedServer(s.Config.Handler)
	other.Config.ErrorLog = s.Config.ErrorLog
	other.TLS = &tls.Config{Certificates: []tls.Certificate{a.Pair("other")}}
	other.StartTLS()
	defer other.Close()
	ca := a.File(dir)
	cert, key := a.Files(dir, "client")
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{namespace: "routesrv", selector: "app.kubernetes.io/name=routesrv", pods: []corev1.Pod{shopPod("a", corev1.PodRunning), shopPod("b", corev1.PodRunning)}, ports: map[string]string{"a:9090": at.Host, "b:9090": at.Host, "a:7000": other.Listener.Addr().String()}}
	config := kubeconfig(t, "here", c.serve(t), "there", c.serve(t))
	for _, q := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--tls=ca=" + ca + ",cert=" + cert + ",key=" + key}, cli.Healthy, "same: 1 route"},
		{[]string{"--tls=ca=" + ca}, cli.Trouble, "certificate required"},
		{[]string{"--tls=ca=" + ca, "--main-port=7000"}, cli.Trouble, "not routesrv.routesrv.svc"},
		{nil, cli.Trouble, "HTTP"}, // a plain request
	} {
		if status, out := run(t, append([]string{"diff", "--kubeconfig", config}, q.args...)...); status != q.status || !strings.Contains(out, q.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s", q.args, status, q.status, q.want, out)
		}
	}
}

// TestPluginAcceptsInThePods: it runs the command in the container with the support port, without a shell, under the name that the API
// server knows, whatever the caller claims. Each pod has its own result.
func TestPluginAcceptsInThePods(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	held := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/guard/held" {
			t.Errorf("%s %s over the port-forward", r.Method, r.URL)
		}
		fmt.Fprintf(w, `{"hold": {"held": true, "digest": %q}}`, digest)
	}))
	defer held.Close()
	port := corev1.ContainerPort{Name: "support", ContainerPort: 8811}
	c := &cluster{
		namespace: "routesrv", selector: "app.kubernetes.io/name=routesrv", user: "ada@example.org",
		pods:  []corev1.Pod{shopPod("a", corev1.PodRunning, port), shopPod("b", corev1.PodRunning, port)},
		ports: map[string]string{"a:8811": held.Listener.Addr().String(), "b:8811": held.Listener.Addr().String()},
	}
	for i := range c.pods {
		c.pods[i].Spec.Containers[0].Name = "server"
		c.pods[i].Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, c.pods[i].Spec.Containers...)
	}
	c.exec = func(_ context.Context, pod, container string, command []string, stdout, stderr io.Writer) int {
		form := url.Values{"digest": {digest}, "by": {"ada@example.org"}, "why": {"it's; $(moved)"}}
		want := []string{"routesrv", "post", "/guard/accept", form.Encode()}
		if container != "server" || !slices.Equal(command, want) {
			t.Errorf("in container %s: %q, want %q", container, command, want)
		}
		if pod == "b" {
			fmt.Fprintln(stderr, "routesrv post: no process listens on the control socket")
			return 2
		}
		fmt.Fprintf(stdout, `{"digest": %q, "routes": 7}`, digest)
		return 0
	}
	status, out := run(t, "accept", digest, "--yes", "--by", "somebody else", "--why", "it's; $(moved)", "--kubeconfig", kubeconfig(t, "here", c.serve(t)))
	for _, want := range []string{"--by has no effect here", "here/a: serves abababababab, 7 routes", "here/b: routesrv post: no process listens on the control socket"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status != cli.Trouble {
		t.Errorf("status %d, want %d: one replica did not publish it", status, cli.Trouble)
	}
}
