package robustness_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/world"
)

// TestGuaranteesHoldOnARealAPI is TestGuaranteesHold with a kube-apiserver and its etcd: fewer changes, and a proxy in front
// simulates the API's faults. Each run has its own API server, so that it begins empty.
func TestGuaranteesHoldOnARealAPI(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: make assets builds kube-apiserver and etcd, and says where they are")
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	switch {
	case *file != "" || *soak > 0:
		return // these are for the fake
	case *long > 0:
		for begin, n := time.Now(), uint64(0); time.Since(begin) < *long; n++ {
			storm := max(10*time.Second, min(2*time.Minute, *long-time.Since(begin)))
			run(t, plan.OnRealAPI(first+n, storm))
		}
	default:
		run(t, plan.OnRealAPI(first, 12*time.Second))
	}
}

// startAPI starts a kube-apiserver with the kinds of the product; stop ends it.
func startAPI() (real *world.Real, stop func() error, err error) {
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../deploy/kustomize/crd"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	transport, err := rest.TransportFor(config)
	if err != nil {
		_ = env.Stop()
		return nil, nil, err
	}
	return &world.Real{URL: config.Host, Transport: transport}, env.Stop, nil
}
