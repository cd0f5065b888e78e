package poller_test

import (
	"testing"
	"testing/synctest"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// reads records what a sink is told.
type reads struct {
	*fixture
	seen []table.Read
}

func (r *reads) Begin() func(*table.Table, table.Read) {
	end := r.fixture.Begin()
	return func(t *table.Table, read table.Read) {
		r.seen = append(r.seen, read)
		end(t, read)
	}
}

// While objects are kept, the newest table changes with each endpoint, and an acceptance means the last of them.
func TestAnAcceptanceOfAHoldGivesTheNewestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, service, ingress("a"), ingress("b"), ingress("c"))
		told := &reads{fixture: f}
		var err error
		if f.publisher, err = publish.New(publish.Config{Sink: told, Builder: f.compiler}); err != nil {
			t.Fatal(err)
		}
		if f.poller, err = poller.New(poller.Config{Source: f, Compile: f.compiler.Compile, Publisher: f.publisher}); err != nil {
			t.Fatal(err)
		}
		defer f.run()()
		for _, name := range []string{"b", "c"} {
			f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name})
		}
		f.poll()
		for _, ip := range []string{"10.2.0.20", "10.2.0.21", "10.2.0.22"} {
			f.apply(endpointsOf(ip))
			f.poll()
		}
		seen := told.seen
		if s := f.publisher.Holding(); !s.Held || len(seen) != 5 || len(f.published) != 4 {
			t.Fatalf("%d reads, %d tables, %+v", len(seen), len(f.published), s)
		}
		got, err := f.poller.Accept(publish.Acceptance{Digest: f.publisher.Holding().Digest})
		if err != nil || !got.Equal(seen[4].Candidate) {
			t.Errorf("an acceptance of the kept objects gives %v, error %v; want the newest", got, err)
		}
	})
}

// endpointsOf gives the service "s" one endpoint.
func endpointsOf(ip string) string {
	return `
apiVersion: v1
kind: Endpoints
metadata: {name: s, namespace: shop}
subsets: [{addresses: [{ip: ` + ip + `}], ports: [{port: 8080, protocol: TCP}]}]
---`
}
