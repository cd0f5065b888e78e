//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/test/kubelet"
	"github.com/routesrv/routesrv/test/programs"
)

// Names of the manifests.
const (
	overlayDir      = "../../deploy/kustomize/overlays"
	proxyDeployment = "skipper-ingress"
	proxyContainer  = "skipper-ingress"
	sidecarName     = "dataplane-client"
	modeConfigMap   = "dataplane-mode"
	dataplanePort   = "dataplane"
)

// TestWalkThroughTheOverlays moves a data plane from False over Pre to Exec and back to False as docs/start/cutover.md says, with the
// manifests of deploy/kustomize. The rendered manifests go to a real API server. The Deployments that it returns, with its
// defaults, define how the binaries of the image run: arguments, variables, user, volumes, probes, and the token of their
// ServiceAccount, which is their only access to the cluster. Nothing of that is changed.
//
// There is no kubelet, which test/kubelet replaces, and no Skipper, which a walkProxy replaces. NetworkPolicies are not
// enforced.
func TestWalkThroughTheOverlays(t *testing.T) {
	w := newWalk(t, ownCluster(t))
	compiled, _ := compileManifests(t, 0, shopDir)

	// False: the sidecar computes the table of the shop.
	servers := w.startServers(t)
	w.startDataPlane(t, servers)
	w.awaitMode(t, "False", "self")
	if table, _ := w.proxy.inUse(); table != compiled {
		t.Errorf("the table of the proxy (-compiled +served):\n%s", cmp.Diff(compiled, table))
	}
	w.changes.run(t)
	w.awaitChanges(t, 2)

	// Pre: the proxy gets the same table, which is compared with that of the route server.
	w.move(t, "Pre", "self", func() { w.apply(t, "pre") })
	w.rest(t)
	// At rest both sides have the same table: nothing differs, not even briefly.
	programs.Eventually(t, "a clean comparison", func() bool {
		c, report := w.state(t).Cutover, w.support(t, "/shadow")
		return c != nil && c.Comparisons >= 3 && c.Differences == 0 &&
			strings.HasPrefix(report, "same: ") && strings.Contains(report, "0 confirmed, 0 pending")
	})

	// Exec: the manifests enforce the cutover check, which requires 15 minutes and 100 comparisons. It refuses, as it must.
	w.apply(t, "exec")
	programs.Eventually(t, "the refusal of the cutover check", func() bool { return w.state(t).Refused != "" })
	if st := w.state(t); !strings.EqualFold(st.Mode, "Pre") || !strings.Contains(st.Refused, "Exec!") {
		t.Errorf("mode %s, refused with %q: want Pre, and the way past the cutover check", st.Mode, st.Refused)
	}
	// No test waits that long. Operators bypass the cutover check with a mode with an exclamation mark, written as
	// deploy/kustomize/components/sidecar/mode.yaml says; the flags of the cutover check stay as they are.
	w.move(t, "Exec", "routeserver", func() { w.patchMode(t, "Exec!") })
	w.rest(t)
	for _, server := range servers {
		programs.Eventually(t, "the table of "+server.Name()+" in the data plane", func() bool {
			st := w.state(t)
			return st.Table != nil && st.Table.Digest == w.serverDigest(t, server)
		})
	}

	w.move(t, "False", "self", func() { w.apply(t, "false") })
	w.rest(t)

	// The proxy ends first, then its sidecar. Each pod has the time that its manifest allows.
	w.proxy.stop()
	w.proxy.check(t)
	w.end(t, append(servers, w.dataPlane))
}

// walk is the state that the steps share.
type walk struct {
	cluster   *cluster
	image     kubelet.Image
	changes   *changes
	dataPlane *kubelet.Pod
	proxy     *walkProxy
	service   *corev1.Service
	nextIP    netip.Addr
}

func newWalk(t *testing.T, c *cluster) *walk {
	t.Helper()
	w := &walk{cluster: c, changes: &changes{cluster: c}, nextIP: netip.MustParseAddr("192.0.2.1")}
	built, remove, err := programs.Build("../..", programs.Plain, "routesrv", "dataplane-client")
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	w.image = kubelet.Routesrv(built)
	withShop(t, c)
	w.apply(t, "false")
	t.Cleanup(func() { removeOverlay(t, c, "false") })
	if w.service, err = c.typed.CoreV1().Services(systemNamespace).Get(t.Context(), "routesrv", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.changes.remove(t) })
	return w
}

