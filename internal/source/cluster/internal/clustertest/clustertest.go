// Package clustertest holds what the tests of reading a cluster share: a small cluster, and helpers.
package clustertest

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
)

// API paths of the kinds.
const (
	Ingresses      = "/apis/networking.k8s.io/v1/ingresses"
	RouteGroups    = "/apis/zalando.org/v1/routegroups"
	Services       = "/api/v1/services"
	Endpoints      = "/api/v1/endpoints"
	EndpointSlices = "/apis/discovery.k8s.io/v1/endpointslices"
)

// objects are the objects of the server from [NewServer].
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

// ErrorTexts compares errors by their texts.
var ErrorTexts = cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })

// NewServer returns a server with a small cluster at revision 100.
func NewServer(t *testing.T) *kubetest.Server {
	t.Helper()
	s, err := kubetest.New([]byte(objects), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(100)
	return s
}

// Log collects a logger's output. It can be read while the logger writes.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns the output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger returns a logger and its output.
func Logger() (*slog.Logger, *Log) {
	var l Log
	return slog.New(slog.NewTextHandler(&l, nil)), &l
}

// Encodings are the encodings in which a server may answer.
var Encodings = []struct {
	Name           string
	Protobuf, GZip bool
}{
	{"JSON", false, false}, {"JSON gzip", false, true}, {"protobuf", true, false}, {"protobuf gzip", true, true},
}

// KindOf returns the kind that a path lists.
func KindOf(path string) string {
	return map[string]string{
		Ingresses: "Ingress", RouteGroups: "RouteGroup", Services: "Service", Endpoints: "Endpoints",
		EndpointSlices: "EndpointSlice", kubetest.Discovery: "discovery",
	}[path]
}

// Summary describes a snapshot in one line.
func Summary(s *kube.Snapshot) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("revision %d to %d, %d ingresses, %d route groups, %d services, bad %v", s.Revision, s.Newest,
		len(s.Ingresses), len(s.RouteGroups), len(s.Services), s.Bad)
}

// Apply writes objects to the server, or fails the test.
func Apply(t *testing.T, s *kubetest.Server, objects string) {
	t.Helper()
	if err := s.Apply(objects); err != nil {
		t.Fatal(err)
	}
}

// CPUTime returns the CPU time that the process has used so far.
func CPUTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
