package source_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/loopback"
)

// API paths of the kinds.
const (
	pathIngresses      = "/apis/networking.k8s.io/v1/ingresses"
	pathRouteGroups    = "/apis/zalando.org/v1/routegroups"
	pathServices       = "/api/v1/services"
	pathEndpoints      = "/api/v1/endpoints"
	pathEndpointSlices = "/apis/discovery.k8s.io/v1/endpointslices"
)

// objects are the objects of the server from [newServer].
const objects = `
kind: List
items:
- kind: Ingress
  metadata: {name: a, namespace: n1, labels: {keep: "true", team: x}, annotations: {k: v}}
  spec: {ingressClassName: skipper, rules: [{host: a.org, http: {paths: [{path: /p, backend: {service: {name: s, port: {number: 80}}}}]}}]}
- kind: Ingress
  metadata: {name: b, namespace: n2, labels: {team: z}}
  spec: {}
- kind: RouteGroup
  metadata: {name: r, namespace: n1}
  spec: {backends: [{name: x, type: shunt}], routes: [{path: /, backends: [{backendName: x}]}]}
- kind: Service
  metadata: {name: s, namespace: n1}
  spec: {type: ClusterIP, ports: [{name: http, port: 80, targetPort: 8080}, {name: x, port: 81, targetPort: web}]}
- kind: Endpoints
  metadata: {name: s, namespace: n1}
  subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{name: http, port: 8080, protocol: TCP}]}]
- kind: EndpointSlice
  metadata: {name: s-1, namespace: n1, labels: {kubernetes.io/service-name: s}}
  addressType: IPv4
  endpoints: [{addresses: [10.0.0.1], zone: z, conditions: {ready: true}}]
  ports: [{name: http, port: 8080, protocol: TCP}]
`

// errorTexts compares errors by their texts.
var errorTexts = cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })

// newServer returns a server with a small cluster at revision 100.
func newServer(t *testing.T) *kubetest.Server {
	t.Helper()
	s, err := kubetest.New([]byte(objects), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(100)
	return s
}

// logText collects a logger's output. It can be read while the logger writes.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns the output so far.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logger returns a logger and its output.
func logger() (*slog.Logger, *logText) {
	var l logText
	return slog.New(slog.NewTextHandler(&l, nil)), &l
}

// encodings are the encodings in which a server may answer.
var encodings = []struct {
	Name           string
	Protobuf, GZip bool
}{
	{"JSON", false, false}, {"JSON gzip", false, true}, {"protobuf", true, false}, {"protobuf gzip", true, true},
}

// kindOf returns the kind that a path lists.
func kindOf(path string) string {
	return map[string]string{
		pathIngresses: "Ingress", pathRouteGroups: "RouteGroup", pathServices: "Service", pathEndpoints: "Endpoints",
		pathEndpointSlices: "EndpointSlice", kubetest.Discovery: "discovery",
	}[path]
}

// summary describes a snapshot in one line.
func summary(s *kube.Snapshot) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("revision %d to %d, %d ingresses, %d route groups, %d services, bad %v", s.Revision, s.Newest,
		len(s.Ingresses), len(s.RouteGroups), len(s.Services), s.Bad)
}

// apply writes objects to the server, or fails the test.
func apply(t *testing.T, s *kubetest.Server, objects string) {
	t.Helper()
	if err := s.Apply(objects); err != nil {
		t.Fatal(err)
	}
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Messages of the log.
const (
	logRestored    = "cluster went back to an older revision; reading everything again"
	logNoFloor     = "the API server cannot bring its caches up to a requested revision"
	logUnconfirmed = "a list lacked objects that a consistent list has"
	logNoCRD       = "RouteGroups CRD is not installed in the cluster.\n" +
		"See: https://opensource.zalando.com/skipper/kubernetes/routegroups/#installation"
)

// localTransport calls the handler for the host "fake" without a network, for tests with a fake clock.
func localTransport(h http.Handler) http.RoundTripper {
	var n loopback.Network
	n.Set("fake", h)
	return &n
}
