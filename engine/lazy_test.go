package engine_test

import (
	"testing"
	"testing/synctest"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/engine"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// reads keeps what an observer is told.
type reads []table.Read

func (r *reads) PollStarted() uint64                 { return 0 }
func (r *reads) PollEnded(_ uint64, seen table.Read) { *r = append(*r, seen) }

// While an intent is held its tables change with each endpoint. Nobody takes their digests but who asks for them, and all of
// them name what is held.
func TestTablesOfAHoldAreHashedForWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, compile.Options{}, service, ingress("a"), ingress("b"), ingress("c"))
		var seen reads
		var err error
		publish := func(t *table.Table) { f.published = append(f.published, t) }
		f.engine, err = engine.New(engine.Config{Source: f, Publish: publish, PublishHeld: publish, Observer: &seen})
		if err != nil {
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
		if s := f.engine.Guard(); !s.Held || s.Half != guard.HeldIntent || len(seen) != 5 || len(f.published) != 4 {
			t.Fatalf("%d reads, %d tables, %+v", len(seen), len(f.published), s)
		}
		for i, want := range []bool{true, false, false, true} { // the first is in the log, the last was asked for
			if got := seen[i+1].Candidate.Hashed(); got != want {
				t.Errorf("table %d of the hold: hashed %v, want %v", i, got, want)
			}
		}
		got, err := f.engine.Accept(seen[2].Candidate.WithRevision(0).Digest())
		if err != nil || !got.Equal(seen[4].Candidate) {
			t.Errorf("an acceptance that names a table of before gives %v, error %v; want the newest", got, err)
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
