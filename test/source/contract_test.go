package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

// reader is the subject of the contract: one complete read, or an error.
type reader interface {
	Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error)
}

// world is a source together with the objects it reads, which a test controls.
type world struct {
	Source reader
	// Apply adds the objects of a YAML stream, and replaces existing ones of the same name in place.
	Apply func(objects string)
	// Delete removes an object.
	Delete func(kube.Ref)
	// Break makes the next reads fail, or succeed again.
	Break func(broken bool)
}

const contractObjects = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: a
  namespace: shop
  creationTimestamp: "2026-01-02T03:04:05Z"
  annotations: {x: "1", kubectl.kubernetes.io/last-applied-configuration: '{"much": "text"}'}
  managedFields: [{manager: kubectl, operation: Update}]
spec:
  rules: [{host: a.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: b, namespace: shop}
spec: {defaultBackend: {service: {name: s, port: {name: http}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: broken, namespace: shop, annotations: {wrong: 301}}
spec: {}
---
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: r, namespace: shop, creationTimestamp: "2026-01-02T03:04:06Z"}
spec:
  hosts: [r.example.org]
  backends: [{name: s, type: service, serviceName: s, servicePort: 80}]
  defaultBackends: [{backendName: s, weight: 1}]
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: shop}
spec: {type: ClusterIP, ports: [{name: http, port: 80, targetPort: web}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: shop, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], zone: z1}, {addresses: [10.0.0.2], conditions: {ready: false}}]
ports: [{name: http, port: 8080, protocol: TCP}]
`

const contractChange = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: b, namespace: shop}
spec: {defaultBackend: {service: {name: other, port: {name: http}}}}
`

