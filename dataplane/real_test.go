package dataplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// replica is a real route server with a fake source.
type replica struct {
	*etagcache.Cache
	recheck chan struct{} // of capacity 1
}

// realStage makes a stage whose servers are real.
func realStage(t *testing.T, n int, follow dataplane.UpdateMode) (*stage, []*replica) {
	t.Helper()
	s := newStage(t, n)
	s.cfg.UpdateMode = follow
	replicas := make([]*replica, n)
	for i := range replicas {
		replicas[i] = newReplica(t)
		s.network.Set(string(rune('a'+i)), replicas[i].Handler())
	}
	return s, replicas
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	r := &replica{recheck: make(chan struct{}, 1)}
	var err error
	r.Cache, err = etagcache.New(etagcache.Config{MaxStreams: 10, Recheck: func() {
		select {
		case r.recheck <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStreamOfARealServer covers everything that a stream can bring.
func TestStreamOfARealServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replicas := realStage(t, 1, dataplane.Stream)
		s.cfg.Guard.Hold = time.Minute
		first := newTable(t, 10, "a", "b", "c", "d")
		reads(replicas[0].Cache, first)
		c := s.client()
		stop := s.run(c)
		defer stop()
		synctest.Wait()
		holds(t, c, first)
		var doc strings.Builder
		for i := range 500 {
			fmt.Fprintf(&doc, "r%d: Path(\"/%x\") -> <shunt>;\n", i, i*7919)
		}
		reads(replicas[0].Cache, parseTable(t, doc.String(), 10))
		after(time.Minute + 15*time.Second) // a hold
		for i := range uint64(10) {
			next := parseTable(t, doc.String()+fmt.Sprintf("x%d: * -> <shunt>;", i), 11+i)
			reads(replicas[0].Cache, next)
			after(time.Second)
			holds(t, c, next)
			if got := c.Status().Applied; got.Revision != 11+i || time.Since(got.SourceRead) != time.Second {
				t.Errorf("applied is %+v", got)
			}
		}
		if got := s.metric("dataplane_deltas_total", "result", "applied"); got != 10 {
			t.Errorf("%v deltas, want 10", got)
		}

		odd := parseTable(t, doc.String()+"a: Path(\"/\xff\") -> <shunt>;", 30) // no event can carry it
		reads(replicas[0].Cache, odd)
		after(2 * time.Second)
		holds(t, c, odd)
		if got := s.metric("dataplane_deltas_total", "result", "full"); got != 3 {
			t.Errorf("%v tables fetched, want the first one and those to which no delta leads: 3", got)
		}
		lost := newTable(t, 31, "z")
		reads(replicas[0].Cache, lost)
		after(59 * time.Second)
		holds(t, c, odd)
		after(20 * time.Second)
		holds(t, c, lost)
		after(10 * time.Minute)
		if got := c.Status(); got.Applied.Confirmed.Before(time.Now().Add(-15*time.Second)) || got.Failures != 0 {
			t.Errorf("status is %+v", got)
		}
		for _, reason := range []string{"rejected", "lost", "silent", "broken"} {
			if s.ended(reason) != 0 {
				t.Errorf("a stream was %s", reason)
			}
		}
	})
}

// TestDrainedServerIsLeft: the client moves to the other server, and polls of the drained one still work.
func TestDrainedServerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replicas := realStage(t, 2, dataplane.Auto)
		first, second := newTable(t, 10, "a", "b"), newTable(t, 11, "a", "b")
		reads(replicas[0].Cache, first)
		reads(replicas[1].Cache, first)
		c := s.client()
		stop := s.run(c)
		defer stop()
		synctest.Wait()
		replicas[0].DrainStreams(10 * time.Second)
		after(12 * time.Second)
		if s.ended("reconnect") != 1 {
			t.Error("the client was not sent away")
		}
		s.network.Set("a", nil)
		reads(replicas[1].Cache, second)
		after(time.Minute)
		holds(t, c, second)
		if got := c.Status().Stream; got.URL != "http://b/routes" || got.Connected.IsZero() {
			t.Errorf("stream is %+v", got)
		}
	})
}

