package dataplane_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// play runs a client of a stage in a bubble.
func play(t *testing.T, servers int, prepare func(*stage), f func(*testing.T, *stage, *dataplane.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, servers)
		if prepare != nil {
			prepare(s)
		}
		c := s.client()
		stop := s.run(c)
		defer stop()
		synctest.Wait()
		f(t, s, c)
	})
}

// after lets time pass in a bubble.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// paths returns the paths of the requests of an origin, without probes.
func paths(o *origin) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, r := range o.requests {
		if r.Method == http.MethodGet {
			out = append(out, r.URL.Path)
		}
	}
	return out
}

const (
	routes = "/routes"
	watch  = "/routes/watch"
)

func tablesAt1(t *testing.T) func(*stage) {
	return func(s *stage) {
		for _, o := range s.origins {
			o.set(newTable(t, 1, "a", "b"))
		}
	}
}

func TestStreamBringsChangesAtOnce(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		for i := range uint64(5) {
			next := newTable(t, i+2, "a", "b", "c")
			o.set(next)
			synctest.Wait()
			holds(t, c, next)
			after(7 * time.Second)
		}
		after(30 * time.Second) // the time between two writes
		fileHolds(t, fileOf(s.cfg), c.Current())
		if got, want := paths(o), []string{routes, watch}; !slices.Equal(got, want) {
			t.Errorf("requests %v, want %v", got, want)
		}
		if got := s.metric("dataplane_deltas_total", "result", "applied"); got != 5 {
			t.Errorf("%v deltas, want 5", got)
		}
		r := o.asked(watch)[0]
		want := http.Header{
			"Accept": {"text/event-stream"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"routesrv-dataplane"},
			"Last-Event-Id": {etagOf(newTable(t, 1, "a", "b"), "")},
			"If-None-Match": {etagOf(newTable(t, 1, "a", "b"), "+zstd") + ", " + etagOf(newTable(t, 1, "a", "b"), "+gzip")},
		}
		for name, values := range want {
			if got := r.Header[name]; !slices.Equal(got, values) {
				t.Errorf("%s: %v, want %v", name, got, values)
			}
		}
	})
}

// TestStreamAloneBringsTheFirstTable: with the update mode stream only the first table is requested, because the stream says so.
func TestStreamAloneBringsTheFirstTable(t *testing.T) {
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		s.cfg.UpdateMode = dataplane.Stream
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		holds(t, c, newTable(t, 1, "a", "b"))
		after(time.Minute)
		if got, want := paths(s.origins[0]), []string{watch, routes}; !slices.Equal(got, want) {
			t.Errorf("requests %v, want %v", got, want)
		}
		if got := s.origins[0].asked(watch)[0].Header.Get("Last-Event-ID"); got != "" {
			t.Errorf("the client names %s and has nothing", got)
		}
		if got := s.metric("dataplane_deltas_total", "result", "full"); got != 1 {
			t.Errorf("%v first tables, want 1", got)
		}
	})
}

// TestCurrentIsWhatA304Is: the event refreshes everything that is known about the applied table.
func TestCurrentIsWhatA304Is(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		connected := time.Now()
		after(20 * time.Second)
		got := c.Status()
		if a := got.Applied; !a.SourceRead.Equal(connected.Add(15*time.Second)) || !a.Confirmed.Equal(a.SourceRead) || a.ServerState != "" || a.Stale {
			t.Errorf("applied is %+v", a)
		}
		if got.Transport != "stream" || got.Stream == nil || !got.Stream.Connected.Equal(connected) || got.Stream.LastEvent.IsZero() ||
			!got.Stream.LastEvent.Equal(connected.Add(15*time.Second)) || got.Stream.URL != "http://a/routes" {
			t.Errorf("status is %+v, stream %+v", got, got.Stream)
		}
		if !got.LastSuccess.Equal(connected.Add(15*time.Second)) || got.Failures != 0 {
			t.Errorf("status is %+v", got)
		}
		if n := len(s.confirmed); n != 2 { // at once, and after 15 s
			t.Errorf("%d confirmations, want 2", n)
		}
		old := time.Now().Add(-time.Hour)
		o.change(func() { o.state, o.readAt = "held", old })
		synctest.Wait()
		if a := c.Status().Applied; !a.SourceRead.Equal(old) || a.ServerState != "held" {
			t.Errorf("applied is %+v", a)
		}
		o.change(func() { o.readAt = time.Now().Add(time.Hour) }) // a fast clock must not hide anything
		synctest.Wait()
		if a := c.Status().Applied; a.SourceRead.After(time.Now()) {
			t.Errorf("applied is %+v", a)
		}
		raised := newTable(t, 1, "a", "b").WithRevision(9)
		o.change(func() { o.history[0] = raised; o.history = o.history[:1] })
		after(time.Second) // the stream asks for a fetch
		if got := c.Current().Revision(); got != 9 {
			t.Errorf("revision %d, want that of the id, 9", got)
		}
		if got := s.metric("dataplane_transport", "transport", "stream"); got != 1 {
			t.Errorf("transport stream is %v", got)
		}
	})
}