const contractRepair = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: broken, namespace: shop, annotations: {wrong: "301"}}
spec: {}
`

// testSource is the contract of a source: reads are complete or fail, unchanged objects keep their pointers, and snapshots never
// change. The source must read EndpointSlices and all namespaces.
func testSource(t *testing.T, open func(t *testing.T, objects string) world) {
	for _, claim := range []struct {
		name  string
		check func(*testing.T, world)
	}{
		{"reads what is there and drops what nobody reads", readsObjects},
		{"a bad object costs nobody else", isolatesBadObjects},
		{"unchanged objects keep their pointers", keepsPointers},
		{"a change gives one new pointer", changesOnePointer},
		{"a removed object is gone", forgetsRemoved},
		{"a failing read gives nothing and spoils nothing", failsWhole},
		{"a snapshot never changes", neverChanges},
		{"a cancelled read is an error", heedsContext},
		{"reads may overlap", readsOverlap},
	} {
		t.Run(claim.name, func(t *testing.T) { claim.check(t, open(t, contractObjects)) })
	}
}

func readWorld(t *testing.T, w world) *kube.Snapshot {
	t.Helper()
	s, err := w.Source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return s
}

// text returns everything in a snapshot.
func text(t *testing.T, s *kube.Snapshot) string {
	t.Helper()
	b, err := json.Marshal([]any{s.Revision, s.Newest, s.Ingresses, s.RouteGroups, s.Backends, s.Bad}) // of Bad only the references
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readsObjects(t *testing.T, w world) {
	s := readWorld(t, w)
	want := kube.Snapshot{Intent: kube.Intent{
		Ingresses: []*kube.Ingress{
			{
				Meta: kube.Meta{Namespace: "shop", Name: "a", Annotations: kube.Pairs{{Key: "x", Value: "1"}}, Created: 1767323045},
				Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
					Host: "a.example.org", HTTP: true,
					Paths: []kube.IngressPath{{
						Path: "/", PathType: "Prefix", Backend: &kube.IngressBackend{Service: "s", PortNumber: 80},
					}},
				}}},
			},
			{
				Meta: kube.Meta{Namespace: "shop", Name: "b"},
				Spec: &kube.IngressSpec{DefaultBackend: &kube.IngressBackend{Service: "s", PortName: "http"}},
			},
		},
		RouteGroups: []*kube.RouteGroup{{
			Meta: kube.Meta{Namespace: "shop", Name: "r", Created: 1767323046},
			Spec: &kube.RouteGroupSpec{
				Hosts:           []string{"r.example.org"},
				Backends:        []*kube.RouteGroupBackend{{Name: "s", Type: "service", ServiceName: "s", ServicePort: 80}},
				DefaultBackends: []*kube.BackendReference{{BackendName: "s", Weight: 1}},
			},
		}},
	}, Backends: kube.Backends{
		Services: []*kube.Service{{
			Namespace: "shop", Name: "s", Type: "ClusterIP",
			Ports: []kube.ServicePort{{Name: "http", Port: 80, TargetPort: kube.NamePort("web")}},
		}},
		EndpointSlices: []*kube.EndpointSlice{{
			Namespace: "shop", Name: "s-1", Service: "s",
			Ports:     []kube.EndpointPort{{Name: "http", Port: 8080, Protocol: "TCP"}},
			Endpoints: []kube.SliceEndpoint{{Address: "10.0.0.1", Zone: "z1", Ready: true}, {Address: "10.0.0.2"}},
		}},
	}}
	got := *s
	got.Bad, got.Revision, got.Newest = nil, 0, 0
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func isolatesBadObjects(t *testing.T, w world) {
	s := readWorld(t, w)
	want := kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "broken"}
	if len(s.Bad) != 1 || s.Bad[0].Ref != want || s.Bad[0].Err == nil {
		t.Fatalf("bad objects %v, want %v", s.Bad, want)
	}
	w.Apply(contractRepair)
	if s = readWorld(t, w); len(s.Bad) != 0 || len(s.Ingresses) != 3 {
		t.Errorf("after the repair: %d ingresses, bad %v", len(s.Ingresses), s.Bad)
	}
}

func keepsPointers(t *testing.T, w world) {
	first := readWorld(t, w)
	for range 3 {
		if again := readWorld(t, w); !first.SameObjects(again) {
			t.Fatalf("nothing changed and the objects are others:\n%s", cmp.Diff(first, again, errorTexts))
		}
	}
}

func changesOnePointer(t *testing.T, w world) {
	before := readWorld(t, w)
	w.Apply(contractChange)
	after := readWorld(t, w)
	if before.SameObjects(after) {
		t.Fatal("the change is not seen")
	}
	if after.Ingresses[1] == before.Ingresses[1] || after.Ingresses[1].Spec.DefaultBackend.Service != "other" {
		t.Error("the changed object is still the old one")
	}
	if after.Ingresses[0] != before.Ingresses[0] || after.RouteGroups[0] != before.RouteGroups[0] ||
		after.Services[0] != before.Services[0] || after.EndpointSlices[0] != before.EndpointSlices[0] {
		t.Error("an object that did not change has another pointer")
	}
	if len(after.Bad) != 1 {
		t.Errorf("bad objects %v, want the one of before", after.Bad)
	}
}

func forgetsRemoved(t *testing.T, w world) {
	before := readWorld(t, w)
	w.Delete(before.Ingresses[0].Ref())
	w.Delete(before.RouteGroups[0].Ref())
	after := readWorld(t, w)
	if len(after.Ingresses) != 1 || after.Ingresses[0] != before.Ingresses[1] || len(after.RouteGroups) != 0 {
		t.Errorf("got %d ingresses and %d route groups, want the second ingress alone", len(after.Ingresses), len(after.RouteGroups))
	}
}

func failsWhole(t *testing.T, w world) {
	before := readWorld(t, w)
	w.Break(true)
	for range 2 {
		s, err := w.Source.Read(t.Context(), kube.ReadOptions{})
		if err == nil || s != nil {
			t.Fatalf("a broken read gives %v, %v", s, err)
		}
		if _, ok := errors.AsType[*kube.ReadError](err); !ok {
			t.Errorf("error %T %v, want a *kube.ReadError", err, err)
		}
	}
	w.Break(false)
	if after := readWorld(t, w); !before.SameObjects(after) {
		t.Errorf("after the failure the objects are others:\n%s", cmp.Diff(before, after, errorTexts))
	}
}

func neverChanges(t *testing.T, w world) {
	s := readWorld(t, w)
	before := text(t, s)
	w.Apply(contractChange + "---" + contractRepair)
	readWorld(t, w)
	w.Delete(s.Services[0].Ref())
	w.Break(true)
	_, _ = w.Source.Read(t.Context(), kube.ReadOptions{}) // must fail, which another test verifies
	w.Break(false)
	readWorld(t, w)
	if now := text(t, s); now != before {
		t.Errorf("a snapshot that was handed out changed: it was\n%s\nand is\n%s", before, now)
	}
}

func heedsContext(t *testing.T, w world) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := w.Source.Read(ctx, kube.ReadOptions{})
	if s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want %v", s, err, context.Canceled)
	}
}

func readsOverlap(t *testing.T, w world) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				s, err := w.Source.Read(t.Context(), kube.ReadOptions{})
				if err != nil || len(s.Ingresses) != 2 {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// worldOf returns a world with a source that reads the server, or with the server itself. While the world is broken, the given path
// fails.
func worldOf(t *testing.T, s *kubetest.Server, source reader, path string) world {
	return world{
		Source: source,
		Apply: func(objects string) {
			t.Helper()
			if err := s.Apply(objects); err != nil {
				t.Fatalf("apply: %v", err)
			}
		},
		Delete: s.Delete,
		Break: func(broken bool) {
			f := kubetest.Fault{}
			if broken {
				f.Status = http.StatusInternalServerError
			}
			s.SetFault(path, f)
		},
	}
}
