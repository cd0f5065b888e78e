package source_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/source/cluster"
)

// TestASourceThatDroppedItsObjectsReadsThemAgain: it reads them again, and still detects that the cluster was
// restored in the meantime.
func TestASourceThatDroppedItsObjectsReadsThemAgain(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		server := newServer(t)
		server.SetEncodings(true, compressed)
		m := cluster.NewMetrics(nil)
		source := newSource(t, cluster.Config{URL: server.Start(t), Metrics: m})
		before := read(t, source)
		source.Drop()
		again := read(t, source)
		if diff := cmp.Diff(before, again); diff != "" {
			t.Errorf("-before +after\n%s", diff)
		}
		if len(before.Ingresses) == 0 || before.Ingresses[0] == again.Ingresses[0] {
			t.Error("the objects are the previous ones: nothing was dropped")
		}
		source.Drop()
		server.SetRevision(50)
		if s := read(t, source); s.Newest != 50 || testutil.ToFloat64(m.Restores) != 1 {
			t.Errorf("revision %d, %v restores, want 50 and 1", s.Newest, testutil.ToFloat64(m.Restores))
		}
	}
}
