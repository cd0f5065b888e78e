package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/routesrv/routesrv/test/programs"
)

// The product's own manifests.
const (
	crdDir   = "../../deploy/kustomize/crd"
	rbacFile = "../../deploy/kustomize/base/rbac.yaml"
	shopDir  = "../../examples/shop"

	systemNamespace = "routesrv"
	serviceAccount  = "routesrv"
)

// cluster is a real kube-apiserver with its etcd, and a client with all permissions.
type cluster struct {
	env     *envtest.Environment
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper

	// restarted is the API server that replaced one that a test killed; restartedEtcd likewise.
	restarted, restartedEtcd *exec.Cmd
}

// stop ends all components.
func (c *cluster) stop() error {
	for _, cmd := range []*exec.Cmd{c.restarted, c.restartedEtcd} {
		if cmd == nil {
			continue
		}
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		cmd.Wait() // ignore the result of a killed process
	}
	return c.env.Stop()
}

// startCluster starts the components and installs the CRD and the RBAC rules of the product.
func startCluster() (*cluster, error) {
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{crdDir}, ErrorIfCRDPathMissing: true, CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: programs.Patience},
		ControlPlaneStartTimeout: programs.Patience, ControlPlaneStopTimeout: programs.Patience,
	}
	// Not ports that the kernel gives to clients: a test that restarts a component needs its port again.
	addresses, err := programs.Addresses(3)
	if err != nil {
		return nil, err
	}
	serving := &env.ControlPlane.GetAPIServer().SecureServing
	if serving.Address, serving.Port, err = net.SplitHostPort(addresses[0]); err != nil {
		return nil, err
	}
	etcd := &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: addresses[1]}}
	etcd.Configure().Set("listen-peer-urls", "http://"+addresses[2])
	env.ControlPlane.Etcd = etcd
	config, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("start kube-apiserver and etcd: %w", errors.Join(err, env.Stop()))
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c := &cluster{env: env, config: config}
	if err := c.prepare(context.Background()); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return c, nil
}

// prepare makes the clients, and installs the RBAC rules with their namespace.
func (c *cluster) prepare(ctx context.Context) (err error) {
	if c.typed, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}
	if _, err := c.typed.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.applyFile(ctx, rbacFile)
}

// applyFile applies every object of a file or of the files of a folder.
func (c *cluster) applyFile(ctx context.Context, path string) error {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return err
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := c.apply(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return nil
}

// apply applies every object of the text server-side. It creates namespaces as needed.
func (c *cluster) apply(ctx context.Context, text string) error {
	return c.each(text, func(o *unstructured.Unstructured, r dynamic.ResourceInterface) error {
		if ns := o.GetNamespace(); ns != "" {
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
			if _, err := c.typed.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		_, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
		return err
	})
}

// remove deletes every object of the text.
func (c *cluster) remove(ctx context.Context, text string) error {
	return c.each(text, func(o *unstructured.Unstructured, r dynamic.ResourceInterface) error {
		err := r.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (c *cluster) each(text string, f func(*unstructured.Unstructured, dynamic.ResourceInterface) error) error {
	docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := docs.Decode(o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(o.Object) == 0 {
			continue
		}
		gvk := o.GroupVersionKind()
		mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return err
		}
		var r dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			r = c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if err := f(o, r); err != nil {
			return fmt.Errorf("%s %s/%s: %w", gvk.Kind, o.GetNamespace(), o.GetName(), err)
		}
	}
}

// token returns a token of the product's ServiceAccount, as the kubelet would mount it.
func (c *cluster) token(ctx context.Context) (string, error) {
	seconds := int64(3600)
	r, err := c.typed.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of the service account: %w", err)
	}
	return r.Status.Token, nil
}

// faultProxy sits between routesrv and the API server. It passes requests on with the caller's token, counts them, and injects
// faults.
type faultProxy struct {
	*httptest.Server
	cluster *cluster

	mu     sync.Mutex
	faults map[string]http.HandlerFunc // by path
	seen   map[string]int              // by path
	wait   chan struct{}               // closed and replaced at every request
}

func newFaultProxy(t *testing.T, c *cluster) *faultProxy {
	t.Helper()
	target, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// Only the authority of the admin's configuration is used: the caller's token identifies the caller.
	transport, err := rest.TransportFor(&rest.Config{Host: c.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.config.CAData}})
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{cluster: c, faults: map[string]http.HandlerFunc{}, seen: map[string]int{}, wait: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	// TLS, since client-go sends no token over a plain connection.
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.faults[r.URL.Path]
		p.seen[r.URL.Path]++
		close(p.wait)
		p.wait = make(chan struct{})
		p.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// fail makes the handler answer every request for the path; nil ends that.
func (p *faultProxy) fail(path string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[path] = h
}

func (p *faultProxy) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[path]
}

// awaitRequests waits for n more requests for the path.
func (p *faultProxy) awaitRequests(t *testing.T, path string, n int) {
	t.Helper()
	want := p.count(path) + n
	deadline := time.After(programs.Patience)
	for {
		p.mu.Lock()
		seen, wait := p.seen[path], p.wait
		p.mu.Unlock()
		if seen >= want {
			return
		}
		select {
		case <-wait:
		case <-deadline:
			t.Fatalf("%d requests for %s, want %d", seen, path, want)
		}
	}
}

// status answers every request with a status, like an overloaded API server.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "planted fault", code) }
}

// truncated announces a body and breaks off in the middle.
func truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	io.Copy(w, bytes.NewReader([]byte(`{"kind":"List","apiVersion":"v1","items":[`)))
	panic(http.ErrAbortHandler)
}
