package source_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// canceledWhenAsked returns a context that ends as soon as the server was asked for the path.
func canceledWhenAsked(t *testing.T, s *kubetest.Server, path string) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	s.OnRequest(func(r kubetest.Request) {
		if r.Path == path {
			cancel()
		}
	})
	t.Cleanup(cancel)
	return ctx
}

func TestAnyFailureOfAnyListFailsTheRead(t *testing.T) {
	lists := []struct{ path, resource, permission string }{
		{pathIngresses, "ingresses.networking.k8s.io", `the verb "list" on "ingresses" in API group "networking.k8s.io"`},
		{pathRouteGroups, "routegroups.zalando.org", `the verb "list" on "routegroups" in API group "zalando.org"`},
		{pathServices, "services", `the verb "list" on "services" in API group ""`},
		{pathEndpoints, "endpoints", `the verb "list" on "endpoints" in API group ""`},
		{pathEndpointSlices, "endpointslices.discovery.k8s.io", `the verb "list" on "endpointslices" in API group "discovery.k8s.io"`},
	}
	faults := []struct {
		name   string
		fault  kubetest.Fault
		text   string // PATH and PERMISSION stand for those of the list
		reason string
	}{
		{"500", kubetest.Fault{Status: 500}, "request to PATH failed, status: 500, 500 Internal Server Error: fault", "status"},
		{"503", kubetest.Fault{Status: 503}, "request to PATH failed, status: 503, 503 Service Unavailable", "status"},
		{"204", kubetest.Fault{Status: 204}, "request to PATH failed, status: 204, 204 No Content", "status"},
		{"302", kubetest.Fault{Status: 302}, "request to PATH failed, status: 302, 302 Found", "status"},
		{"401", kubetest.Fault{Status: 401}, "unauthorized: request to PATH failed, status: 401, 401 Unauthorized", "forbidden"},
		{"403", kubetest.Fault{Status: 403}, "forbidden: request to PATH failed, status: 403, 403 Forbidden: User \"system:serviceaccount:x:y\" cannot do this (grant PERMISSION)", "forbidden"},
		{"404", kubetest.Fault{Status: 404}, "resource not found", "not_found"},
		{"hang", kubetest.Fault{Hang: true}, "no complete answer within", "timeout"},
		{"reset", kubetest.Fault{Reset: true}, "request to PATH: ", "connection"},
		{"cut in the head", kubetest.Fault{Cut: 1}, "the body ends early", "connection"},
		{"cut in the middle", kubetest.Fault{Cut: 40}, "the body ends early", "connection"},
		{"cut at the end", kubetest.Fault{Cut: -1}, "the body ends early", "connection"},
		{"chunks cut", kubetest.Fault{CutChunked: 40}, "the body ends early", "connection"},
		{"empty", kubetest.Fault{Body: []byte{}}, "answer to PATH: ", "body"},
		{"garbage", kubetest.Fault{Body: []byte("\x00\x01garbage")}, "answer to PATH: ", "body"},
		{"HTML", kubetest.Fault{ContentType: "text/html"}, `content type "text/html"`, "body"},
		{"no content type that can be read", kubetest.Fault{ContentType: "a/b/c"}, `content type "a/b/c"`, "body"},
		{"wrong encoding", kubetest.Fault{ContentType: "application/cbor"}, `content type "application/cbor"`, "body"},
	}
	for _, e := range []int{0, 3} { // the extremes: plain JSON, protobuf with gzip
		e := encodings[e]
		for _, l := range lists {
			for _, f := range faults {
				if f.fault.Hang && e.GZip {
					continue // there is nothing to encode, and it takes its time
				}
				t.Run(strings.Join([]string{e.Name, l.resource, f.name}, "/"), func(t *testing.T) {
					server := newServer(t)
					server.SetEncodings(e.Protobuf, e.GZip)
					m := cluster.NewMetrics(nil)
					source := newSource(t, cluster.Config{
						URL: server.Start(t), EndpointSlices: l.path == pathEndpointSlices, Metrics: m,
						Timeout: timeoutFor(f.fault),
					})
					before := read(t, source)

					server.SetFault(l.path, f.fault)
					snap, err := source.Read(t.Context(), kube.ReadOptions{})
					if snap != nil || err == nil {
						t.Fatalf("read gives %v, %v, want an error", snap, err)
					}
					re, ok := errors.AsType[*kube.ReadError](err)
					if !ok || re.Verb != "list" || re.Resource != l.resource {
						t.Errorf("error %v names %+v, want list of %s", err, re, l.resource)
					}
					want := strings.ReplaceAll(strings.ReplaceAll(f.text, "PATH failed", l.path), "PERMISSION", l.permission)
					want, _, _ = strings.Cut(want, "PATH")
					for part := range strings.SplitSeq(want, l.path) { // a query may stand behind the path
						part = strings.TrimPrefix(part, ", ")
						if !strings.Contains(err.Error(), part) {
							t.Errorf("error %q, want %q in it", err, part)
						}
					}
					if n := testutil.ToFloat64(m.ReadErrors.WithLabelValues(kindOf(l.path), f.reason)); n != 1 {
						t.Errorf("%v errors are counted for %s and reason %s, want 1", n, kindOf(l.path), f.reason)
					}

					server.SetFault(l.path, kubetest.Fault{})
					if after := read(t, source); !before.SameObjects(after) {
						t.Error("after the failure the objects are others")
					}
				})
			}
		}
	}
}

