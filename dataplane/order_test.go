package dataplane_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestOlderTableIsTakenOnlyIfTheServerInsists(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	newer, older, oldest := newTable(t, 10, "a", "b"), newTable(t, 9, "a", "b"), newTable(t, 8, "a", "b")
	s := w.servers[0]
	s.set(newer)
	mustPoll(t, c)

	s.set(older)
	mustPoll(t, c)
	holds(t, c, newer)
	s.set(newer) // the older table was an accident
	mustPoll(t, c)
	s.set(older)
	mustPoll(t, c)
	holds(t, c, newer)
	s.status(http.StatusInternalServerError) // does not count
	failPoll(t, c, dataplane.ReasonStatus)
	s.set(older)
	mustPoll(t, c)
	holds(t, c, newer)
	fileHolds(t, fileOf(w.cfg), newer)
	if got := w.metric("dataplane_older_tables_accepted_total"); got != 0 {
		t.Fatalf("%v older tables accepted", got)
	}
	if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(newer, "+zstd"); got != want {
		t.Errorf("the request names %s, want %s", got, want)
	}

	s.set(oldest) // the second in a row, even though it is another one
	mustPoll(t, c)
	holds(t, c, oldest)
	fileHolds(t, fileOf(w.cfg), oldest)
	if got := w.metric("dataplane_older_tables_accepted_total"); got != 1 {
		t.Errorf("%v older tables accepted, want 1", got)
	}
	if got := w.metric("dataplane_fetches_total", "result", "older"); got != 3 {
		t.Errorf("%v fetches gave an older table, want 3", got)
	}
}

// One replica of several behind an address lags. The client never goes back because of it, however often it asks, because the
// answers of the others in between show that it is wrong.
func TestOneReplicaThatLagsSendsNobodyBack(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	for revision := uint64(10); revision < 20; revision++ {
		newest := newTable(t, revision, "a", "b")
		w.servers[0].set(newest)
		mustPoll(t, c)
		holds(t, c, newest)
		w.servers[0].set(newTable(t, revision-5, "a", "b"))
		mustPoll(t, c)
		holds(t, c, newest)
	}
	if got := w.metric("dataplane_older_tables_accepted_total"); got != 0 {
		t.Errorf("%v older tables accepted", got)
	}
}

// A server that was believed once about going back has to insist on each further step back.
func TestEachStepBackHasToBeInsistedOn(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	before := newTable(t, 10, "a", "b")
	w.servers[0].set(before)
	mustPoll(t, c)
	for _, revision := range []uint64{9, 8, 7} {
		older := newTable(t, revision, "a", "b")
		w.servers[0].set(older)
		mustPoll(t, c)
		holds(t, c, before)
		mustPoll(t, c)
		holds(t, c, older)
		before = older
	}
	if got := w.metric("dataplane_older_tables_accepted_total"); got != 3 {
		t.Errorf("%v older tables accepted, want 3", got)
	}
}

func TestOlderTableOfAnotherServerDoesNotCount(t *testing.T) {
	w := newWorld(t, 2)
	c := w.client()
	newer, older := newTable(t, 10, "a", "b"), newTable(t, 9, "a", "b")
	w.servers[0].set(newer)
	mustPoll(t, c)
	w.servers[0].set(older)
	w.servers[1].set(older)
	mustPoll(t, c)
	w.servers[0].status(http.StatusBadGateway)
	mustPoll(t, c) // the other server, for the first time
	holds(t, c, newer)
	mustPoll(t, c)
	holds(t, c, older)
}

func TestTablesWithoutRevisionAreTaken(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	for _, tab := range []*table.Table{newTable(t, 10, "a"), newTable(t, 0, "a"), newTable(t, 5, "a")} {
		w.servers[0].set(tab)
		mustPoll(t, c)
		holds(t, c, tab)
	}
}

