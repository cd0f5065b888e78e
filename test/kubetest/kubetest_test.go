package kubetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

const cluster = `
apiVersion: v1
kind: Service
metadata:
  name: b
  labels: {app: x, tier: "y"}
spec: {ports: [{port: 80}]}
---
kind: List
items:
- kind: Service
  metadata: {name: a, namespace: other}
- kind: Ingress
  metadata: {name: i, annotations: {num: 301, yes: "on"}}
---
kind: LimitRange
metadata: {name: never served}
---
---
kind: Service
metadata: {name: behind the empty document}
`

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// list returns the body of a list.
func list(kind, apiVersion, revision, items string) string {
	return `{"kind":"` + kind + `List","apiVersion":"` + apiVersion + `","metadata":{"resourceVersion":"` + revision + `"},"items":[` + items + `]}`
}

func TestServesWhatTheConformanceCasesExpect(t *testing.T) {
	s, err := kubetest.New([]byte(cluster), kubetest.API{
		FailOn: []string{"/api/v1/secrets"}, FindNot: []string{"/api/v1/endpoints"},
	})
	if err != nil {
		t.Fatal(err)
	}
	url := s.Start(t)
	const (
		a = `{"kind":"Service","metadata":{"name":"a","namespace":"other"}}`
		b = `{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"app":"x","tier":"y"},"name":"b"},"spec":{"ports":[{"port":80}]}}`
		i = `{"kind":"Ingress","metadata":{"annotations":{"num":301,"true":"on"},"name":"i"}}`
	)
	for _, tt := range []struct {
		path   string
		status int
		body   string
	}{
		{"/api/v1/services", 200, list("Service", "v1", "1", b+","+a)},
		{"/api/v1/namespaces/default/services", 200, list("Service", "v1", "1", b)},
		{"/api/v1/namespaces/other/ingresses", 200, list("Ingress", "networking.k8s.io/v1", "1", "")},
		{"/api/v1/namespaces/unknown/services", 200, list("Service", "v1", "1", "")},
		{"/api/v1/namespaces/other/services/a", 200, a},
		{"/api/v1/namespaces/default/services/a", 404, "*"},
		{"/apis/networking.k8s.io/v1/ingresses", 200, list("Ingress", "networking.k8s.io/v1", "1", i)},
		{"/api/v1/services?labelSelector=app%3Dx%2Ctier%3Dy", 200, list("Service", "v1", "1", b)},
		{"/api/v1/services?labelSelector=tier", 200, list("Service", "v1", "1", b)},
		{"/api/v1/services?labelSelector=app%3Dz", 200, list("Service", "v1", "1", "")},
		{"/apis/zalando.org/v1", 200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"zalando.org/v1","resources":[` +
			`{"name":"routegroups","singularName":"routegroup","namespaced":true,"kind":"RouteGroup","verbs":["list","watch"]}]}`},
		{"/apis/zalando.org/v1/routegroups", 200, list("RouteGroup", "zalando.org/v1", "1", "")},
		{"/api/v1/secrets", 500, "*"},
		{"/api/v1/endpoints", 404, "*"},
		{"/api/v1/limitranges", 404, "*"},
	} {
		status, body := get(t, url+tt.path)
		if status != tt.status || tt.body != "*" && body != tt.body {
			t.Errorf("%s: %d %s\nwant %d %s", tt.path, status, body, tt.status, tt.body)
		}
	}
	resp, err := http.Post(url+"/api/v1/services", "", nil)
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v, want 405", resp, err)
	}
	resp.Body.Close()
}

func TestDiscoveryListsNoRouteGroupsWhenDisabled(t *testing.T) {
	api, err := kubetest.ParseAPIFile([]byte("disableRouteGroups: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := kubetest.New(nil, api)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, s.Start(t)+kubetest.Discovery); body !=
		`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"zalando.org/v1","resources":[]}` {
		t.Errorf("discovery says %s", body)
	}
}

func TestParsesAPIFiles(t *testing.T) {
	got, err := kubetest.ParseAPIFile([]byte("failOn:\n- /a\n- /b\nfindNot: [/c]\n"))
	want := kubetest.API{FailOn: []string{"/a", "/b"}, FindNot: []string{"/c"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err := kubetest.ParseAPIFile([]byte("failOn: [")); err == nil {
		t.Error("a syntax error passes")
	}
}

func TestRefusesObjectsThatCannotBeFiled(t *testing.T) {
	for _, in := range []string{"metadata: {name: x}", "kind: Service", "kind: Service\nmetadata: x", "a: [", "- a"} {
		if _, err := kubetest.New([]byte(in), kubetest.API{}); err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}

func TestChangesRaiseTheRevisionOfLists(t *testing.T) {
	s, err := kubetest.New([]byte(cluster), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	url := s.Start(t)
	s.SetRevision(10)
	s.Delete(kube.Ref{Kind: kube.KindService, Name: "b"})
	s.Delete(kube.Ref{Kind: kube.KindService, Namespace: "other", Name: "a"})
	if _, body := get(t, url+"/api/v1/namespaces/unknown/services"); body != list("Service", "v1", "12", "") {
		t.Errorf("got %s", body)
	}
	if _, body := get(t, url+"/apis/networking.k8s.io/v1/ingresses?limit=1"); !strings.Contains(body, `"metadata":{"resourceVersion":"12"}`) {
		t.Errorf("a page that is the whole list: %s", body)
	}
	if err := s.Apply("kind: Ingress\nmetadata: {name: j}"); err != nil {
		t.Fatal(err)
	}
	s.SetRevision(12)
	if _, body := get(t, url+"/apis/networking.k8s.io/v1/ingresses?limit=1"); strings.Count(body, `"kind":"Ingress"`) != 1 ||
		!strings.Contains(body, `"metadata":{"resourceVersion":"12","continue":"more"}`) {
		t.Errorf("the first page: %s", body)
	}
	const notOlder = "/api/v1/services?resourceVersionMatch=NotOlderThan&resourceVersion="
	if status, _ := get(t, url+notOlder+"12"); status != 200 {
		t.Errorf("the present revision: status %d", status)
	}
	if status, body := get(t, url+notOlder+"13"); status != 504 || !strings.Contains(body, "ResourceVersionTooLarge") {
		t.Errorf("a future revision: %d %s", status, body)
	}
}

func TestAKindWithoutADefinitionIsNowhere(t *testing.T) {
	s, err := kubetest.New(nil, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	url := s.Start(t)
	for _, defined := range []bool{true, false, true} {
		s.SetDefined(defined)
		want := 404
		if defined {
			want = 200
		}
		for _, path := range []string{kubetest.Discovery, "/apis/zalando.org/v1/routegroups", "/apis/zalando.org/v1/namespaces/n/routegroups"} {
			if status, body := get(t, url+path); status != want {
				t.Errorf("defined %v: %s: %d %s", defined, path, status, body)
			}
		}
		status, body := get(t, url+kubetest.Groups)
		if status != 200 || strings.Contains(body, "zalando.org/v1") != defined || !strings.Contains(body, "networking.k8s.io/v1") {
			t.Errorf("defined %v: groups: %d %s", defined, status, body)
		}
	}
}
