package watch_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// polled is what a source that polls reads.
func polled(t *testing.T, cfg cluster.Config) *kube.Snapshot {
	t.Helper()
	source, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
