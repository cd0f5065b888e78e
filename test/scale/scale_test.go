package scale_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/source/manifests"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/scale"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSameFactorGivesTheSameCluster(t *testing.T) {
	a, b := scale.Snapshot(0.01), scale.Snapshot(0.01)
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	if len(a.Ingresses) != 150 || len(a.RouteGroups) != 50 || len(a.Services) != 200 || len(a.EndpointSlices) != 200 {
		t.Errorf("%d ingresses, %d route groups, %d services, %d slices", len(a.Ingresses), len(a.RouteGroups), len(a.Services), len(a.EndpointSlices))
	}
}

// Factor 1 has 124,495 routes of 46.0 MB.
func TestCompilesToTheSizeItPromises(t *testing.T) {
	c, err := compile.New(rules.Options{HTTPSRedirect: true, Healthcheck: true, EndpointSlices: true})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Compile(scale.Snapshot(0.1))
	bytes := 0
	for route := range r.Routes.All() {
		bytes += len(route.Text) + 1
	}
	if n := r.Routes.Len(); n < 12000 || n > 13000 || bytes/n < 360 || bytes/n > 380 {
		t.Errorf("%d routes of %d bytes, want about 12,400 of 370", n, bytes/n)
	}
	if len(r.Problems) != 0 {
		t.Errorf("%d problems, the first is %v", len(r.Problems), r.Problems[0])
	}
}

func TestEveryWayToReadItGivesTheSame(t *testing.T) {
	c := scale.New(0.01)
	want := c.Snapshot()
	source, err := cluster.New(cluster.Config{URL: kubetest.Serve(t, c.Handler()), EndpointSlices: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("API: -want +got\n%s", d)
	}

	dir := t.TempDir()
	if err := c.WriteManifests(dir); err != nil {
		t.Fatal(err)
	}
	files, err := manifests.New(manifests.Config{Paths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err = files.Read(t.Context(), kube.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	byRef := cmp.Transformer("byRef", func(in []*kube.Ingress) map[kube.Ref]*kube.Ingress {
		out := make(map[kube.Ref]*kube.Ingress)
		for _, i := range in {
			out[i.Ref()] = i
		}
		return out
	})
	if d := cmp.Diff(want.Ingresses, got.Ingresses, byRef); d != "" || len(got.Services) != len(want.Services) || len(got.Bad) != 0 {
		t.Errorf("manifests: -want +got\n%s\nbad %v", d, got.Bad)
	}
}

func TestAMutationChangesOneIngress(t *testing.T) {
	c := scale.New(0.01)
	h := c.Handler()
	source, err := cluster.New(cluster.Config{URL: kubetest.Serve(t, h), EndpointSlices: true})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *kube.Snapshot {
		t.Helper()
		s, err := source.Read(t.Context(), kube.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := read()
	revision := h.Mutate(7)
	after := read()
	if after.Revision != revision || revision <= before.Revision {
		t.Errorf("revision %d after %d, want %d", after.Revision, before.Revision, revision)
	}
	mutated := c.Mutated(before, 7, 1)
	changed := 0
	for i := range after.Ingresses {
		if (after.Ingresses[i] != before.Ingresses[i]) != (mutated.Ingresses[i] != before.Ingresses[i]) {
			t.Errorf("%v is another one in one of the two only", after.Ingresses[i].Ref())
		}
		if after.Ingresses[i] != before.Ingresses[i] {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d Ingresses are changed, want 1", changed)
	}
	if d := cmp.Diff(mutated.Ingresses, after.Ingresses); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	h.Touch()
	if touched := read(); !after.SameObjects(touched) || touched.Revision != revision+1 {
		t.Error("a new revision alone changes objects")
	}
}
