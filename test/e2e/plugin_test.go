package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/routesrv/routesrv/test/forwardtest"
	"github.com/routesrv/routesrv/test/programs"
)

const pluginNamespace = "fleet" // not the base's namespace, so --server-namespace must name it

// pluginLabels are the labels of the base.
var pluginLabels = map[string]string{"app.kubernetes.io/name": "routesrv"}

// pluginUser creates a user with exactly the permissions that docs/debug/commands.md requires for the plugin.
func pluginUser(t *testing.T, c kubernetes.Interface) (token string) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "plugin-user", Namespace: pluginNamespace}
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pluginNamespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().ServiceAccounts(pluginNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}},
	}}
	if _, err := c.RbacV1().Roles(pluginNamespace).Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: pluginNamespace}},
	}
	if _, err := c.RbacV1().RoleBindings(pluginNamespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	r, err := c.CoreV1().ServiceAccounts(pluginNamespace).CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// pluginPod creates a pod on a node whose kubelet is in this test: its ports lead to a route server that runs beside the test.
// Without a route server the pod is pending.
func pluginPod(t *testing.T, c kubernetes.Interface, node, name string, server *process) {
	t.Helper()
	ctx := t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pluginNamespace, Labels: pluginLabels}, Spec: corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: new(bool),
		Containers: []corev1.Container{{Name: "routesrv", Image: "routesrv", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 9090}, {Name: "support", ContainerPort: 9911},
		}}},
	}}
	made, err := c.CoreV1().Pods(pluginNamespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Status.Phase = corev1.PodPending; server != nil {
		made.Status.Phase = corev1.PodRunning
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if _, err := c.CoreV1().Pods(pluginNamespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pluginNode registers a node whose kubelet forwards the ports of pods to processes.
func pluginNode(t *testing.T, c kubernetes.Interface, name string, pods map[string]*process) {
	t.Helper()
	commands := forwardtest.Exec(func(ctx context.Context, pod, _ string, command []string, stdout, stderr io.Writer) int {
		cmd := exec.CommandContext(ctx, binary, append(command[1:], "--state-dir="+pods[pod].State)...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	})
	mux := http.NewServeMux()
	mux.Handle("/exec/", commands)
	mux.Handle("/", forwardtest.Kubelet{Dial: func(ctx context.Context, _, pod string, port int) (net.Conn, error) {
		p := pods[pod]
		if p == nil {
			return nil, errors.New("no such pod")
		}
		to, err := url.Parse(map[int]string{9090: p.Main, 9911: p.Support}[port])
		if err != nil || to.Host == "" {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", to.Host)
	}})
	kubelet := httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := c.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// manifestServer starts a route server for a folder of manifests.
func manifestServer(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	p := startProcess(t, binary, main, support, append([]string{
		"--manifests=" + dir, "--state-dir=" + t.TempDir(), "-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s", fmt.Sprintf("-source-poll-timeout=%d", pollMillis),
	}, args...))
	p.Ready(t)
	return p
}

// runPlugin runs the built plugin, and returns its result. It fails the test if that takes much longer than the plugin's limit.
func runPlugin(t *testing.T, kubeconfig string, args ...string) (status int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, plugin, append(args, "--kubeconfig="+kubeconfig, "--server-namespace", pluginNamespace)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v hangs\n%s%s", cmd.Args, &stdout, &stderr)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// TestPluginAsksClustersSideBySide: two real API servers with route servers behind port-forwards, one server that accepts
// connections and never answers, and one that is killed in between.
func TestPluginAsksClustersSideBySide(t *testing.T) {
	eu := ownCluster(t)
	second := &envtest.Environment{ControlPlaneStartTimeout: programs.Patience, ControlPlaneStopTimeout: programs.Patience}
	secondConfig, err := second.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			if err := second.Stop(); err != nil {
				t.Error("stop the second cluster:", err)
			}
		}
	}
	t.Cleanup(stop)
	secondTyped, err := kubernetes.NewForConfig(secondConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // other tests use the first cluster later
		ctx := context.Background()
		for _, p := range []string{"routesrv-a", "routesrv-b"} {
			_ = eu.typed.CoreV1().Pods(pluginNamespace).Delete(ctx, p, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
		_ = eu.typed.CoreV1().Nodes().Delete(ctx, "plugin-node", metav1.DeleteOptions{})
	})

	dir := t.TempDir()
	copyManifests(t, shopDir, dir)
	a, b, c := manifestServer(t, dir), manifestServer(t, dir), manifestServer(t, shopDir)
	first := map[string]string{"prod-eu": pluginUser(t, eu.typed), "prod-us": pluginUser(t, secondTyped)}
	pluginNode(t, eu.typed, "plugin-node", map[string]*process{"routesrv-a": a, "routesrv-b": b})
	pluginPod(t, eu.typed, "plugin-node", "routesrv-a", a)
	pluginPod(t, eu.typed, "plugin-node", "routesrv-b", b)
	pluginNode(t, secondTyped, "plugin-node", map[string]*process{"routesrv-c": c})
	pluginPod(t, secondTyped, "plugin-node", "routesrv-c", c)

	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	kubeconfig := pluginKubeconfig(t, map[string]*rest.Config{
		"prod-eu": eu.config, "prod-us": secondConfig, "stage": {Host: "https://" + silent.Addr().String()},
	}, first)

	t.Run("both", func(t *testing.T) {
		status, out, errs := runPlugin(t, kubeconfig, "status", "--contexts", "prod-*", "--timeout=60s")
		if status != 0 || errs != "" {
			t.Errorf("status %d, %s", status, errs)
		}
		for _, row := range []string{"prod-eu routesrv-a healthy", "prod-eu routesrv-b healthy", "prod-us routesrv-c healthy"} {
			if !hasRow(out, row) {
				t.Errorf("no row %q in\n%s", row, out)
			}
		}
	})
	t.Run("questions", func(t *testing.T) {
		for _, q := range []struct {
			want   string
			status int
			args   []string
		}{
			{"Ingress shop/web", 0, []string{"explain", "--context=prod-eu", "shop.example.org"}},
			{"route kube_shop__web__shop_example_org_____web", 0, []string{"match", "--context=prod-eu", "https://shop.example.org/"}},
			{"no problems", 0, []string{"problems", "--contexts=prod-*"}},
			{"=== prod-us\nnothing is held", 0, []string{"held", "--contexts=prod-*"}},
			{"prod-eu/routesrv-a, prod-eu/routesrv-b", 0, []string{"diff", "--contexts=prod-*"}},
		} {
			status, out, errs := runPlugin(t, kubeconfig, append(q.args, "--timeout=60s")...)
			if status != q.status || !strings.Contains(out, q.want) {
				t.Errorf("%q: status %d, want %d and %q in\n%s%s", q.args, status, q.status, q.want, out, errs)
			}
		}
	})
	t.Run("accept", func(t *testing.T) { testPluginAccepts(t, kubeconfig, dir, a, b) })
	t.Run("a cluster that never answers", func(t *testing.T) {
		status, out, errs := runPlugin(t, kubeconfig, "status", "--contexts", "prod-us,stage", "--timeout=5s")
		if status != 2 || !hasRow(out, "prod-us routesrv-c healthy") || !strings.Contains(errs, "stage: list the pods of namespace "+pluginNamespace+": no answer within 5s") {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
	})
	t.Run("a cluster that is away", func(t *testing.T) {
		stop()
		began := time.Now()
		status, out, _ := runPlugin(t, kubeconfig, "status", "--contexts", "prod-*", "--timeout=30s", "-o", "json")
		var doc struct {
			Result   string
			Clusters []struct {
				Name, Result, Error string
				Replicas            []struct{ Name string }
			}
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatal(err, out)
		}
		if status != 2 || doc.Result != "trouble" || len(doc.Clusters) != 2 {
			t.Fatalf("status %d after %v\n%s", status, time.Since(began), out)
		}
		eu, us := doc.Clusters[0], doc.Clusters[1]
		if eu.Name != "prod-eu" || eu.Result != "healthy" || len(eu.Replicas) != 2 || us.Name != "prod-us" || us.Result != "trouble" || us.Error == "" {
			t.Errorf("%+v", doc)
		}
	})
}

// testPluginAccepts removes the manifests, so that both replicas hold a table of generated routes, looks at it and accepts it.
func testPluginAccepts(t *testing.T, kubeconfig, dir string, servers ...*process) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var digest string
	for _, p := range servers {
		programs.Eventually(t, "the guard holds", func() bool {
			var s struct {
				Guard struct {
					Held   bool
					Digest string
				}
			}
			p.supportJSON(t, "/status", &s)
			digest = s.Guard.Digest
			return s.Guard.Held
		})
	}
	status, out, errs := runPlugin(t, kubeconfig, "held", "--context=prod-eu", "--timeout=60s")
	if status != 1 || !strings.Contains(out, "=== prod-eu\n") || !strings.Contains(out, "accept --context prod-eu --kubeconfig "+kubeconfig+" --server-namespace "+pluginNamespace+" "+digest) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	accept := []string{"accept", "--context=prod-eu", digest, "--by=Ada", "--why=moved", "--timeout=60s"}
	if status, out, errs = runPlugin(t, kubeconfig, accept...); status != 2 || !strings.Contains(errs, "use --yes") {
		t.Errorf("without --yes: status %d\n%s%s", status, out, errs)
	}
	status, out, errs = runPlugin(t, kubeconfig, append(accept, "--yes")...)
	if status != 0 || strings.Count(out, " serves ") != 2 {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	for _, p := range servers {
		var s struct {
			Guard struct {
				Held        bool
				LastRelease struct{ By, Why string } `json:"last_release"`
			}
		}
		p.supportJSON(t, "/status", &s)
		t.Logf("accepted by %s", s.Guard.LastRelease.By)
		if s.Guard.Held || s.Guard.LastRelease.By == "" || s.Guard.LastRelease.By == "Ada" || s.Guard.LastRelease.Why != "moved" {
			t.Errorf("after the acceptance: %+v", s)
		}
	}
}

// hasRow reports whether a line begins with these words.
func hasRow(out, words string) bool {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " ")+" ", words+" ") {
			return true
		}
	}
	return false
}

func copyManifests(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pluginKubeconfig writes a kubeconfig with a context for each cluster.
func pluginKubeconfig(t *testing.T, clusters map[string]*rest.Config, tokens map[string]string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for name, c := range clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: tokens[name]}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