// TestNewTableDoesNotClaimToBeFresh: a delta does not say when the source was read, "current" does.
func TestNewTableDoesNotClaimToBeFresh(t *testing.T) {
	var old time.Time
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		old = time.Now().Add(-time.Hour)
		s.origins[0].readAt = old
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		s.origins[0].set(newTable(t, 2, "a", "b"))
		synctest.Wait()
		if len(s.infos) != 2 || len(s.confirmed) != 2 {
			t.Fatalf("%d tables and %d confirmations", len(s.infos), len(s.confirmed))
		}
		for _, info := range append(slices.Clone(s.infos[1:]), s.confirmed...) {
			if !info.SourceRead.Equal(old) {
				t.Errorf("the source was read at %v, not at %v", old, info.SourceRead)
			}
		}
	})
}

// TestHeldTableIsReleasedOverAStream: each "current" has the held table judged again.
func TestHeldTableIsReleasedOverAStream(t *testing.T) {
	prepare := func(s *stage) {
		s.cfg.Guard.Hold = time.Minute
		s.origins[0].set(newTable(t, 10, "a", "b", "c", "d"))
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		lost := newTable(t, 11, "a")
		s.origins[0].set(lost)
		after(59 * time.Second)
		holds(t, c, newTable(t, 10, "a", "b", "c", "d"))
		if h := c.Status().Held; h == nil || h.Digest != lost.Digest() || h.Reason != guard.RoutesLost || s.metric("dataplane_fetches_total", "result", "held") < 5 {
			t.Errorf("held is %+v", h)
		}
		after(2 * time.Second)
		holds(t, c, lost)
		less := newTable(t, 12, "a", "b") // goes on from there
		s.origins[0].set(less)
		synctest.Wait()
		holds(t, c, less)
		if got := len(s.origins[0].asked(watch)); got != 1 {
			t.Errorf("%d streams, want 1", got)
		}
	})
}

func TestHoldEndsIfTheStreamGoesBack(t *testing.T) {
	first := newTable(t, 10, "a", "b", "c", "d")
	play(t, 1, func(s *stage) { s.origins[0].set(first) }, func(t *testing.T, s *stage, c *dataplane.Client) {
		s.origins[0].set(newTable(t, 11, "a"))
		after(time.Second)
		s.origins[0].set(first.WithRevision(12))
		after(2 * time.Minute)
		holds(t, c, first)
		if c.Status().Held != nil || c.Current().Revision() != 12 || len(s.origins[0].asked(watch)) != 1 {
			t.Errorf("held %+v, revision %d", c.Status().Held, c.Current().Revision())
		}
	})
}

func TestAcceptWhileAStreamIsUp(t *testing.T) {
	prepare := func(s *stage) { s.origins[0].set(newTable(t, 10, "a", "b", "c", "d")) }
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		lost := newTable(t, 11, "a")
		s.origins[0].set(lost)
		synctest.Wait()
		if _, err := c.Accept(publish.Acceptance{Digest: lost.Digest()}); err != nil {
			t.Fatal(err)
		}
		holds(t, c, lost)
		next := newTable(t, 12, "a", "z")
		s.origins[0].set(next)
		synctest.Wait()
		holds(t, c, next)
		after(time.Minute)
		if got := len(s.origins[0].asked(watch)); got != 1 {
			t.Errorf("%d streams, want 1", got)
		}
	})
}

// TestOlderTableOverAStreamIsTakenOnlyIfTheServerInsists: the stream ends, and the next one repeats the older table.
func TestOlderTableOverAStreamIsTakenOnlyIfTheServerInsists(t *testing.T) {
	newer, older := newTable(t, 10, "a", "b"), newTable(t, 5, "a", "b")
	play(t, 1, func(s *stage) { s.origins[0].set(newer) }, func(t *testing.T, s *stage, c *dataplane.Client) {
		s.origins[0].set(older)
		after(2 * time.Second)
		holds(t, c, newer)
		if got := s.metric("dataplane_stream_reconnects_total", "reason", "older"); got != 1 {
			t.Errorf("%v streams ended because of that, want 1", got)
		}
		after(2 * time.Second)
		holds(t, c, older)
		if got := s.metric("dataplane_older_tables_accepted_total"); got != 1 {
			t.Errorf("%v older tables, want 1", got)
		}
	})
}