// TestTooManyStreamsArePolled: a client without room for its stream polls, and gets a stream when there is room.
func TestTooManyStreamsArePolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replicas := realStage(t, 1, dataplane.Auto)
		reads(replicas[0].Cache, newTable(t, 10, "a"))
		var stops []func()
		var clients []*dataplane.Client
		for range 11 {
			s.cfg.StateDir = ""
			clients = append(clients, s.client())
			stops = append(stops, s.world.run(clients[len(clients)-1]))
			synctest.Wait()
		}
		last := clients[10]
		if got := last.Status(); got.Transport != "poll" {
			t.Errorf("status is %+v", got)
		}
		next := newTable(t, 11, "a")
		reads(replicas[0].Cache, next)
		after(4 * time.Second)
		for _, c := range clients {
			holds(t, c, next)
		}
		stops[0]()
		after(time.Minute)
		if got := last.Status(); got.Transport != "stream" {
			t.Errorf("status is %+v", got)
		}
		for _, stop := range stops[1:] {
			stop()
		}
		s.network.Wait()
	})
}

// realFleet is a changing cluster, two replicas that read it through caches that lag, and a client that follows them.
type realFleet struct {
	t        *testing.T
	s        *stage
	replicas []*replica
	c        *dataplane.Client
	stop     func()
	trace    []string
	states   []*table.Table // of the cluster, the newest last
	seen     [2]int         // index of what a replica has read last
	restored bool           // the cluster was restored, and the client has not followed yet

	mu   sync.Mutex // the client calls concurrently
	last *table.Table
	bad  string
}

func newFleet(t *testing.T, follow dataplane.UpdateMode) *realFleet {
	f := &realFleet{t: t}
	f.s, f.replicas = realStage(t, 2, follow)
	f.s.cfg.Guard.MaxLoss = 1 // this test is about order only
	f.s.publish = func(tab *table.Table, _ api.Applied) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.last != nil && tab.Revision() < f.last.Revision() && !f.restored {
			f.bad = fmt.Sprintf("went from %d to %d", f.last.Revision(), tab.Revision())
		}
		f.last, f.restored = tab, f.restored && (f.last == nil || tab.Revision() >= f.last.Revision())
	}
	f.change(100)
	f.read(0, 0, true)
	f.read(1, 0, true)
	f.start()
	return f
}

func (f *realFleet) start() {
	f.c = f.s.client()
	f.c.Boot()
	f.stop = f.s.run(f.c)
}

func (f *realFleet) change(revision uint64) {
	ids := []string{"a", "b", fmt.Sprint("r", len(f.states)%7)}
	f.states = append(f.states, newTable(f.t, revision, ids...))
}

// read makes a replica read the cluster as it was lag changes ago, but never older than what it has already read.
func (f *realFleet) read(i, lag int, consistent bool) {
	at := max(len(f.states)-1-lag, f.seen[i])
	if consistent {
		at = len(f.states) - 1
	}
	f.seen[i] = at
	tab := f.states[at]
	oldest := tab.Revision()
	if !consistent && at > 0 && f.states[at-1].Revision() < oldest {
		oldest = f.states[at-1].Revision() // one of its lists was older
	}
	f.replicas[i].Begin()(tab, table.Read{Oldest: oldest, Newest: tab.Revision(), Consistent: consistent, At: time.Now()})
}

func (f *realFleet) step(op, arg byte) {
	i := int(arg & 1)
	host := string(rune('a' + i))
	switch op % 8 {
	case 0, 1:
		f.note("the cluster changes")
		f.change(f.states[len(f.states)-1].Revision() + 1 + uint64(arg%3))
	case 2, 3:
		f.note("replica %d reads, lag %d", i, arg>>1%3)
		f.read(i, int(arg>>1%3), false)
	case 4:
		f.note("%d s pass", arg)
		for range arg {
			time.Sleep(time.Second)
			f.rechecks()
		}
	case 5:
		f.note("replica %d is away", i)
		f.s.network.Set(host, nil)
		f.s.network.Set(string(rune('a'+1-i)), f.replicas[1-i].Handler())
	case 6:
		f.note("replica %d restarts", i)
		f.replicas[i].DrainStreams(0)
		f.replicas[i] = newReplica(f.t)
		f.s.network.Set(host, f.replicas[i].Handler())
		f.read(i, int(arg>>1%3), false)
	case 7:
		switch arg >> 1 % 3 {
		case 0:
			f.note("the client restarts")
			f.stop()
			f.start()
		case 1:
			f.note("recheck")
			f.c.Recheck()
		case 2:
			f.note("the cluster is restored")
			f.mu.Lock()
			f.restored = true
			f.mu.Unlock()
			f.change(f.states[len(f.states)-1].Revision() / 2)
			f.read(0, 0, true)
			f.read(1, 0, true)
			for range 60 {
				time.Sleep(time.Second)
				f.rechecks()
				f.read(0, 0, false)
				f.read(1, 0, false)
			}
		}
	}
	synctest.Wait()
	f.mu.Lock()
	bad := f.bad
	f.mu.Unlock()
	if bad != "" {
		f.t.Fatalf("%s after\n%s", bad, strings.Join(f.trace, "\n"))
	}
}

