package sidecar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/loopback"
	"github.com/routesrv/routesrv/test/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ingress is an Ingress for a host, with one route.
func ingress(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec: {rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---`, name)
}

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
---`

// world is a cluster and a route server of it. It is used in a synctest bubble.
type world struct {
	t       *testing.T
	cluster *kubetest.Server
	server  *etagcache.Cache // of the route server
	network loopback.Network // to the route server
	down    outage           // the route server does not answer
	apiDown atomic.Bool      // the cluster does not answer the data planes
	reads   atomic.Int64     // of the cluster by data planes

	mu        sync.Mutex
	published map[string]bool // texts that a producer may serve; guarded by mu
	options   rules.Options   // of data planes
}

func newWorld(t *testing.T, objects ...string) *world {
	t.Helper()
	cluster, err := kubetest.New([]byte(service+strings.Join(objects, "")), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.SetRevision(100)
	w := &world{t: t, cluster: cluster, published: make(map[string]bool)}
	w.down.network = &w.network
	return w
}

// outage records whether the route server is down. Then streams break, too.
type outage struct {
	atomic.Bool
	network *loopback.Network
}

func (o *outage) Store(away bool) {
	o.Bool.Store(away)
	if away {
		o.network.Cut("routesrv")
	}
}

// noting is a cache whose tables the world records.
type noting struct {
	*etagcache.Cache
	w *world
}

func (n noting) Begin() func(*table.Table, table.Read) {
	end := n.Cache.Begin()
	return func(t *table.Table, r table.Read) {
		if t != nil {
			n.w.note(t)
		}
		end(t, r)
	}
}

// runServer runs a route server that compiles with the options.
func (w *world) runServer(o rules.Options) {
	w.t.Helper()
	var err error
	if w.server, err = etagcache.New(etagcache.Config{MaxStreams: 10}); err != nil {
		w.t.Fatal(err)
	}
	compiler, err := poller.NewCompiler(o, nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	g, err := publish.New(publish.Config{Sink: noting{w.server, w}, Builder: compiler})
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := poller.New(poller.Config{Source: w.cluster, Compile: compiler.Compile, Publisher: g})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	w.network.Set("routesrv", w.server.Handler())
	synctest.Wait()
}

// apply changes the cluster, and records the resulting table.
func (w *world) apply(objects string) {
	w.t.Helper()
	if err := w.cluster.Apply(objects); err != nil {
		w.t.Fatal(err)
	}
	w.note(w.compiled())
}

// compiled returns the table of the current cluster.
func (w *world) compiled() *table.Table {
	w.t.Helper()
	c, err := compile.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.cluster.Read(w.t.Context(), kube.ReadOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return table.Of(c.Compile(s).Routes, uint64(s.Newest), time.Now())
}

// note records a table that may be served.
func (w *world) note(t *table.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published[string(t.Text())] = true
}

// RoundTrip is the network between data planes and the route server.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.down.Load() || w.server == nil {
		return nil, errors.New("connection refused")
	}
	return w.network.RoundTrip(r)
}

// Read reads the cluster for a data plane.
func (w *world) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	w.reads.Add(1)
	if w.apiDown.Load() {
		return nil, errors.New("the API does not answer")
	}
	return w.cluster.Read(ctx, o)
}

// plane is a running data plane.
type plane struct {
	*world
	*sidecar.Sidecar
	log      *programs.Buffer
	modeFile string
	state    string
	registry *prometheus.Registry
	stop     func()
}

// config returns a configuration that starts in a mode.
func (w *world) config(mode string) sidecar.Config {
	w.t.Helper()
	set, err := rollout.ParseSetting(mode)
	if err != nil {
		w.t.Fatal(err)
	}
	return sidecar.Config{
		Setting: set, Pod: "skipper-0", Source: w, Compile: w.options,
		Fetch:    dataplane.Config{URLs: []string{"http://routesrv"}, Transport: w},
		Fallback: rollout.FallbackConfig{Policy: rollout.FallbackBoot},
	}
}

// run starts a data plane. It ends with the test, or with stop.
func (w *world) run(cfg sidecar.Config) *plane {
	w.t.Helper()
	p := &plane{world: w, log: &programs.Buffer{}, modeFile: cfg.ModeFile, state: cfg.StateDir, registry: prometheus.NewRegistry()}
	cfg.Registry = p.registry
	cfg.Logger = slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	var err error
	if p.Sidecar, err = sidecar.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.RunTables(ctx) }()
	p.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(p.stop)
	return p
}

// setMode writes the mode file as an operator does through a ConfigMap.
func (p *plane) setMode(mode string) {
	p.t.Helper()
	writeFile(p.t, p.modeFile, mode)
	p.Reload()
	synctest.Wait()
}

// get sends a request to the listener for the proxy.
func (p *plane) get(path string, header ...string) *httptest.ResponseRecorder {
	return ask(p.Handler(), http.MethodGet, path, header...)
}

// admin sends a request to the listener for operators.
func (p *plane) admin(method, path string, header ...string) *httptest.ResponseRecorder {
	return ask(operator(p.ControlHandler()), method, path, header...)
}

// operator serves requests as if they came over the control socket.
func operator(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(httpserve.Peer{UID: os.Geteuid()}.Attach(r.Context())))
	})
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "localhost"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return serve(h, r)
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// status has the fields of /status that tests check.
type status struct {
	Mode, Asked, Setting, Origin string
	Refused                      string
	ModeFileError                string `json:"mode_file_error"`
	Ready, Fresh                 bool
	Table                        *struct {
		Digest   string
		Revision uint64
		Stale    bool
	}
	Cutover *struct {
		Ready       bool
		Reason      string
		Comparisons int `json:"clean_comparisons"`
		Differences int
	}
	Switch *struct {
		To, Waiting string
		Guard       struct {
			Held   bool
			Digest string
		}
	}
	Fallback *struct {
		Computing bool
		Reason    string
		StartAt   time.Time `json:"start_at"`
	}
	Self *struct {
		Fallback bool
		Guard    struct{ Digest string }
	}
	Fetch *struct {
		Failures int
	}
}

func (p *plane) status() status {
	p.t.Helper()
	synctest.Wait() // the proxy may be served a moment before the controller shows the change
	var s status
	w := p.admin(http.MethodGet, "/status")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		p.t.Fatalf("/status: %v\n%s", err, w.Body)
	}
	return s
}

// expect waits until a mode is in force with an origin, for at most within in the time of the bubble.
func (p *plane) expect(mode, origin string, within time.Duration) status {
	p.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		s := p.status()
		if s.Mode == mode && s.Origin == origin {
			return s
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("mode %s, origin %s after %v, want %s, %s; log:\n%s", s.Mode, s.Origin, within, mode, origin, p.log)
		}
	}
}

func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeFile(t, path, content)
	return path
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

var newSidecar = sidecar.New

// metric returns the value of a series, -1 if there is none.
func (p *plane) metric(series string) float64 {
	synctest.Wait() // as for status
	for line := range strings.Lines(p.admin(http.MethodGet, "/metrics").Body.String()) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			fmt.Sscan(rest, &v)
			return v
		}
	}
	return -1
}
