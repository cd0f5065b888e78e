package publish_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tableOf has n routes.
func tableOf(t *testing.T, n int, revision uint64) *table.Table {
	t.Helper()
	var routes []table.Route
	for i := range n {
		id := fmt.Sprintf("r%03d", i)
		routes = append(routes, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> "http://10.0.0.1";`})
	}
	tab, err := table.New(routes, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func offered(t *table.Table) publish.Candidate {
	return publish.Candidate{Table: t, Read: table.Read{Newest: t.Revision(), Oldest: t.Revision(), At: time.Now()}}
}

// told records what a Publisher reports.
type told struct {
	tables    []*table.Table
	decisions []api.Decision
}

func newPublisher(t *testing.T, limits guard.Config) (*publish.Publisher, *told) {
	t.Helper()
	var to told
	g, err := publish.New(publish.Config{
		Sink: publish.Each(func(t *table.Table) { to.tables = append(to.tables, t) }), Guard: limits,
		Decided: func(d api.Decision) { to.decisions = append(to.decisions, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, &to
}

func (to *told) what() (all []string) {
	for _, d := range to.decisions {
		all = append(all, fmt.Sprint(d.What, " ", d.Reason, " ", d.By, " ", d.Why))
	}
	return all
}

// A replica that starts without a table compares its first table with the table of a peer.
func TestFirstTableIsJudgedBesideThatOfAPeer(t *testing.T) {
	peer, lost := tableOf(t, 100, 10), tableOf(t, 10, 11)
	g, to := newPublisher(t, guard.Config{})
	g.CompareWith(peer)
	if o := g.Begin().Offer(offered(lost)); o.Result != publish.Held || o.Now != nil || len(to.tables) != 0 {
		t.Fatalf("outcome %+v, served %v: want a hold and nothing served", o, to.tables)
	}
	beside, held, state := g.Comparison()
	if beside != peer || held != lost || !state.Held || state.Reason != guard.RoutesLost {
		t.Errorf("%v is held beside %v, %+v", held, beside, state)
	}
	select {
	case <-g.Ready():
		t.Error("the Publisher is ready, and has nothing")
	default:
	}
	if _, err := g.Accept(publish.Acceptance{Digest: lost.Digest(), By: "ada", Why: "a new cluster"}); err != nil {
		t.Fatal(err)
	}
	<-g.Ready()
	if g.Table() != lost || len(to.tables) != 1 {
		t.Errorf("served %v", to.tables)
	}
	want := []string{"held routes_lost  ", "accepted routes_lost ada a new cluster"}
	if got := to.what(); !slices.Equal(got, want) {
		t.Errorf("decisions %q, want %q", got, want)
	}
	g.CompareWith(peer) // too late: the served table counts
	if o := g.Begin().Offer(offered(tableOf(t, 11, 12))); o.Result != publish.Published {
		t.Errorf("outcome %+v", o)
	}
}

func TestFirstTableThatIsLikeThatOfAPeerIsServed(t *testing.T) {
	g, _ := newPublisher(t, guard.Config{})
	g.CompareWith(tableOf(t, 100, 10))
	if o := g.Begin().Offer(offered(tableOf(t, 90, 11))); o.Result != publish.Published || o.Before != nil {
		t.Errorf("outcome %+v", o)
	}
}

// A release by time is recorded as well.
func TestDecisionsOfAHoldThatTimeReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, to := newPublisher(t, guard.Config{Hold: time.Minute})
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		lost := offered(tableOf(t, 10, 2))
		g.Begin().Offer(lost)
		g.Begin().Offer(lost)
		time.Sleep(time.Minute)
		if o := g.Begin().Offer(lost); o.Result != publish.Published {
			t.Errorf("outcome %+v", o)
		}
		if got, want := to.what(), []string{"held routes_lost  ", "released routes_lost  "}; !slices.Equal(got, want) {
			t.Errorf("decisions %q, want %q", got, want)
		}
		for _, d := range to.decisions {
			if d.Digest != lost.Table.Digest() || d.Time.IsZero() {
				t.Errorf("decision %+v", d)
			}
		}
	})
}

// An offer that a producer computed before an acceptance must not undo the acceptance.
func TestAnOfferThatAnAcceptanceOvertakesChangesNothing(t *testing.T) {
	g, _ := newPublisher(t, guard.Config{})
	g.Begin().Offer(offered(tableOf(t, 100, 1)))
	lost := tableOf(t, 10, 2)
	g.Begin().Offer(offered(lost))
	seen := g.Tables()
	if seen.Held == nil || seen.Held.Table != lost {
		t.Fatalf("view %+v", seen)
	}
	if _, err := g.Accept(publish.Acceptance{Digest: lost.Digest()}); err != nil {
		t.Fatal(err)
	}
	if o := g.Begin().OfferSeen(seen, offered(tableOf(t, 100, 1))); o.Result != publish.Overtaken || g.Table() != lost {
		t.Errorf("outcome %+v, served %v", o, g.Table())
	}
}

// broken panics when it compiles, or is asked about an object.
type broken struct{}

func (broken) CompileBeside(*kube.Snapshot) table.List { panic("index out of range") }
func (broken) RoutesOf(kube.Object) []*table.Route     { panic("index out of range") }
func (broken) ServicesOf(kube.Object) []kube.ServiceKey {
	panic("index out of range")
}
func (broken) OwnersOf([]string) map[string]kube.Ref              { panic("index out of range") }
func (broken) LostServices(_, _ *kube.Backends) []kube.ServiceKey { panic("index out of range") }
func (broken) Forget()                                            {}
func (broken) Signature(kube.Object) string                       { panic("index out of range") }

// TestHoldThatBeginsWithAPanicIsOne: the builder panics when objects are to be kept. Then the whole table is held. It is shown and recorded,
// and can be accepted.
func TestHoldThatBeginsWithAPanicIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to told
		g, err := publish.New(publish.Config{
			Sink: publish.Each(func(t *table.Table) { to.tables = append(to.tables, t) }), Builder: broken{},
			Decided: func(d api.Decision) { to.decisions = append(to.decisions, d) },
		})
		if err != nil {
			t.Fatal(err)
		}
		offer := func(n int, revision uint64) (tab *table.Table, panicked any) {
			defer func() { panicked = recover() }()
			c := offered(tableOf(t, n, revision))
			c.Snapshot = &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{{}}}}
			tab = c.Table
			g.Begin().Offer(c)
			return tab, nil
		}
		first, _ := offer(10, 1)
		held, panicked := offer(3, 2)
		if panicked != nil || g.Table() != first {
			t.Fatalf("panic %v, served %v: want the first table", panicked, g.Table())
		}
		if s := g.Holding(); !s.Held || s.Digest != held.Digest() || g.Held() == nil {
			t.Errorf("state %+v, want the whole table held", s)
		}
		if _, err := g.Accept(publish.Acceptance{Digest: held.Digest(), By: "anna"}); err != nil || g.Table() != held {
			t.Errorf("acceptance: %v, served %v", err, g.Table())
		}
		if want := []string{"held routes_lost  ", "accepted routes_lost anna "}; !slices.Equal(to.what(), want) {
			t.Errorf("decisions %q, want %q", to.what(), want)
		}
	})
}