func (f *realFleet) note(format string, args ...any) {
	f.trace = append(f.trace, fmt.Sprintf(format, args...))
}

// rechecks reads past all caches where a recheck was requested.
func (f *realFleet) rechecks() {
	for i, r := range f.replicas {
		select {
		case <-r.recheck:
			f.read(i, 0, true)
		default:
		}
	}
}

func runFleet(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		follow := dataplane.Auto
		if len(script) > 0 {
			follow = []dataplane.UpdateMode{dataplane.Auto, dataplane.Stream, dataplane.Poll}[script[0]%3]
		}
		f := newFleet(t, follow)
		defer func() { f.stop() }()
		for i := 1; i+1 < len(script) && i < 200; i += 2 {
			f.step(script[i], script[i+1])
		}
		f.s.network.Set("a", f.replicas[0].Handler())
		f.s.network.Set("b", f.replicas[1].Handler())
		f.change(f.states[len(f.states)-1].Revision() + 1)
		for range 12 * 60 {
			time.Sleep(time.Second)
			f.rechecks()
			f.read(0, 0, false)
			f.read(1, 0, false)
		}
		synctest.Wait()
		if want := f.states[len(f.states)-1]; f.c.Current().Digest() != want.Digest() {
			t.Fatalf("the client has\n%s\nwant\n%s\nstatus %+v\nafter\n%s", f.c.Current().Text(), want.Text(), f.c.Status(), strings.Join(f.trace, "\n"))
		}
		if got := f.c.Status(); follow != dataplane.Poll && (got.Transport != "stream" || got.Stream.URL != "http://a/routes") {
			t.Fatalf("the client follows %+v, transport %s\nafter\n%s", got.Stream, got.Transport, strings.Join(f.trace, "\n"))
		}
	})
}

// TestStreamsNeverGoBack runs the model with random scripts.
func TestStreamsNeverGoBack(t *testing.T) {
	randomScripts(t, 20, 120, 3, runFleet)
}

// FuzzFleet runs the model with any script.
func FuzzFleet(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 0, 4, 5, 5, 0, 2, 1, 4, 20})
	f.Add([]byte{1, 0, 0, 2, 0, 6, 0, 4, 20, 7, 4, 4, 20})
	f.Add([]byte{2, 0, 0, 2, 0, 7, 4, 4, 5, 7, 0})
	f.Fuzz(func(t *testing.T, script []byte) { runFleet(t, script) })
}

// TestAsk: the server in use says whether it would send its table to a client that holds another one.
func TestAsk(t *testing.T) {
	s, replicas := realStage(t, 1, dataplane.Poll)
	c := s.client()
	if _, err := c.Ask(t.Context(), table.Digest{1}, 5); err == nil {
		t.Error("a server without a table has an opinion")
	}
	cur := newTable(t, 10, "a")
	reads(replicas[0].Cache, cur)
	for _, step := range []struct {
		name     string
		digest   table.Digest
		revision uint64
		want     dataplane.Opinion
	}{
		{"older", table.Digest{1}, 5, dataplane.Opinion{Digest: cur.Digest(), Revision: 10}},
		{"newer", table.Digest{2}, 11, dataplane.Opinion{Keep: true}},
		{"the same", cur.Digest(), 10, dataplane.Opinion{Keep: true}},
	} {
		if got, err := c.Ask(t.Context(), step.digest, step.revision); err != nil || got != step.want {
			t.Errorf("%s: %+v, %v, want %+v", step.name, got, err, step.want)
		}
	}
	if c.Current() != nil || c.Status().LastAttempt != (time.Time{}) {
		t.Error("asking has changed something")
	}
}

// TestTablesOfAStreamHaveTheirOwnTimes: each table of a stream has its own time, so a server that serves it onwards shows
// that it changed.
func TestTablesOfAStreamHaveTheirOwnTimes(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		last := c.Current().Time()
		for i := range uint64(5) {
			time.Sleep(2 * time.Second)
			s.origins[0].change(func() { s.origins[0].readAt = time.Now() })
			synctest.Wait()
			s.origins[0].set(newTable(t, i+2, "a"))
			synctest.Wait()
			at := c.Current().Time()
			if at.After(time.Now()) || !at.Truncate(time.Second).After(last.Truncate(time.Second)) {
				t.Errorf("table %d is of %v, after one of %v", i+2, at, last)
			}
			last = at
		}
	})
}