// timeoutFor is short where the test waits for it, and far away otherwise.
func timeoutFor(f kubetest.Fault) time.Duration {
	if f.Hang {
		return 500 * time.Millisecond
	}
	return time.Minute
}

// A connection may close cleanly in the middle of a body that does not tell its length. Then the form has to show it.
func TestABodyThatEndsAnywhereFailsTheRead(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			server := newServer(t)
			server.SetEncodings(e.Protobuf, e.GZip)
			url := server.Start(t)
			whole := newSource(t, cluster.Config{URL: url})
			read(t, whole)
			for _, path := range []string{pathIngresses, pathRouteGroups, pathServices} {
				body := server.Body(path, e.Protobuf, e.GZip)
				if e.Protobuf && !e.GZip {
					body = body[:len(body)-4] // two empty fields of the envelope, behind the complete list
				}
				for n := 0; n < len(body); n += 1 + len(body)/50 {
					server.SetFault(path, kubetest.Fault{Raw: body[:n:n]})
					if _, err := whole.Read(t.Context(), kube.ReadOptions{}); err == nil {
						t.Errorf("%d of %d bytes of %s pass for the whole", n, len(body), path)
					}
				}
				server.SetFault(path, kubetest.Fault{})
			}
		})
	}
}

// API servers speak HTTP/2 as well, with which lists cost more. Over either there is often no Content-Length, only a body
// that ends.
func TestAStreamThatBreaksFailsTheRead(t *testing.T) {
	server := newServer(t)
	server.SetEncodings(true, true)
	tls := httptest.NewUnstartedServer(server)
	tls.EnableHTTP2 = true
	tls.StartTLS()
	t.Cleanup(func() { tls.CloseClientConnections(); tls.Close() })
	ca := write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})))
	source := newSource(t, cluster.Config{URL: tls.URL, CAFile: ca})
	before := read(t, source)
	for _, r := range server.Requests() {
		if r.Proto != "HTTP/1.1" {
			t.Fatalf("%s by %s, want HTTP/1.1", r, r.Proto)
		}
	}
	for _, f := range []kubetest.Fault{{Cut: 5}, {CutChunked: 5}, {CutChunked: -1}, {Cut: -1}} {
		server.SetFault(pathServices, f)
		if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "the body ends early") {
			t.Errorf("%+v: error %v, want one that says the body ends early", f, err)
		}
	}
	server.SetFault(pathServices, kubetest.Fault{})
	if after := read(t, source); !before.SameObjects(after) {
		t.Error("afterwards the objects are others")
	}
}

func TestAPageOfAListFailsTheRead(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	server.SetFault(pathServices, kubetest.Fault{Body: kubetest.EncodePage(kube.KindService, 100, nil, true)})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "page") {
		t.Errorf("error %v, want one that says it is a page", err)
	}
}

func TestABodyPastTheLimitFailsTheRead(t *testing.T) {
	for _, e := range encodings {
		server := newServer(t)
		server.SetEncodings(e.Protobuf, e.GZip)
		source := newSource(t, cluster.Config{URL: server.Start(t), MaxBytes: 100})
		if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: error %v, want one that says it is too large", e.Name, err)
		}
	}
}

