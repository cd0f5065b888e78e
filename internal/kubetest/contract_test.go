package kubetest_test

import (
	"net/http"
	"testing"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
)

// The fake satisfies the contract that it serves to test.
func TestServerIsASource(t *testing.T) {
	kubetest.TestSource(t, func(t *testing.T, objects string) kubetest.World {
		s, err := kubetest.New([]byte(objects), kubetest.API{})
		if err != nil {
			t.Fatal(err)
		}
		return s.World(t, s, "/api/v1/services")
	})
}

func TestRevisionRisesWithEachWrite(t *testing.T) {
	s, err := kubetest.New([]byte(cluster), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(7)
	s.Delete(kube.Ref{Kind: kube.KindService, Name: "b"})
	snap, err := s.Read(t.Context(), kube.ReadOptions{})
	if err != nil || snap.Revision != 8 || len(snap.Services) != 1 {
		t.Errorf("got %+v, %v, want revision 8 and one service", snap, err)
	}
	s.SetFault("/api/v1/services", kubetest.Fault{Status: http.StatusInternalServerError, Times: 1})
	if _, err := s.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Error("a fault does not fail the read")
	}
}
