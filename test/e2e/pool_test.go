package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sideBySide is how many tests run at a time, each on its own API server: most of what they do is wait. An API server takes about
// ten seconds of a processor to start, and 300 MB.
const sideBySide = 3

// pool lends API servers to tests. It starts one when a test needs it, and reuses it for the next: a test removes what it has
// added, and leaves the API server running.
type pool struct {
	idle chan *cluster // nil where none was started yet

	// starting is held during a start, which needs a processor, and in which envtest waits for some things for seconds only.
	starting sync.Mutex
}

func newPool() *pool {
	p := &pool{idle: make(chan *cluster, sideBySide)}
	for range sideBySide {
		p.idle <- nil
	}
	return p
}

// ownCluster makes a test parallel, and lends it an API server for itself until all its cleanups have run. A test that leaves objects
// fails: they would be in the tables of whichever test has the API server next.
func ownCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	c := <-clusters.idle
	t.Cleanup(func() {
		if c != nil && !t.Failed() {
			if left, err := c.left(cleanupContext(t)); err != nil || len(left) > 0 {
				t.Errorf("objects left behind: %s, error %v", strings.Join(left, ", "), err)
			}
		}
		if c != nil && t.Failed() {
			// Nobody knows in what state it is: the next test gets another one.
			if err := c.stop(); err != nil {
				t.Log("stop kube-apiserver and etcd:", err)
			}
			c = nil
		}
		clusters.idle <- c
	})
	if c == nil {
		var err error
		if c, err = clusters.start(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// left lists the objects that a route server would read, except those that every API server has.
func (c *cluster) left(ctx context.Context) (names []string, err error) {
	for _, kind := range []schema.GroupVersionResource{
		networkingv1.SchemeGroupVersion.WithResource("ingresses"), {Group: "zalando.org", Version: "v1", Resource: "routegroups"},
		corev1.SchemeGroupVersion.WithResource("services"), discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
	} {
		all, err := c.dynamic.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range all.Items {
			if o.GetNamespace() != metav1.NamespaceDefault || o.GetName() != "kubernetes" {
				names = append(names, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
			}
		}
	}
	return names, nil
}

func (p *pool) start() (*cluster, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	return startCluster()
}

// stop ends all API servers, after the last test.
func (p *pool) stop() error {
	var errs []error
	for range sideBySide {
		if c := <-p.idle; c != nil {
			errs = append(errs, c.stop())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop kube-apiserver and etcd: %w", err)
	}
	return nil
}