// render returns what kubectl apply -k would apply.
func render(t *testing.T, overlay string) string {
	t.Helper()
	// The context of the test has already ended when objects are removed.
	cmd := exec.Command(programs.Kubectl(t), "kustomize", filepath.Join(overlayDir, overlay))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return string(out)
}

// removeOverlay removes what an overlay adds to the objects of the other tests of this package: the namespace, and the rights of
// the route server.
func removeOverlay(t *testing.T, c *cluster, overlay string) {
	for doc := range strings.SplitSeq(render(t, overlay), "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Error(err)
			continue
		}
		shared := o.Kind == "ServiceAccount" || o.Kind == "ClusterRole" || o.Kind == "ClusterRoleBinding"
		if o.Kind == "Namespace" || shared && o.Metadata.Name == serviceAccount {
			continue
		}
		if err := c.remove(cleanupContext(t), doc); err != nil {
			t.Error(err)
		}
	}
}

// apply applies an overlay, and shows it to the kubelet of the data plane.
func (w *walk) apply(t *testing.T, overlay string) {
	t.Helper()
	if err := w.cluster.apply(t.Context(), render(t, overlay)); err != nil {
		t.Fatal(err)
	}
	w.sync(t)
}

// patchMode runs the kubectl patch of mode.yaml.
func (w *walk) patchMode(t *testing.T, mode string) {
	t.Helper()
	patch := fmt.Sprintf(`{"data":{"mode":%q}}`, mode)
	_, err := w.cluster.typed.CoreV1().ConfigMaps(systemNamespace).Patch(t.Context(), modeConfigMap, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.sync(t)
}

func (w *walk) sync(t *testing.T) {
	t.Helper()
	if w.dataPlane == nil {
		return
	}
	if err := w.dataPlane.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// startServers starts as many route servers as the manifest says, and waits until they are ready.
func (w *walk) startServers(t *testing.T) []*kubelet.Pod {
	t.Helper()
	d, err := w.cluster.typed.AppsV1().Deployments(systemNamespace).Get(t.Context(), "routesrv", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pods []*kubelet.Pod
	for range *d.Spec.Replicas {
		pods = append(pods, w.startPod(t, d.Name, d.Spec.Template, kubelet.Config{}))
	}
	for _, p := range pods {
		if err := p.AwaitReady(timeLimit(t)); err != nil {
			t.Fatal(err)
		}
	}
	return pods
}

// startDataPlane starts a data plane: first its sidecar, and then the proxy.
func (w *walk) startDataPlane(t *testing.T, servers []*kubelet.Pod) {
	t.Helper()
	d, err := w.cluster.typed.AppsV1().Deployments(systemNamespace).Get(t.Context(), proxyDeployment, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := kubelet.Service(w.service, 80, servers...)
	if err != nil {
		t.Fatal(err)
	}
	ip, err := netip.ParseAddr(w.service.Spec.ClusterIP)
	if err != nil {
		t.Fatal(err)
	}
	w.dataPlane = w.startPod(t, d.Name, d.Spec.Template, kubelet.Config{
		Without: []string{proxyContainer},
		Reach:   map[netip.AddrPort]kubelet.Dial{netip.AddrPortFrom(ip, 80): behind},
		Hosts:   map[string]netip.Addr{w.service.Name + "." + w.service.Namespace + ".svc": ip},
	})
	w.proxy = newWalkProxy(t, w.dataPlane, proxyContainer)
}

// startPod does for one pod what the controller of its Deployment and the kubelet do. c has the pod's special settings.
func (w *walk) startPod(t *testing.T, name string, template corev1.PodTemplateSpec, c kubelet.Config) *kubelet.Pod {
	t.Helper()
	pods := w.cluster.typed.CoreV1().Pods(systemNamespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: template.Labels, Annotations: template.Annotations},
		Spec:       template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := pods.Delete(cleanupContext(t), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	c.Pod, c.IP, c.Dir = pod, w.nextIP, t.TempDir()
	w.nextIP = w.nextIP.Next()
	c.Images = map[string]kubelet.Image{"routesrv:devel": w.image}
	c.Client = w.cluster.typed
	api, err := url.Parse(w.cluster.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.APIServer, c.CA = api.Host, w.cluster.config.CAData
	p, err := kubelet.Start(timeLimit(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			for _, name := range []string{"routesrv", sidecarName} {
				if log := p.Log(name); log != "" {
					t.Logf("log of %s in %s:\n%s", name, p.Name(), log)
				}
			}
		}
	})
	return p
}

func timeLimit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), programs.Patience)
	t.Cleanup(cancel)
	return ctx
}

// ask sends a request to a named port of a pod.
func ask(t *testing.T, p *kubelet.Pod, container, port, path string) string {
	t.Helper()
	var number int32
	for _, cp := range p.Spec(container).Ports {
		if cp.Name == port {
			number = cp.ContainerPort
		}
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, uint16(number)) },
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pod"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (w *walk) support(t *testing.T, path string) string {
	t.Helper()
	out, errs, err := w.dataPlane.Exec(t.Context(), sidecarName, "/usr/bin/dataplane-client", "get", path, "--state-dir=/var/lib/dataplane")
	if err != nil {
		t.Fatalf("get %s: %v: %s", path, err, errs)
	}
	return out
}

func (w *walk) state(t *testing.T) (st sidecarStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.support(t, "/status")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func (w *walk) serverDigest(t *testing.T, server *kubelet.Pod) string {
	t.Helper()
	var st statusBody
	if err := json.Unmarshal([]byte(ask(t, server, "routesrv", "support", "/status")), &st); err != nil || st.Table == nil {
		t.Fatalf("%+v: %v", st, err)
	}
	return st.Table.Digest
}

// move changes the mode, with one change of an object in between, and then continues with many changes.
//
// It is one change, because the sidecar moves to a table of a lower revision when three polls have shown no other (see package
// sidecar). If changes came all the time, the side that polls a little later would always lag a little, and the proxy would go
// back to a change that it had already left behind.
func (w *walk) move(t *testing.T, mode, origin string, change func()) {
	t.Helper()
	w.rest(t)
	change()
	w.changes.one(t)
	w.awaitMode(t, mode, origin)
	w.awaitNumber(t, w.changes.number())
	w.changes.run(t)
	w.awaitChanges(t, 2)
}

// rest ends the changes, and waits until the proxy has all of them.
func (w *walk) rest(t *testing.T) {
	t.Helper()
	w.changes.pause(t)
	w.awaitNumber(t, w.changes.number())
}

// end ends pods as Kubernetes does, all at once.
func (w *walk) end(t *testing.T, pods []*kubelet.Pod) {
	t.Helper()
	var ends sync.WaitGroup
	for _, p := range pods {
		if err := p.Faults(); err != nil {
			t.Error(err)
		}
		ends.Go(func() {
			took, err := p.Stop()
			if err != nil {
				t.Error(err)
			}
			t.Logf("pod %s ended %v after SIGTERM", p.Name(), took.Round(time.Millisecond))
		})
	}
	ends.Wait()
}

func (w *walk) awaitMode(t *testing.T, mode, origin string) {
	t.Helper()
	programs.Eventually(t, "mode "+mode+" with a table of "+origin, func() bool {
		st := w.state(t)
		return strings.EqualFold(st.Mode, mode) && strings.Contains(st.Origin, origin)
	})
}

// awaitChanges waits until the proxy has received changes that were made after the call.
func (w *walk) awaitChanges(t *testing.T, n int) {
	t.Helper()
	for range n {
		w.awaitNumber(t, w.changes.number()+1)
	}
}

func (w *walk) awaitNumber(t *testing.T, n int) {
	t.Helper()
	programs.Eventually(t, fmt.Sprintf("change %d in the proxy", n), func() bool {
		_, got := w.proxy.inUse()
		return got >= n
	})
}

// changes changes an Ingress repeatedly.
type changes struct {
	cluster *cluster

	stop func() // nil while nothing changes; owned by the test

	mu  sync.Mutex
	n   int // of the last change
	err error
}

// run continues the changes.
func (c *changes) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				c.next()
			}
		}
	}()
	c.stop = func() { cancel(); <-done }
	t.Cleanup(c.stop)
}

// next makes one change. It is not called concurrently.
func (c *changes) next() {
	err := c.cluster.apply(context.Background(), counterIngress(c.number()+1))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = err
		return
	}
	c.n++
}

// one makes a single change, while the others are paused.
func (c *changes) one(t *testing.T) {
	t.Helper()
	c.next()
	c.pause(t)
}

// pause ends the changes until run.
func (c *changes) pause(t *testing.T) {
	t.Helper()
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		t.Fatal(c.err)
	}
}

// number returns the number of the last change. A proxy may already have the next one.
func (c *changes) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// remove removes the object.
func (c *changes) remove(t *testing.T) {
	if err := c.cluster.remove(cleanupContext(t), counterIngress(0)); err != nil {
		t.Error(err)
	}
}
