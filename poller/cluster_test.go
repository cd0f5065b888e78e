package poller_test

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

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// ingress is an Ingress for a host whose backend is the service "s".
func ingress(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec: {rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---`, name)
}

// silent is an Ingress with an empty rule, which is worth a note and nothing more.
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

// fixture is a poller that reads a cluster that the test changes.
type fixture struct {
	t         *testing.T
	cluster   objects
	read      func(context.Context, kube.ReadOptions) (*kube.Snapshot, error) // replaces the cluster; may be nil
	registry  *prometheus.Registry
	log       *lineRecorder
	compiler  *poller.Compiler
	publisher *publish.Publisher
	poller    *poller.Poller

	mu        sync.Mutex
	published []*table.Table // guarded by mu
}

func newFixture(t *testing.T, o rules.Options, stream ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry(), log: &lineRecorder{lines: &lines{}}}
	f.apply(stream...)
	var err error
	if f.compiler, err = poller.NewCompiler(o, slog.New(f.log), f.registry); err != nil {
		t.Fatal(err)
	}
	if f.publisher, err = publish.New(publish.Config{Sink: f, Builder: f.compiler}); err != nil {
		t.Fatal(err)
	}
	f.poller, err = poller.New(poller.Config{
		Source: f, Compile: f.compiler.Compile, Publisher: f.publisher, Logger: slog.New(f.log), Metrics: poller.NewMetrics(f.registry),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) Restore(*table.Table, time.Time) {}

func (f *fixture) Begin() func(*table.Table, table.Read) {
	return func(t *table.Table, _ table.Read) {
		f.mu.Lock()
		last := len(f.published) - 1
		f.mu.Unlock()
		if t != nil && (last < 0 || f.published[last] != t) {
			f.Publish(t)
		}
	}
}

func (f *fixture) Publish(t *table.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = append(f.published, t)
}

func (f *fixture) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	if f.read != nil {
		return f.read(ctx, o)
	}
	return f.cluster.Read(ctx, o)
}

// run starts the poller and waits for the end of the first poll; the returned function stops the poller. It works in a synctest
// bubble only.
func (f *fixture) run() (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.poller.Run(ctx) }()
	synctest.Wait()
	return func() {
		f.t.Helper()
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("Run: %v", err)
		}
	}
}

// poll waits for the end of the next poll.
func (f *fixture) poll() {
	f.t.Helper()
	time.Sleep(time.Until(f.poller.Status().NextAttempt))
	synctest.Wait()
}

func (f *fixture) apply(stream ...string) {
	f.t.Helper()
	if err := f.cluster.Apply(strings.Join(stream, "")); err != nil {
		f.t.Fatal(err)
	}
}

// lineRecorder is a slog.Handler that keeps the lines of one component as "LEVEL message key=value".
type lineRecorder struct {
	component string
	*lines
}

type lines struct {
	mu   sync.Mutex
	list []string
}

func (r *lineRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *lineRecorder) WithGroup(string) slog.Handler            { return r }

func (r *lineRecorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineRecorder{attrs[0].Value.String(), r.lines}
}

func (r *lineRecorder) Handle(_ context.Context, rec slog.Record) error {
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

// take returns the lines since the last call.
func (r *lineRecorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.list
	r.list = nil
	return lines
}
