package server

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

type emptyCluster struct{}

func (emptyCluster) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	return &kube.Snapshot{}, nil
}

// TestReplicasAreAskedForSuspectsNowAndThen: one client that suspects a table, for as long as it likes, makes its replica ask the others a few
// times a minute; another one makes it ask at once.
func TestReplicasAreAskedForSuspectsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s, err := New(Config{Source: emptyCluster{}, PeerClients: func(context.Context) []fleet.Answer { asked.Add(1); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		report := func(pod string, bad byte) {
			t.Helper()
			identity := fleet.Identity{Kind: fleet.Sidecar, ID: "team/" + pod, Pod: true, Interval: 3 * time.Second}.String()
			suspect := fleet.Suspect{Digest: table.Digest{bad}, Proven: table.Digest{9}, Deaths: 2, Evidence: "it died"}
			if !s.clients.Reported(identity, netip.MustParseAddr("10.0.0.1"), &fleet.Report{Rejected: "suspect", Suspects: []fleet.Suspect{suspect}}) {
				t.Fatal("the report was not taken")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.reviews.suspects.run(ctx)
		time.Sleep(time.Minute + lookAtSuspects/2) // not when it looks
		if n := asked.Load(); n != 0 {
			t.Errorf("asked %d times although nobody suspects a table", n)
		}
		for range 20 {
			report("p1", 1)
			time.Sleep(3 * time.Second)
		}
		before := asked.Load()
		if before < 5 || before > 7 {
			t.Errorf("asked %d times in a minute, want about 6", before)
		}
		report("p2", 2)
		time.Sleep(lookAtSuspects)
		if n := asked.Load() - before; n != 1 {
			t.Errorf("asked %d times after another client has reported, want 1", n)
		}
	})
}
