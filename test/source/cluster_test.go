package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSource(t *testing.T, cfg cluster.Config) *cluster.Source {
	t.Helper()
	s, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, s *cluster.Source) *kube.Snapshot {
	t.Helper()
	snap, err := s.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return snap
}

func TestKeepsTheContractOfSources(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			testSource(t, func(t *testing.T, objects string) world {
				server, err := kubetest.New([]byte(objects), kubetest.API{})
				if err != nil {
					t.Fatal(err)
				}
				server.SetRevision(1)
				server.SetEncodings(e.Protobuf, e.GZip)
				source := newSource(t, cluster.Config{URL: server.Start(t), EndpointSlices: true})
				return worldOf(t, server, source, "/api/v1/services")
			})
		})
	}
}

func TestReadsTheSameInEveryEncoding(t *testing.T) {
	for _, e := range encodings {
		for _, slices := range []bool{false, true} {
			t.Run(fmt.Sprint(e.Name, " slices ", slices), func(t *testing.T) {
				server := newServer(t)
				server.SetEncodings(e.Protobuf, e.GZip)
				got := read(t, newSource(t, cluster.Config{URL: server.Start(t), EndpointSlices: slices}))
				all, err := server.Read(t.Context(), kube.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want := *all
				if slices {
					want.Endpoints = nil
				} else {
					want.EndpointSlices = nil
				}
				if d := cmp.Diff(&want, got, errorTexts); d != "" {
					t.Errorf("-want +got\n%s", d)
				}
			})
		}
	}
}

func TestRequestsOnePerKindInOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  cluster.Config
		want []string
	}{
		{"everything", cluster.Config{}, []string{
			"/apis/networking.k8s.io/v1/ingresses",
			"/apis/zalando.org/v1",
			"/apis/zalando.org/v1/routegroups",
			"/api/v1/services",
			"/api/v1/endpoints",
		}},
		{"a namespace, slices", cluster.Config{Selection: kube.Selection{Namespace: "n1"}, EndpointSlices: true}, []string{
			"/apis/networking.k8s.io/v1/namespaces/n1/ingresses",
			"/apis/zalando.org/v1",
			"/apis/zalando.org/v1/namespaces/n1/routegroups",
			"/api/v1/namespaces/n1/services",
			"/apis/discovery.k8s.io/v1/namespaces/n1/endpointslices",
		}},
		{"selectors", cluster.Config{Selection: kube.Selection{Selectors: map[kube.Kind]map[string]string{
			kube.KindIngress: {"skipper-enabled": "true"}, kube.KindService: {"b": "", "a": "x"}, kube.KindEndpoints: {},
		}}}, []string{
			"/apis/networking.k8s.io/v1/ingresses?labelSelector=skipper-enabled%3Dtrue",
			"/apis/zalando.org/v1",
			"/apis/zalando.org/v1/routegroups",
			"/api/v1/services?labelSelector=a%3Dx%2Cb",
			"/api/v1/endpoints",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newServer(t)
			tt.cfg.URL = server.Start(t)
			read(t, newSource(t, tt.cfg))
			var got []string
			for _, r := range server.Requests() {
				got = append(got, r.String())
				wantAccept := "application/vnd.kubernetes.protobuf,application/json"
				if strings.HasPrefix(r.Path, "/apis/zalando.org") {
					wantAccept = "application/json"
				}
				if r.Accept != wantAccept || r.AcceptEncoding != "gzip" || r.UserAgent != "routesrv" {
					t.Errorf("%s: Accept %q, Accept-Encoding %q, User-Agent %q", r, r.Accept, r.AcceptEncoding, r.UserAgent)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestSelectorsAndNamespaceRestrictWhatIsRead(t *testing.T) {
	server := newServer(t)
	url := server.Start(t)
	got := read(t, newSource(t, cluster.Config{
		URL: url, Selection: kube.Selection{Selectors: map[kube.Kind]map[string]string{kube.KindIngress: {"keep": "", "team": "x"}}},
	}))
	if len(got.Ingresses) != 1 || got.Ingresses[0].Name != "a" {
		t.Errorf("selected %v, want a", got.Ingresses)
	}
	got = read(t, newSource(t, cluster.Config{URL: url, Selection: kube.Selection{Namespace: "n2"}}))
	if len(got.Ingresses) != 1 || got.Ingresses[0].Name != "b" || got.Services != nil {
		t.Errorf("in n2 %v and %v, want b alone", got.Ingresses, got.Services)
	}
}

func TestChangeOfWhatNobodyReadsKeepsTheObject(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	before := read(t, source)
	if err := server.Apply(`
kind: Service
metadata: {name: s, namespace: n1, resourceVersion: "777", annotations: {new: x}}
spec: {type: ClusterIP, ports: [{name: http, port: 80, targetPort: 8080}, {name: x, port: 81, targetPort: web}]}
status: {loadBalancer: {}}
`); err != nil {
		t.Fatal(err)
	}
	if after := read(t, source); after.Services[0] != before.Services[0] || after.Revision == before.Revision {
		t.Error("the service is another one although nothing that is read of it changed")
	}
}

func TestObjectsKeepTheirPointersWhereverTheyMove(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	seen := map[string]*kube.Ingress{}
	for _, step := range []func(){
		func() {},
		func() { _ = server.Apply("kind: Ingress\nmetadata: {name: c, namespace: n1}") },
		func() { server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n1", Name: "a"}) },
		func() {
			server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n2", Name: "b"})
			_ = server.Apply("kind: Ingress\nmetadata: {name: d, namespace: n1}\n---\nkind: Ingress\nmetadata: {name: b, namespace: n2, labels: {team: z}}\nspec: {}")
		},
	} {
		step()
		for _, i := range read(t, source).Ingresses {
			if old := seen[i.Name]; old != nil && old != i && i.Name != "b" {
				t.Errorf("%s has a new pointer", i.Name)
			}
			seen[i.Name] = i
		}
	}
	if len(seen) != 4 {
		t.Errorf("saw %d ingresses, want 4", len(seen))
	}
}

func TestReadsAgainWhenTheContextOfTheWaitingEnds(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	server.SetFault("/api/v1/services", kubetest.Fault{Hang: true, Times: 1})
	if _, err := source.Read(canceledWhenAsked(t, server, "/api/v1/services"), kube.ReadOptions{}); err == nil {
		t.Fatal("a read that was given up has a result")
	}
	read(t, source)
}
