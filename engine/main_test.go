package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/engine"
	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ingress is an Ingress for a host whose backend is the service "s".
func ingress(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec: {rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---`, name)
}

// silent is an Ingress with a rule that says nothing, which is worth knowing and not more.
func silent(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec: {rules: [{host: %[1]s.example.org}]}
---`, name)
}

// service is the service "s" with its endpoints, in both forms.
const service = `
apiVersion: v1
kind: Service
metadata: {name: s, namespace: shop}
spec: {clusterIP: 10.3.0.1, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: s, namespace: shop}
subsets: [{addresses: [{ip: 10.2.0.9}, {ip: 10.2.0.10}], ports: [{port: 8080, protocol: TCP}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: shop, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
endpoints:
- {addresses: [10.2.0.9]}
- {addresses: [10.2.0.7]}
- {addresses: [10.2.0.8], conditions: {ready: false}}
ports: [{port: 8080, protocol: TCP}]
---`

// fixture is an engine that reads a cluster under the hands of a test.
type fixture struct {
	t        *testing.T
	cluster  *kubetest.Server
	read     func(context.Context, kube.ReadOptions) (*kube.Snapshot, error) // instead of the cluster; may be nil
	registry *prometheus.Registry
	log      *recorder
	engine   *engine.Engine

	mu        sync.Mutex
	published []*table.Table // guarded by mu
}

func newFixture(t *testing.T, o compile.Options, objects ...string) *fixture {
	t.Helper()
	cluster, err := kubetest.New([]byte(strings.Join(objects, "")), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, cluster: cluster, registry: prometheus.NewRegistry(), log: &recorder{records: &records{}}}
	f.engine, err = engine.New(engine.Config{
		Source: f, Compile: o, Logger: slog.New(f.log), Registerer: f.registry,
		Publish: func(t *table.Table) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.published = append(f.published, t)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	if f.read != nil {
		return f.read(ctx, o)
	}
	return f.cluster.Read(ctx, o)
}

// run starts the engine and waits until the first poll is over; the function that it gives ends the engine. In a bubble.
func (f *fixture) run() (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.engine.Run(ctx) }()
	synctest.Wait()
	return func() {
		f.t.Helper()
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("Run: %v", err)
		}
	}
}

// poll waits until the next poll is over.
func (f *fixture) poll() {
	f.t.Helper()
	time.Sleep(time.Until(f.engine.Status().NextAttempt))
	synctest.Wait()
}

func (f *fixture) apply(objects ...string) {
	f.t.Helper()
	if err := f.cluster.Apply(strings.Join(objects, "")); err != nil {
		f.t.Fatal(err)
	}
}

// recorder is a slog.Handler that keeps the lines of one component as "LEVEL message key=value".
type recorder struct {
	component string
	*records
}

type records struct {
	mu   sync.Mutex
	list []string
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithGroup(string) slog.Handler            { return r }

func (r *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recorder{attrs[0].Value.String(), r.records}
}

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	if r.component != "compile" {
		return nil
	}
	line := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, line)
	return nil
}

// take gives the lines since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.list
	r.list = nil
	return lines
}
