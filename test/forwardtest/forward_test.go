package forwardtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/app/forward"
	"github.com/routesrv/routesrv/test/forwardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer lists the pods of a namespace and forwards to their ports.
func apiServer(t *testing.T, dial forwardtest.Dial, pods ...corev1.Pod) *forward.Cluster {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/routesrv/pods", func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "app=x" {
			t.Errorf("selector %q", got)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: pods})
	})
	mux.Handle("/api/v1/namespaces/routesrv/pods/", forwardtest.Kubelet{Dial: dial})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return open(t, s.URL)
}

func open(t *testing.T, url string) *forward.Cluster {
	t.Helper()
	c, err := forward.Open(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func pod(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "routesrv", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "support", ContainerPort: 9911}, {ContainerPort: 1}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func TestPodsAreListedWithWhatTheyAre(t *testing.T) {
	c := apiServer(t, nil, pod("b", nil), pod("a", func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
		}}
	}))
	pods, err := c.Pods(t.Context(), "routesrv", "app=x")
	if err != nil || len(pods) != 2 {
		t.Fatal(pods, err)
	}
	a, b := pods[0], pods[1]
	if a.Name != "a" || a.Status.Phase != "Pending" || a.Waiting() != "ImagePullBackOff" || a.Ready() {
		t.Errorf("%+v", a)
	}
	if b.Name != "b" || b.Status.Phase != "Running" || !b.Ready() || b.Port("support") != 9911 || b.Port("other") != 0 {
		t.Errorf("%+v", b)
	}
}

func TestRefusalsOfTheAPIServerAreInItsWords(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403, Reason: "Forbidden", Message: `pods is forbidden: User "ada" cannot list`})
	}))
	defer s.Close()
	_, err := open(t, s.URL).Pods(t.Context(), "routesrv", "app=x")
	if want := `list the pods of namespace routesrv: pods is forbidden: User "ada" cannot list`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestTooManyPodsAreAnError(t *testing.T) {
	var many []corev1.Pod
	for i := range 201 {
		many = append(many, pod(fmt.Sprint(i), nil))
	}
	if _, err := apiServer(t, nil, many...).Pods(t.Context(), "routesrv", "app=x"); err == nil || !strings.Contains(err.Error(), "more than 200 pods") {
		t.Error(err)
	}
}

// TestConnectionsReachThePort: requests in parallel and one after another, each with the right answer.
func TestConnectionsReachThePort(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Host, r.URL.Path, strings.Repeat(string(body), 20_000))
	}))
	defer server.Close()
	dialed := make(chan int, 100)
	c := apiServer(t, func(ctx context.Context, namespace, name string, port int) (net.Conn, error) {
		if namespace != "routesrv" || name != "a" {
			t.Errorf("asked for %s/%s", namespace, name)
		}
		dialed <- port
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, pod("a", nil))
	pods, err := c.Pods(t.Context(), "routesrv", "app=x")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pods[0].Dial(ctx, 9911) }}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	failed := make(chan error, 8)
	for i := range 8 {
		go func() {
			body := fmt.Sprintf("<%d>", i)
			resp, err := client.Post("http://localhost:9911/echo", "text/plain", strings.NewReader(body))
			if err == nil {
				var got []byte
				got, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := "localhost:9911 /echo " + strings.Repeat(body, 20_000); err == nil && string(got) != want {
					err = fmt.Errorf("%d: got %d bytes, want %d", i, len(got), len(want))
				}
			}
			failed <- err
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := len(dialed); n == 0 {
		t.Error("the port was not dialed")
	} else if port := <-dialed; port != 9911 {
		t.Errorf("port %d", port)
	}
}

func TestWhatTheKubeletSaysIsTheError(t *testing.T) {
	c := apiServer(t, func(context.Context, string, string, int) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}, pod("a", nil))
	pods, err := c.Pods(t.Context(), "routesrv", "app=x")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pods[0].Dial(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, call := range []func([]byte) (int, error){conn.Read, conn.Write, conn.Read} { // an HTTP client may report the error of either
		if _, err := call(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "error forwarding port 1 to pod a: connection refused") {
			t.Errorf("error %v", err)
		}
	}
}

// TestDialEndsWithItsContext: even if the API server has accepted the connection and sends nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	asked, over := make(chan struct{}, 2), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			asked <- struct{}{}
			<-over
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: []corev1.Pod{pod("a", nil)}})
	}))
	defer s.Close()
	defer close(over)
	pods, err := open(t, s.URL).Pods(t.Context(), "routesrv", "app=x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := pods[0].Dial(ctx, 9911); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestPatternsChooseContexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: test\ncontexts:\n"
	for _, name := range []string{"prod-eu", "prod-us", "test", "arn:aws:eks:eu:1:cluster/prod-x"} {
		text += "- {name: '" + name + "', context: {cluster: c, user: u}}\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := forward.NewKubeconfig(path)
	for _, c := range []struct {
		pattern string
		want    []string
		err     string
	}{
		{"prod-*", []string{"prod-eu", "prod-us"}, ""},
		{"*prod-?", []string{"arn:aws:eks:eu:1:cluster/prod-x"}, ""},
		{"test, prod-us,prod-u*", []string{"prod-us", "test"}, ""},
		{"prod-*,stage-*", nil, `no context of the kubeconfig matches "stage-*": it has arn:`},
		{"prod.eu", nil, "no context"},
		{"prod-*,", nil, `matches ""`},
	} {
		got, err := k.Match(c.pattern)
		if !cmp.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.50s: %q, %v", c.pattern, got, err)
		}
	}
	if _, current, err := k.Contexts(); current != "test" || err != nil {
		t.Errorf("current %q, %v", current, err)
	}
	if _, err := forward.NewKubeconfig(path + "-none").Match("*"); err == nil || !strings.Contains(err.Error(), "read the kubeconfig") {
		t.Error(err)
	}
}
