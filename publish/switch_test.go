package publish_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// screen is a sink that records what it serves.
type screen struct {
	table    *table.Table
	read     table.Read
	restored bool
	top      uint64
}

func (s *screen) serve(t *table.Table) {
	if t != nil {
		s.table, s.top = t, max(s.top, t.Revision())
	}
}

func (s *screen) Restore(t *table.Table, _ time.Time) { s.serve(t); s.restored = true }
func (s *screen) Publish(t *table.Table)              { s.serve(t) }
func (s *screen) Begin() func(*table.Table, table.Read) {
	return func(t *table.Table, r table.Read) { s.serve(t); s.read = r }
}

func newSwitch(t *testing.T, cfg publish.SwitchConfig) (*publish.Switch, *screen) {
	t.Helper()
	var sink screen
	cfg.Sink, cfg.Top = &sink, func() uint64 { return sink.top }
	s, err := publish.NewSwitch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, &sink
}

// offerOf is a complete read that shows n routes.
func offerOf(t *testing.T, n int, revision uint64) publish.Offer {
	t.Helper()
	return publish.Offer{
		Table: tableOf(t, n, revision), Read: table.Read{Newest: revision, Oldest: revision - 5, Consistent: true, At: time.Now()},
	}
}

// Clients take a table with a lower revision than theirs for the table of a lagging replica, so they would stay with the previous
// producer.
func TestAMoveServesNothingBelowTheRevisionOfTheProducerBefore(t *testing.T) {
	s, sink := newSwitch(t, publish.SwitchConfig{})
	serves := func(what string, n int, revision, newest, oldest uint64) {
		t.Helper()
		if sink.table.Len() != n || sink.table.Revision() != revision || sink.read.Newest != newest || sink.read.Oldest != oldest {
			t.Errorf("%s: served are %d routes of revision %d, read %d to %d; want %d routes of %d, read %d to %d", what,
				sink.table.Len(), sink.table.Revision(), sink.read.Oldest, sink.read.Newest, n, revision, oldest, newest)
		}
	}
	if s.From() != "" || s.Table() != nil {
		t.Errorf("%s is served before the first table", s.From())
	}
	if !s.Take("a", offerOf(t, 10, 100)) {
		t.Fatal("the first table is not taken")
	}
	serves("the first producer", 10, 100, 100, 95)
	if !s.Take("b", offerOf(t, 9, 90)) || s.From() != "b" || s.Table().Len() != 9 || s.Table().Revision() != 90 {
		t.Fatalf("%s is served", s.From())
	}
	serves("the move", 9, 100, 100, 100)
	show := func(o publish.Offer) { s.Show(sink.Begin(), o.Table, o.Read) }
	show(offerOf(t, 8, 95))
	serves("still behind", 8, 100, 100, 100)
	s.Show(sink.Begin(), nil, table.Read{Newest: 96, Oldest: 96})
	serves("a table is held", 8, 100, 100, 100)
	s.Publish(tableOf(t, 7, 97))
	serves("an acceptance", 7, 100, 100, 100)
	show(offerOf(t, 8, 100))
	serves("there", 8, 100, 100, 95)
	show(offerOf(t, 9, 105))
	serves("past it", 9, 105, 105, 100)
	show(offerOf(t, 8, 101))
	serves("its source has gone back", 8, 101, 101, 96)
	s.Publish(tableOf(t, 7, 102))
	serves("an acceptance later", 7, 102, 101, 96)
}

// When the source of a producer goes back, as after a restore of the cluster, the lower revision is intended.
func TestAProducerThatGoesBackIsBelieved(t *testing.T) {
	s, sink := newSwitch(t, publish.SwitchConfig{})
	s.Take("a", offerOf(t, 10, 100))
	s.Take("b", offerOf(t, 9, 90))
	for _, revision := range []uint64{80, 81} {
		o := offerOf(t, 8, revision)
		s.Show(sink.Begin(), o.Table, o.Read)
		if sink.read.Newest != revision {
			t.Errorf("the read is of %d, want %d", sink.read.Newest, revision)
		}
	}
	if sink.table.Revision() != 81 {
		t.Errorf("served is revision %d, want 81", sink.table.Revision())
	}
}

func TestAMoveWaitsForATableThatMayOnlyBeBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 10 * time.Second
		s, _ := newSwitch(t, publish.SwitchConfig{Lag: lag})
		s.Restore("file", offerOf(t, 10, 100))
		if s.Pending() != nil {
			t.Error("a move is in progress")
		}
		began := time.Now()
		for time.Since(began) < lag {
			if s.Take("b", offerOf(t, 9, 99)) {
				t.Fatalf("moved after %v", time.Since(began))
			}
			p := s.Pending()
			if p == nil || !p.Since.Equal(began) || p.Table.Len() != 9 || !strings.Contains(p.Waiting, "revision 99 may only lag") {
				t.Fatalf("pending is %+v", p)
			}
			time.Sleep(time.Second)
		}
		if !s.Take("b", offerOf(t, 9, 99)) || s.From() != "b" || s.Pending() != nil {
			t.Errorf("not moved after %v", lag)
		}
		if !s.Take("c", offerOf(t, 9, 98)) || !s.Take("d", offerOf(t, 10, 98)) {
			t.Error("waited for the same table, or for one of the same revision")
		}
		s.Take("e", offerOf(t, 9, 50))
		time.Sleep(lag)
		s.Abandon()
		if s.Pending() != nil || s.Take("e", offerOf(t, 9, 50)) {
			t.Error("the time before somebody changed their mind counts")
		}
	})
}

func TestAMoveToASuspiciousTableIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to told
		s, sink := newSwitch(t, publish.SwitchConfig{
			Guard: guard.Config{Hold: time.Minute}, Decided: func(d api.Decision) { to.decisions = append(to.decisions, d) },
		})
		s.Take("a", offerOf(t, 10, 100))
		few := offerOf(t, 2, 101)
		if _, err := s.Accept(publish.Acceptance{Digest: few.Table.Digest()}, "b", few.Read); err == nil {
			t.Error("accepted although nothing is held")
		}
		for range 60 {
			if s.Take("b", few) {
				t.Fatal("moved")
			}
			time.Sleep(time.Second)
		}
		if p := s.Pending(); p == nil || !p.Guard.Held || !strings.Contains(p.Waiting, "8 of 10 pairs of host and path are missing") || sink.table.Len() != 10 {
			t.Errorf("pending is %+v, served are %d routes", p, sink.table.Len())
		}
		if !s.Take("b", few) || sink.table.Len() != 2 {
			t.Error("time did not release the move")
		}

		fewer := offerOf(t, 1, 102)
		s.Take("c", fewer)
		s.Take("c", fewer)
		s.Abandon()
		none := offerOf(t, 0, 103)
		s.Take("c", none)
		if _, err := s.Accept(publish.Acceptance{Digest: fewer.Table.Digest()}, "c", none.Read); err == nil || s.Pending() == nil {
			t.Errorf("another table was accepted: %v", err)
		}
		got, err := s.Accept(publish.Acceptance{Digest: none.Table.Digest(), By: "ann", Why: "closed"}, "c", none.Read)
		if err != nil || got != none.Table || s.From() != "c" || sink.table.Len() != 0 || s.Pending() != nil {
			t.Errorf("the acceptance gave %v, served are %d routes", err, sink.table.Len())
		}
		want := []string{"held routes_lost  ", "released routes_lost  ", "held empty  ", "accepted empty ann closed"}
		if got := to.what(); !slices.Equal(got, want) {
			t.Errorf("decided was\n%q, want\n%q", got, want)
		}
	})
}

func TestFilesOfASwitchHaveWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "later")
		path := filepath.Join(folder, "routes")
		s, sink := newSwitch(t, publish.SwitchConfig{File: publish.FileConfig{Name: "routes", Path: path, Plain: true}})
		has := func(what string, want *table.Table) {
			t.Helper()
			s.Flush()
			synctest.Wait()
			if got, err := os.ReadFile(path); err != nil || string(got) != string(want.Text())+"\n" {
				t.Errorf("%s: the file has (%v)\n%s", what, err, got)
			}
		}
		s.Tend() // nothing is served
		o := offerOf(t, 3, 100)
		s.Restore("file", o)
		s.Flush()
		if f := s.File(); f.Error == "" || f.Path != path {
			t.Fatalf("the file is %+v, want an error", f)
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s.Tend()
		has("tried again", o.Table)
		if f := s.File(); f.Error != "" || f.Written.IsZero() {
			t.Errorf("after a write: %+v", f)
		}
		next := offerOf(t, 2, 101)
		s.Take("a", next)
		has("a move", next.Table)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		s.Show(sink.Begin(), next.Table, next.Read)
		s.Flush()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the same table was written again: %v", err)
		}
		accepted := tableOf(t, 1, 102)
		s.Publish(accepted)
		has("an acceptance", accepted)
	})
}

func TestASwitchRefusesLimitsThatMakeNoSense(t *testing.T) {
	if _, err := publish.NewSwitch(publish.SwitchConfig{Guard: guard.Config{MaxLoss: 2}}); err == nil {
		t.Error("a share of 2 passes")
	}
}

// A read with the same content under a higher revision adds nothing to a file of routes.
func TestFilesAreNotWrittenAgainForTheSameContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.eskip")
	s, sink := newSwitch(t, publish.SwitchConfig{File: publish.FileConfig{Name: "routes", Path: path, Plain: true}})
	o := offerOf(t, 10, 100)
	s.Take("a", o)
	s.Flush()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.Show(sink.Begin(), o.Table.WithRevision(101), table.Read{Newest: 101})
	s.Flush()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file was written again (%v)", err)
	}
	if sink.table.Revision() != 101 {
		t.Errorf("revision %d is served, want 101", sink.table.Revision())
	}
}

// The numbers in the reason of a hold change with each read, the decision does not.
func TestAMoveThatIsHeldIsOneDecision(t *testing.T) {
	var decisions []api.Decision
	s, _ := newSwitch(t, publish.SwitchConfig{Decided: func(d api.Decision) { decisions = append(decisions, d) }})
	s.Take("a", offerOf(t, 100, 100))
	for n := range 5 {
		if s.Take("b", offerOf(t, 10+n, 101)) {
			t.Fatal("a suspicious table is taken")
		}
	}
	if len(decisions) != 1 || decisions[0].What != api.DecidedHeld || decisions[0].Reason != guard.RoutesLost {
		t.Errorf("decisions %+v, want one that the table is held", decisions)
	}
}
