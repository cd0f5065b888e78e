package server

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
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
		report := func(pod string, bad byte, ago time.Duration) {
			t.Helper()
			identity := fleet.Identity{Kind: fleet.Sidecar, ID: "team/" + pod, Pod: true, Interval: 3 * time.Second}.String()
			suspect := fleet.Suspect{Digest: table.Digest{bad}, Proven: table.Digest{9}, Deaths: 2, Evidence: "it died", Ago: ago.Seconds()}
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
			report("p1", 1, 0)
			time.Sleep(3 * time.Second)
		}
		before := asked.Load()
		if before < 5 || before > 7 {
			t.Errorf("asked %d times in a minute, want about 6", before)
		}
		report("p2", 2, time.Hour) // not of the same flaw
		time.Sleep(lookAtSuspects)
		if n := asked.Load() - before; n != 1 {
			t.Errorf("asked %d times after another client has reported, want 1", n)
		}
	})
}

func tableOf(t *testing.T, text string) *table.Table {
	t.Helper()
	routes, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	made, err := table.New(routes, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestOnlyWhatSuspectTablesHaveInCommonIsKept: two proxies died of different tables. What one of these has alone is innocent, and so is what a later
// suspect brings beside a text that is kept already.
func TestOnlyWhatSuspectTablesHaveInCommonIsKept(t *testing.T) {
	s, err := New(Config{Source: emptyCluster{}})
	if err != nil {
		t.Fatal(err)
	}
	p := s.reviews.suspects
	suspect := func(proven, bad *table.Table) fleet.SuspectTable {
		return fleet.SuspectTable{Digest: bad.Digest(), Proven: []table.Digest{proven.Digest()}, Clients: 1, Confirmed: true}
	}
	good := tableOf(t, `a: Path("/a") -> <shunt>`)
	first := tableOf(t, `a: Path("/a") -> <shunt>; b: Path("/b") -> setPath("/fatal") -> <shunt>`)
	second := tableOf(t, `a: Path("/a") -> <shunt>; b: Path("/b") -> setPath("/fatal") -> <shunt>; c: Path("/c") -> setPath("/c") -> <shunt>`)
	third := tableOf(t, `b: Path("/b") -> setPath("/fatal") -> <shunt>; d: Path("/d") -> setPath("/d") -> <shunt>`)
	for i, one := range []*table.Table{good, first, second, third} {
		p.recent = append(p.recent, &publish.Served{Candidate: publish.Candidate{Table: one}, Committed: time.Unix(int64(i), 0)})
	}
	p.actOn([]fleet.SuspectTable{suspect(good, second), suspect(good, first)})
	p.actOn([]fleet.SuspectTable{suspect(good, third)})
	all := tableOf(t, `a: Path("/x") -> <shunt>; b: Path("/b") -> setPath("/fatal") -> <shunt>; c: Path("/c") -> setPath("/c") -> <shunt>; d: Path("/d") -> setPath("/d") -> <shunt>`)
	kept := slices.Sorted(maps.Keys(s.reviews.trial.Review(good, all)))
	if !slices.Equal(kept, []string{"b"}) {
		t.Errorf("objections to %q, want b alone", kept)
	}
}