// TestFetchEvent: the table comes from /routes, and the stream continues.
func TestFetchEvent(t *testing.T) {
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		s.cfg.Guard.MaxLoss = 1 // the tables are small, and this test is not about losses
		s.origins[0].distort = func(frames []frame) []frame {
			for i := range frames {
				if strings.Contains(frames[i].data, "fetchme: ") {
					frames[i] = frame{name: "fetch", id: frames[i].id}
				}
			}
			return frames
		}
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		second := newTable(t, 2, "a", "fetchme")
		s.origins[0].set(second)
		after(time.Second) // fetches are spread over a second
		holds(t, c, second)
		third := newTable(t, 3, "a")
		s.origins[0].set(third)
		synctest.Wait()
		holds(t, c, third)
		if got, want := paths(s.origins[0]), []string{routes, watch, routes}; !slices.Equal(got, want) {
			t.Errorf("requests %v, want %v", got, want)
		}
		if got := s.metric("dataplane_deltas_total", "result", "full"); got != 2 {
			t.Errorf("%v tables fetched, want the first one and another one", got)
		}

		// Another replica may answer: then the stream is at another table than the client.
		elsewhere := newTable(t, 5, "x", "a")
		s.origins[0].change(func() {
			s.origins[0].get = func(w http.ResponseWriter, r *http.Request) { serveTable(w, r, elsewhere, "") }
		})
		s.origins[0].set(newTable(t, 4, "a", "fetchme"))
		after(time.Second)
		holds(t, c, elsewhere)
		if got := s.metric("dataplane_stream_reconnects_total", "reason", "lost"); got != 1 {
			t.Errorf("%v streams lost their place, want 1", got)
		}
	})
}

// TestWhatAStreamBringsIsVerified: none of it is applied, the stream ends, and one full table is fetched.
func TestWhatAStreamBringsIsVerified(t *testing.T) {
	first, second, other := newTable(t, 1, "a", "b"), newTable(t, 2, "b", "c"), newTable(t, 9, "x")
	for _, c := range []struct {
		name   string
		change func([]frame) []frame
		reason string // label of the verification metric; empty if it does not count there
	}{
		{"delta of another base", func(f []frame) []frame { f[0].data = deltaOf(other, second); return f }, "delta"},
		{"delta to another target", func(f []frame) []frame { f[0].data = deltaOf(first, other); return f }, "delta"},
		{"delta without a tag", func(f []frame) []frame { f[0].id = ""; return f }, "tag"},
		{"delta with a strange tag", func(f []frame) []frame { f[0].id = `"v2"`; return f }, "tag"},
		{"delta that is no JSON", func(f []frame) []frame { f[0].data = "{"; return f }, "delta"},
		{"delta that is wrong", func(f []frame) []frame {
			f[0].data = strings.Replace(f[0].data, "10.0.0.1", "10.0.0.2", 1)
			return f
		}, "delta"},
		{"delta that is too large", func(f []frame) []frame { f[0].data += strings.Repeat(" ", 5000); return f }, "too_large"},
		{"current of another table", func(f []frame) []frame { f[1].id = etagOf(other, ""); return f[1:] }, ""},
		{"current that is no JSON", func(f []frame) []frame { f[1].data = "now"; return f[1:] }, ""},
		{"events that come in another order", func(f []frame) []frame { return []frame{f[1], f[0]} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			prepare := func(s *stage) {
				s.origins[0].set(first)
				s.cfg.MaxBytes = 4000
			}
			play(t, 1, prepare, func(t *testing.T, s *stage, client *dataplane.Client) {
				o := s.origins[0]
				served := 0
				o.change(func() {
					o.distort = func(frames []frame) []frame {
						if len(frames) == 2 {
							frames = c.change(frames)
						}
						return frames
					}
					o.get = func(w http.ResponseWriter, r *http.Request) {
						served++
						holds(t, client, first)
						if r.Header.Get("A-IM") != "" {
							t.Errorf("a delta is asked for")
						}
						serveTable(w, r, second, "")
					}
				})
				o.set(second)
				synctest.Wait()
				holds(t, client, first)
				fileHolds(t, fileOf(s.cfg), first)
				after(time.Second)
				holds(t, client, second)
				if served != 1 {
					t.Errorf("%d full tables fetched, want 1", served)
				}
				if got := s.metric("dataplane_stream_reconnects_total", "reason", "rejected"); got != 1 {
					t.Errorf("%v streams ended because of that, want 1", got)
				}
				if got := s.metric("dataplane_deltas_total", "result", "full"); got != 2 {
					t.Errorf("%v full tables, want the first one and one because of a stream", got)
				}
				if got := s.metric("dataplane_fetches_total", "result", "rejected"); got != 1 {
					t.Errorf("%v answers were rejected, want 1", got)
				}
				if c.reason != "" {
					if got := s.metric("dataplane_verify_failures_total", "reason", c.reason); got != 1 {
						t.Errorf("%v failures of verification, want 1", got)
					}
				}
				if got := s.log.count(dataplane.LogStreamRejected); got != 1 {
					t.Errorf("said %d times, want once", got)
				}
				after(5 * time.Second)
				if o.connected() != 1 {
					t.Error("there is no stream again")
				}
				holds(t, client, second)
			})
		})
	}
}

// TestPanicsOverAStreamChangeNothing is TestPanicsChangeNothing for streams.
func TestPanicsOverAStreamChangeNothing(t *testing.T) {
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		publish, panicked := s.publish, false
		s.publish = func(tab *table.Table, info api.Applied) {
			if tab.Revision() == 2 && !panicked {
				panicked = true
				panic("no")
			}
			publish(tab, info)
		}
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		s.origins[0].set(newTable(t, 2, "a", "b"))
		synctest.Wait()
		holds(t, c, newTable(t, 1, "a", "b"))
		after(3 * time.Second)
		holds(t, c, newTable(t, 2, "a", "b"))
	})
}
