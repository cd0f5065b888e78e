package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mainAddress    = "127.0.0.1:0"
	supportAddress = "localhost:0"
	interval       = 10 * time.Millisecond
)

// ingress is an Ingress for a host, with one route.
func ingress(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec: {rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
---`, name)
}

func ingresses(names ...string) string {
	var all strings.Builder
	for _, n := range names {
		all.WriteString(ingress(n))
	}
	return all.String()
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
subsets: [{addresses: [{ip: 10.2.0.9}, {ip: 10.2.0.10}, {ip: "fd00::1"}], ports: [{port: 8080, protocol: TCP}]}]
---`

// sent is a response that was read to its end.
type sent struct {
	status int
	header http.Header
	body   string
}

// fixture is a running server that reads a cluster which the test controls.
type fixture struct {
	t         *testing.T
	cluster   *kubetest.Server
	registry  *prometheus.Registry
	log       *programs.Buffer
	client    *http.Client
	server    *server.Server
	scheme    string
	addresses map[string]chan string // by configured address; Listen sends to each
	main      string
	support   string
	cancel    context.CancelFunc
	done      chan error // the result of Run
	stopped   bool
}

// config returns the configuration of a server on free ports that reads the objects.
func (f *fixture) config(t *testing.T, objects string) server.Config {
	t.Helper()
	cluster, err := kubetest.New([]byte(objects), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.SetRevision(100)
	*f = fixture{
		t: t, cluster: cluster, log: &programs.Buffer{}, scheme: "http", registry: prometheus.NewRegistry(),
		addresses: map[string]chan string{mainAddress: make(chan string, 1), supportAddress: make(chan string, 1)},
		done:      make(chan error, 1),
	}
	return server.Config{
		Source: cluster, Open: f.listen,
		Interval: interval, MaxBackoff: interval, Address: mainAddress, SupportAddress: supportAddress, ShutdownTimeout: 10 * time.Second,
		Version: "v1.2.3", Registry: f.registry,
		Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (f *fixture) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err == nil {
		f.addresses[address] <- l.Addr().String()
	}
	return l, err
}

// start runs a server until the test ends; change may be nil.
func start(t *testing.T, objects string, change func(*server.Config)) *fixture {
	t.Helper()
	f := &fixture{}
	cfg := f.config(t, objects)
	if change != nil {
		change(&cfg)
	}
	f.run(cfg)
	return f
}

// run starts a server with the configuration and waits until its sockets are open.
func (f *fixture) run(cfg server.Config) {
	f.t.Helper()
	s, err := server.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = s
	transport := &http.Transport{DisableCompression: true}
	f.client = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	f.t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.done <- s.Run(ctx) }()
	f.main = <-f.addresses[mainAddress]
	if cfg.SupportAddress == supportAddress {
		f.support = <-f.addresses[supportAddress]
	}
	f.t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := f.stop(); err != nil {
			f.t.Errorf("Run: %v", err)
		}
	})
}

// stop ends the server and returns the result of Run. A second call does nothing.
func (f *fixture) stop() error {
	if f.stopped {
		return nil
	}
	f.stopped = true
	f.cancel()
	return <-f.done
}

// ready waits until a table is served.
func (f *fixture) ready() {
	f.t.Helper()
	f.eventually("a table", func() bool { return f.get("/health").status == http.StatusNoContent })
}

// polled waits for two more polls: the second one started after the call.
func (f *fixture) polled() {
	f.t.Helper()
	count := func() (n int) {
		for _, line := range strings.Split(f.metrics(), "\n") {
			var v int
			if strings.HasPrefix(line, "routesrv_polls_total{") {
				fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v)
				n += v
			}
		}
		return n
	}
	before := count()
	f.eventually("two polls", func() bool { return count() >= before+2 })
}

// patience is a limit that only a failure reaches, also on a machine that is overloaded several times.
const patience = 3 * time.Minute

// eventually waits until a condition holds.
func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("no %s after %v; log:\n%s", what, patience, f.log)
		}
	}
}

// logged waits for a line of the log with text and returns all of them: what a client sees may come before the line that tells of it.
func (f *fixture) logged(text string) (lines []string) {
	f.t.Helper()
	f.eventually("line of the log with "+text, func() bool {
		lines = linesWith(f.log.String(), text)
		return len(lines) > 0
	})
	return lines
}

// get sends a request to the main listener.
func (f *fixture) get(path string, header ...string) sent {
	f.t.Helper()
	return f.request(http.MethodGet, f.main, path, header...)
}

func (f *fixture) metrics() string {
	f.t.Helper()
	return f.request(http.MethodGet, f.support, "/metrics").body
}

// request sends a request with headers "name: value" to an address. The header "Host" sets the host.
func (f *fixture) request(method, address, path string, header ...string) sent {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.scheme+"://"+address+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		if k == "Host" {
			r.Host = v
			continue
		}
		r.Header.Set(k, v)
	}
	resp, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return sent{resp.StatusCode, resp.Header, ""} // it does not end
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return sent{resp.StatusCode, resp.Header, string(body)}
}

// accept sends an acceptance.
func (f *fixture) accept(query string) sent {
	return f.control(http.MethodPost, api.PathAccept+query)
}

// control sends a request as the control socket does.
func (f *fixture) control(method, path string) sent {
	f.t.Helper()
	r := httptest.NewRequest(method, path, nil)
	w := httptest.NewRecorder()
	httpserve.Control(f.server.Endpoints(), http.NotFoundHandler()).ServeHTTP(w, r.WithContext(httpserve.Peer{UID: os.Geteuid()}.Attach(r.Context())))
	return sent{w.Code, w.Header(), w.Body.String()}
}

func (f *fixture) apply(objects string) {
	f.t.Helper()
	if err := f.cluster.Apply(objects); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) delete(names ...string) { f.deleteIn("shop", names...) }

// deleteIn deletes Ingresses of a namespace.
func (f *fixture) deleteIn(namespace string, names ...string) {
	f.deleteKind(kube.KindIngress, namespace, names...)
}

// deleteKind deletes objects of a kind.
func (f *fixture) deleteKind(kind kube.Kind, namespace string, names ...string) {
	for _, n := range names {
		f.cluster.Delete(kube.Ref{Kind: kind, Namespace: namespace, Name: n})
	}
}

// breakSource makes reads fail, or succeed again.
func (f *fixture) breakSource(broken bool) {
	fault := kubetest.Fault{}
	if broken {
		fault.Status = http.StatusInternalServerError
	}
	f.cluster.SetFault("/api/v1/services", fault)
}