// TestNameOfA304IsTakenOver: a table that returns is as new as the server says.
func TestNameOfA304IsTakenOver(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	tab := newTable(t, 10, "a", "b")
	s := w.servers[0]
	s.set(tab)
	mustPoll(t, c)
	again := tab.WithRevision(12)
	s.fail(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Etag", etagOf(again, "+zstd"))
		rw.WriteHeader(http.StatusNotModified)
	})
	mustPoll(t, c)
	if got := c.Current().Revision(); got != 12 {
		t.Errorf("the table has the revision %d, want 12", got)
	}
	s.set(newTable(t, 11, "a", "b")) // a server that lags
	mustPoll(t, c)
	holds(t, c, tab)
	if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(again, "+zstd"); got != want {
		t.Errorf("the request names %s, want %s", got, want)
	}
	restarted := w.client()
	if got := restarted.Boot(); got.Revision() != 12 {
		t.Errorf("after a restart the table has the revision %d, want 12", got.Revision())
	}
}

// TestEqualTableUnderALowerNameKeepsItsRevision: an answer with another name must not make the table older.
func TestEqualTableUnderALowerNameKeepsItsRevision(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	tab := newTable(t, 10, "a", "b")
	s := w.servers[0]
	s.set(tab)
	mustPoll(t, c)
	s.fail(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		serveTable(rw, r, tab.WithRevision(8), "gzip")
	})
	mustPoll(t, c)
	if len(w.published) != 1 || c.Current().Revision() != 10 {
		t.Errorf("%d tables published, revision %d", len(w.published), c.Current().Revision())
	}
	s.set(tab)
	mustPoll(t, c)
	named := s.last(t).Header.Get("If-None-Match")
	if want := etagOf(tab.WithRevision(8), "+gzip") + ", " + etagOf(tab, "+zstd"); named != want {
		t.Errorf("the request names %s, want %s", named, want)
	}
	mustPoll(t, c)
	if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(tab, "+zstd"); got != want {
		t.Errorf("the request after the 304 names %s, want %s", got, want)
	}
}

// TestHeldTableIsNamedAndReleased covers a hold: the table is not applied, not written, not downloaded again, and released by
// time.
func TestHeldTableIsNamedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.cfg.Guard.Hold = time.Minute
		c := w.client()
		full, lost := newTable(t, 10, "a", "b", "c", "d"), newTable(t, 11, "a")
		s := w.servers[0]
		s.set(full)
		stop := w.run(c)
		time.Sleep(time.Second)
		s.set(lost)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		holds(t, c, full)
		fileHolds(t, fileOf(w.cfg), full)
		if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(full, "+zstd")+", "+etagOf(lost, "+zstd"); got != want {
			t.Errorf("the request names %s, want %s", got, want)
		}
		status := c.Status()
		if h := status.Held; h == nil || h.Digest != lost.Digest() || h.Reason != guard.RoutesLost || w.metric("dataplane_fetches_total", "result", "held") < 9 {
			t.Errorf("held is %+v", h)
		}
		if got := w.metric("dataplane_received_bytes_total"); got > 1000 {
			t.Errorf("%v bytes received: the held table was downloaded again", got)
		}
		if got := w.metric("dataplane_guard_held"); got != 1 {
			t.Errorf("the metric says that %v is held", got)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		stop()
		holds(t, c, lost)
		fileHolds(t, fileOf(w.cfg), lost)
		if got, want := s.last(t).Header.Get("If-None-Match"), etagOf(lost, "+zstd"); got != want {
			t.Errorf("the request names %s, want %s", got, want)
		}
		if a, b := w.log.count(publish.LogTableHeld), w.log.count(publish.LogTableReleased); a != 1 || b != 1 {
			t.Errorf("said %d times that a table is held, %d times that it is released", a, b)
		}
		if c.Status().Held != nil || w.metric("dataplane_guard_held") != 0 || w.metric("dataplane_guard_holds_total", "reason", "routes_lost") != 1 {
			t.Errorf("held after the release: %+v", c.Status().Held)
		}
	})
}

func TestHoldEndsWhenTheServerShowsTheAppliedTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		c := w.client()
		full, lost := newTable(t, 10, "a", "b", "c", "d"), newTable(t, 11, "a")
		s := w.servers[0]
		s.set(full)
		stop := w.run(c)
		time.Sleep(time.Second)
		s.set(lost)
		time.Sleep(50 * time.Second)
		s.set(full.WithRevision(12))
		time.Sleep(5 * time.Second)
		s.set(lost.WithRevision(13)) // the clock starts again
		time.Sleep(50 * time.Second)
		synctest.Wait()
		stop()
		holds(t, c, full)
		if n := w.log.count(publish.LogHoldEnded); n != 1 {
			t.Errorf("said %d times that the hold ended", n)
		}
	})
}