// An answer with status 200 that is no list of the kind has no objects of it, and must not take them away.
func TestAnAnswerThatIsNoListOfTheKindFailsTheRead(t *testing.T) {
	for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints, pathEndpointSlices} {
		kind := kube.Kind(kindOf(path))
		own := string(kubetest.EncodeJSON(kind, 100, nil))
		other := pathServices
		if path == pathServices {
			other = pathEndpoints
		}
		apiVersion := map[bool]string{true: `"apiVersion":"v2"`, false: `"apiVersion":"` + string(apiVersionOf(own)) + `beta1"`}[path == pathServices]
		ownVersion := `"apiVersion":"` + apiVersionOf(own) + `"`
		for _, tt := range []struct{ name, body, says string }{
			{"nothing in it", `{}`, "kind is \"\", must be " + string(kind) + "List"},
			{"a status", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`, `kind is "Status"`},
			{"a list of pods", strings.Replace(own, string(kind)+"List", "PodList", 1), `kind is "PodList"`},
			{"a list of another kind", string(kubetest.EncodeJSON(kube.Kind(kindOf(other)), 100, nil)), "must be " + string(kind) + "List"},
			{"an object", strings.Replace(own, string(kind)+"List", string(kind), 1), "must be " + string(kind) + "List"},
			{"another version", strings.Replace(own, ownVersion, apiVersion, 1), "API version is"},
			{"no version", strings.Replace(own, ownVersion+",", "", 1), "API version is"},
			{"no kind", strings.Replace(own, `"kind":"`+string(kind)+`List",`, "", 1), `kind is ""`},
			{"a kind that is no text", strings.Replace(own, `"kind":"`+string(kind)+`List"`, `"kind":7`, 1), "cannot unmarshal number"},
			{"no items", strings.Replace(own, `,"items":[]`, "", 1), "no array of items"},
			{"null items", strings.Replace(own, `[]`, "null", 1), "no array of items"},
			{"no revision", strings.Replace(own, `"resourceVersion":"100"`, "", 1), "no metadata.resourceVersion"},
			{"an empty revision", strings.Replace(own, `"100"`, `""`, 1), "no metadata.resourceVersion"},
			{"no metadata", strings.Replace(own, `"metadata":{"resourceVersion":"100"},`, "", 1), "no metadata.resourceVersion"},
			{"a page", string(kubetest.EncodePage(kind, 100, nil, true)), "page"},
		} {
			t.Run(string(kind)+"/"+tt.name, func(t *testing.T) {
				if tt.body == own {
					t.Fatal("nothing is wrong with the answer")
				}
				server := newServer(t)
				source := newSource(t, cluster.Config{URL: server.Start(t), EndpointSlices: path == pathEndpointSlices})
				before := read(t, source)
				server.SetFault(path, kubetest.Fault{Body: []byte(tt.body)})
				_, err := source.Read(t.Context(), kube.ReadOptions{})
				if e, ok := errors.AsType[*kube.ReadError](err); !ok || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v (%+v), want one that says %q", err, e, tt.says)
				}
				server.SetFault(path, kubetest.Fault{})
				if after := read(t, source); !before.SameObjects(after) {
					t.Error("afterwards the objects are others")
				}
			})
		}
	}
}

// The answer that tells the revision of the cluster is checked like a list.
func TestAProbeThatIsNoListFailsTheRead(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	read(t, source)
	server.SetFault(pathIngresses, kubetest.Fault{Times: 1, Body: []byte(`{"metadata":{"resourceVersion":"100"},"items":[]}`)})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "limit=1") {
		t.Errorf("error %v, want one about the request with a limit", err)
	}
}

func TestProtobufThatIsNoListOfTheKindFailsTheRead(t *testing.T) {
	for _, path := range []string{pathIngresses, pathServices, pathEndpoints, pathEndpointSlices} {
		kind := kube.Kind(kindOf(path))
		own, err := kubetest.EncodeProtobuf(kind, 100, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := pathServices
		if path == pathServices {
			other = pathEndpoints
		}
		server := newServer(t)
		server.SetEncodings(true, false)
		source := newSource(t, cluster.Config{URL: server.Start(t), EndpointSlices: path == pathEndpointSlices})
		before := read(t, source)
		for _, tt := range []struct {
			name, says string
			body       []byte
		}{
			{"another kind", "must be " + string(kind) + "List", server.Body(other, true, false)},
			{"another version", "API version", bytes.Replace(own, []byte("v1"), []byte("v2"), 1)},
			{"no revision", "no metadata.resourceVersion", bytes.Replace(own, []byte("\x12\x03100"), []byte("\x4a\x03100"), 1)},
		} {
			if bytes.Equal(tt.body, own) {
				t.Fatalf("%s: %s: nothing is wrong with the answer", kind, tt.name)
			}
			server.SetFault(path, kubetest.Fault{Body: tt.body})
			if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %s: error %v, want one that says %q", kind, tt.name, err, tt.says)
			}
		}
		server.SetFault(path, kubetest.Fault{})
		if after := read(t, source); !before.SameObjects(after) {
			t.Errorf("%s: afterwards the objects are others", kind)
		}
	}
}

// kubeKind is the kind that is listed at the path.

// apiVersionOf is the version that a list in JSON has.
func apiVersionOf(list string) string {
	_, rest, _ := strings.Cut(list, `"apiVersion":"`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

// resourcesOf is the discovery of the group with these resources.
func resourcesOf(resources string) kubetest.Fault {
	return kubetest.Fault{Body: []byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"zalando.org/v1","resources":` + resources + `}`)}
}

func TestDiscovery(t *testing.T) {
	type outcome int
	const (
		with outcome = iota
		without
		fails
	)
	for _, tt := range []struct {
		name  string
		fault kubetest.Fault
		want  outcome
		warns bool
	}{
		{"there", kubetest.Fault{}, with, false},
		{"404", kubetest.Fault{Status: 404}, without, true},
		{"group without route groups", resourcesOf(`[{"name":"fabrics"}]`), without, false},
		{"no resources", resourcesOf(`[]`), without, false},
		{"null resources", resourcesOf(`null`), fails, false},
		{"resources that are none", resourcesOf(`{}`), fails, false},
		{"another object", kubetest.Fault{Body: []byte(`{"kind":"Status"}`)}, fails, false},
		{"no object", kubetest.Fault{Body: []byte(`{}`)}, fails, false},
		{"no kind", kubetest.Fault{Body: []byte(`{"groupVersion":"zalando.org/v1","resources":[]}`)}, fails, false},
		{"another group", kubetest.Fault{Body: []byte(`{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[]}`)}, fails, false},
		{"another kind", kubetest.Fault{Body: []byte(`{"kind":"RouteGroupList","groupVersion":"zalando.org/v1","resources":[]}`)}, fails, false},
		{"500", kubetest.Fault{Status: 500}, fails, false},
		{"503", kubetest.Fault{Status: 503}, fails, false},
		{"403", kubetest.Fault{Status: 403}, fails, false},
		{"401", kubetest.Fault{Status: 401}, fails, false},
		{"410", kubetest.Fault{Status: 410}, fails, false},
		{"302", kubetest.Fault{Status: 302}, fails, false},
		{"hang", kubetest.Fault{Hang: true}, fails, false},
		{"reset", kubetest.Fault{Reset: true}, fails, false},
		{"cut", kubetest.Fault{Cut: -2}, fails, false},
		{"empty", kubetest.Fault{Body: []byte{}}, fails, false},
		{"garbage", kubetest.Fault{Body: []byte("<html>")}, fails, false},
		{"HTML", kubetest.Fault{ContentType: "text/html"}, fails, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newServer(t)
			log, text := logger()
			source := newSource(t, cluster.Config{URL: server.Start(t), Logger: log, Timeout: timeoutFor(tt.fault)})
			before := &kube.Snapshot{}
			if tt.want != without { // what is there does not disappear at once
				before = read(t, source)
			}
			server.SetFault(kubetest.Discovery, tt.fault)
			for range 2 {
				snap, err := source.Read(t.Context(), kube.ReadOptions{})
				if tt.want == fails {
					re, ok := errors.AsType[*kube.ReadError](err)
					if snap != nil || !ok || re.Verb != "get" || re.Resource != "/apis/zalando.org/v1" {
						t.Fatalf("read gives %v, %v, want an error that names the request", snap, err)
					}
					continue
				}
				if err != nil || (snap.RouteGroups != nil) != (tt.want == with) {
					t.Fatalf("read gives %v, %v", snap, err)
				}
			}
			if n := strings.Count(text.String(), "CRD is not installed"); (n == 1) != tt.warns || n > 1 {
				t.Errorf("%d warnings:\n%s", n, text)
			}
			server.SetFault(kubetest.Discovery, kubetest.Fault{})
			if after := read(t, source); tt.want != without && !before.SameObjects(after) || len(after.RouteGroups) == 0 {
				t.Error("afterwards the objects are others")
			}
		})
	}
}

func TestTheMissingCRDIsReportedOnceUntilItWasSeen(t *testing.T) {
	server := newServer(t)
	server.Delete(kube.Ref{Kind: kube.KindRouteGroup, Namespace: "n1", Name: "r"}) // so that nothing disappears
	log, text := logger()
	source := newSource(t, cluster.Config{URL: server.Start(t), Logger: log})
	missing := kubetest.Fault{Status: http.StatusNotFound}
	for i, f := range []kubetest.Fault{missing, missing, {}, missing, missing} {
		server.SetFault(kubetest.Discovery, f)
		read(t, source)
		if want := []int{1, 1, 1, 2, 2}[i]; strings.Count(text.String(), "level=WARN") != want {
			t.Errorf("after read %d: want %d warnings in\n%s", i+1, want, text)
		}
	}
	if !strings.Contains(text.String(), fmt.Sprintf("%q", logNoCRD)) {
		t.Errorf("the message is not %q:\n%s", logNoCRD, text)
	}
}