func TestAccept(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	full, empty := newTable(t, 10, "a", "b"), newTable(t, 11)
	w.servers[0].set(full)
	mustPoll(t, c)
	if _, err := c.Accept(publish.Acceptance{Digest: heldBy(c)}); !errors.Is(err, publish.ErrNothingHeld) {
		t.Errorf("error %v", err)
	}
	w.servers[0].set(empty)
	mustPoll(t, c)
	holds(t, c, full)
	if _, err := c.Accept(publish.Acceptance{Digest: full.Digest()}); !errors.Is(err, publish.ErrNotHeld) {
		t.Errorf("error %v", err)
	}
	if _, err := c.Accept(publish.Acceptance{Digest: empty.Digest()}); err != nil {
		t.Fatal(err)
	}
	holds(t, c, empty)
	mustPoll(t, c)
	fileHolds(t, fileOf(w.cfg), empty)
	if got, want := w.servers[0].last(t).Header.Get("If-None-Match"), etagOf(empty, "+zstd"); got != want {
		t.Errorf("the request names %s, want %s", got, want)
	}
	if len(w.published) != 2 || c.Status().Held != nil {
		t.Errorf("%d tables published, held %+v", len(w.published), c.Status().Held)
	}
}

// TestAcceptDuringAnExchange: the answer refers to the state before the acceptance, and is ignored.
func TestAcceptDuringAnExchange(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	full, lost := newTable(t, 10, "a", "b", "c", "d"), newTable(t, 11, "a")
	s := w.servers[0]
	s.set(full)
	mustPoll(t, c)
	s.set(lost)
	mustPoll(t, c)
	s.fail(func(rw http.ResponseWriter, r *http.Request) {
		if _, err := c.Accept(publish.Acceptance{Digest: lost.Digest()}); err != nil {
			t.Error(err)
		}
		serveTable(rw, r, full, "")
	})
	mustPoll(t, c)
	holds(t, c, lost)
	if got := w.metric("dataplane_fetches_total", "result", "overtaken"); got != 1 {
		t.Errorf("%v exchanges overtaken, want 1", got)
	}
	s.set(lost)
	mustPoll(t, c)
	holds(t, c, lost)
}

// TestOlderTableThatIsHeld: a server that was believed once about going back does not have to insist again while the hold lasts.
func TestOlderTableThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.cfg.Guard.Hold = time.Minute
		c := w.client()
		s := w.servers[0]
		s.set(newTable(t, 100, "a", "b", "c", "d"))
		stop := w.run(c)
		defer stop()
		time.Sleep(time.Second)
		var last *table.Table
		for revision := range 25 { // every poll returns another table of a restored cluster
			last = newTable(t, uint64(revision+1), "a")
			s.set(last)
			time.Sleep(3 * time.Second)
		}
		synctest.Wait()
		holds(t, c, last)
	})
}

func TestA304WithoutETagMeansTheOnlyOneThatWasNamed(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	full, lost := newTable(t, 10, "a", "b", "c", "d"), newTable(t, 11, "a")
	s := w.servers[0]
	s.set(full)
	mustPoll(t, c)
	bare := func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("If-None-Match"), full.Digest().String()) {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		serveTable(rw, r, full, "")
	}
	s.fail(bare)
	mustPoll(t, c)
	s.set(lost)
	mustPoll(t, c)
	if c.Status().Held == nil {
		t.Fatal("nothing is held")
	}
	s.fail(bare)
	failPoll(t, c, dataplane.ReasonProtocol)
	if c.Status().Held == nil {
		t.Error("the hold ended by an answer that says nothing")
	}
	mustPoll(t, c) // names no table
	if c.Status().Held != nil {
		t.Error("the hold did not end")
	}
	holds(t, c, full)
}
