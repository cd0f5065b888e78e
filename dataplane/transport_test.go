package dataplane_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// answer is a handler that rejects requests with a status.
func answer(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
	}
}

func seconds(ns ...float64) []time.Duration {
	var out []time.Duration
	for _, n := range ns {
		out = append(out, time.Duration(n*float64(time.Second)))
	}
	return out
}

func wantTimes(t *testing.T, what string, got []time.Duration, want ...float64) {
	t.Helper()
	for i := range got {
		got[i] = got[i].Round(time.Millisecond)
	}
	if !slices.Equal(got, seconds(want...)) {
		t.Errorf("%s at %v, want %v", what, got, seconds(want...))
	}
}

// ended returns the number of streams that ended for a reason.
func (s *stage) ended(reason string) float64 {
	s.t.Helper()
	return s.metric("dataplane_stream_reconnects_total", "reason", reason)
}

// TestSilentStreamIsClosed: after 45 seconds without a byte the client tries another server.
func TestSilentStreamIsClosed(t *testing.T) {
	play(t, 2, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		a, b := s.origins[0], s.origins[1]
		start := time.Now()
		a.doom("mute")
		after(44 * time.Second)
		if b.connected() != 0 || c.Status().Stream.Connected.IsZero() {
			t.Error("the stream was closed early")
		}
		after(1500 * time.Millisecond)
		wantTimes(t, "asked the other server", b.since(start, watch), 45.5)
		if s.ended("silent") != 1 || c.Status().Servers[0].Reason != string(dataplane.ReasonSilent) || a.connected() != 0 {
			t.Errorf("servers are %+v", c.Status().Servers)
		}
		next := newTable(t, 2, "a", "b")
		b.set(next)
		synctest.Wait()
		holds(t, c, next)
	})
}

// TestCommentsAreNoEvents: comments prove that the server is alive, but not for ever that there is no news.
func TestCommentsAreNoEvents(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		s.origins[0].doom("comments")
		after(179 * time.Second)
		if s.ended("silent") != 0 {
			t.Error("closed while comments come")
		}
		after(2 * time.Second)
		if s.ended("silent") != 1 {
			t.Error("not closed after three minutes of comments")
		}
	})
}

// TestLostConnectionIsMadeAgainAfterAWhile: the client waits as long as the server said, plus a small random time.
func TestLostConnectionIsMadeAgainAfterAWhile(t *testing.T) {
	for _, c := range []struct {
		fate  string
		retry int
		want  float64
	}{{"cut", 0, 1.25}, {"end", 0, 1.25}, {"cut", 4000, 5}, {"end", 3_600_000, 37.5}} {
		t.Run(c.fate, func(t *testing.T) {
			prepare := func(s *stage) {
				tablesAt1(t)(s)
				s.origins[0].retry = c.retry
			}
			play(t, 1, prepare, func(t *testing.T, s *stage, client *dataplane.Client) {
				o := s.origins[0]
				after(20 * time.Second)
				start := time.Now()
				o.doom(c.fate)
				synctest.Wait()
				o.doom("")
				next := newTable(t, 2, "a", "b")
				o.set(next)
				if s.ended("broken") != 1 || client.Status().Stream.Connected != (time.Time{}) || s.metric("dataplane_transport", "transport", "stream") != 0 {
					t.Errorf("the stream goes on: %+v", client.Status().Stream)
				}
				after(time.Minute)
				wantTimes(t, "connected", o.since(start, watch), c.want)
				wantTimes(t, "polled", o.since(start, routes))
				holds(t, client, next)
				if s := client.Status().Servers[0]; s.Failures != 0 {
					t.Errorf("the server has failed: %+v", s)
				}
			})
		})
	}
}

func TestServerAsksToReconnect(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		start := time.Now()
		o.change(func() {
			o.distort = func([]frame) []frame {
				o.distort = nil
				return []frame{{name: "reconnect", data: `{"after_ms":10000,"x":1}`}}
			}
		})
		after(time.Minute)
		wantTimes(t, "connected", o.since(start, watch), 10.625) // plus a tenth, and a quarter of a second, by chance
		wantTimes(t, "polled", o.since(start, routes))
		if s.ended("reconnect") != 1 {
			t.Error("not counted")
		}
	})
}

// TestServerWithoutStreamsIsPolled: it is polled at the usual rate, and streams are tried again at growing intervals.
func TestServerWithoutStreamsIsPolled(t *testing.T) {
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		s.origins[0].noStreams = true
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		start := time.Now()
		after(21 * time.Second)
		wantTimes(t, "polled", o.since(start, routes), 3, 6, 9, 12, 15, 18, 21)
		if got := c.Status(); got.Transport != "poll" || got.Servers[0].Failures != 0 {
			t.Errorf("status is %+v", got)
		}
		if got := s.metric("dataplane_received_bytes_total"); got > 200 {
			t.Errorf("%v bytes received: the server took watch for a zone, and sent a table", got)
		}
		after(22 * time.Minute)
		// 22.5, 45, 90, 180 and 225 s after the previous attempt.
		wantTimes(t, "tried", o.since(start, watch), 22.5, 67.5, 157.5, 337.5, 562.5, 787.5, 1012.5, 1237.5)
		o.change(func() { o.noStreams = false })
		after(4 * time.Minute)
		if o.connected() != 1 {
			t.Error("no stream although there are some now")
		}
		after(time.Second)
		n := len(o.since(start, routes))
		after(time.Minute)
		if got := len(o.since(start, routes)); got != n {
			t.Errorf("%d polls while there is a stream", got-n)
		}
		o.change(func() { o.noStreams, o.fate = true, "cut" })
		start = time.Now()
		after(25 * time.Second)
		if got := len(o.since(start, watch)); got != 2 {
			t.Errorf("tried %d times in 25 s after a stream that was fine, want 2", got)
		}
	})
}

// TestStreamsThatFailTwiceArePolledAround: an intermediary blocks all streams.
func TestStreamsThatFailTwiceArePolledAround(t *testing.T) {
	for name, refuse := range map[string]http.HandlerFunc{
		"hangs": hang,
		"says nothing": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
		},
		"500":       answer(http.StatusInternalServerError),
		"cuts":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirects": answer(http.StatusFound, "Location: http://evil/"),
	} {
		t.Run(name, func(t *testing.T) {
			prepare := func(s *stage) {
				tablesAt1(t)(s)
				s.origins[0].watch = refuse
			}
			play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
				o := s.origins[0]
				start := time.Now()
				after(20 * time.Second)
				if got := len(o.asked(watch)); got != 2 {
					t.Errorf("%d attempts, want 2", got)
				}
				next := newTable(t, 2, "a")
				o.set(next)
				after(3 * time.Second)
				holds(t, c, next)
				after(10 * time.Minute)
				if got := len(o.since(start, routes)); got < 150 {
					t.Errorf("%d polls in more than ten minutes", got)
				}
				if got := len(o.asked(watch)); got < 4 || got > 30 {
					t.Errorf("%d attempts in more than ten minutes", got)
				}
				o.change(func() { o.watch = nil })
				after(5 * time.Minute)
				if o.connected() != 1 {
					t.Error("there is no stream although there could be")
				}
			})
		})
	}
}

// TestAdviceToWaitWithAStreamIsTaken: both when there is no table yet, and when there is no room.
func TestAdviceToWaitWithAStreamIsTaken(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusNotFound} {
		for _, follow := range []dataplane.UpdateMode{dataplane.Auto, dataplane.Stream} {
			t.Run(http.StatusText(status)+" "+string(follow), func(t *testing.T) {
				prepare := func(s *stage) {
					tablesAt1(t)(s)
					s.cfg.UpdateMode = follow
					s.origins[0].watch = answer(status, "Retry-After: 20")
				}
				play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
					o := s.origins[0]
					start := time.Now()
					after(24 * time.Second)
					o.change(func() { o.watch = nil })
					after(10 * time.Second)
					at := o.since(start, watch)
					if len(at) != 1 || at[0] < 20*time.Second || at[0] > 30*time.Second {
						t.Errorf("tried at %v", at)
					}
					if o.connected() != 1 {
						t.Error("no stream")
					}
					if got := len(o.since(start, routes)) > 5; got != (follow == dataplane.Auto) {
						t.Errorf("polled at %v", o.since(start, routes))
					}
				})
			})
		}
	}
}

// TestStreamFailsOver: the client moves to the next server at once, and back when the preferred server has been fine for a while.
func TestStreamFailsOver(t *testing.T) {
	play(t, 2, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		a, b := s.origins[0], s.origins[1]
		after(time.Minute)
		start := time.Now()
		s.network.Set("a", nil)
		a.doom("cut")
		after(1500 * time.Millisecond)
		wantTimes(t, "connected", b.since(start, watch), 1.25)
		next := newTable(t, 2, "a", "c")
		b.set(next)
		synctest.Wait()
		holds(t, c, next)
		if got := s.metric("dataplane_failovers_total"); got != 1 {
			t.Errorf("%v failovers, want 1", got)
		}
		a.set(next)
		a.doom("")
		s.network.Set("a", a)
		after(2*time.Minute + 30*time.Second)
		if a.connected() != 1 || b.connected() != 0 || s.ended("server") != 1 {
			t.Errorf("%d and %d streams", a.connected(), b.connected())
		}
		wantTimes(t, "polled", b.since(start, routes))
		last := newTable(t, 3, "a", "c")
		a.set(last)
		synctest.Wait()
		holds(t, c, last)
	})
}

// TestUnreachableServersAreLeftAlone: streams do not increase the load on them.
func TestUnreachableServersAreLeftAlone(t *testing.T) {
	for _, follow := range []dataplane.UpdateMode{dataplane.Auto, dataplane.Stream} {
		t.Run(string(follow), func(t *testing.T) {
			prepare := func(s *stage) {
				tablesAt1(t)(s)
				s.cfg.UpdateMode = follow
			}
			play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
				o := s.origins[0]
				start := time.Now()
				attempts := 0
				s.network.Set("a", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					attempts++
					panic(http.ErrAbortHandler)
				}))
				o.doom("cut")
				after(10 * time.Minute)
				if attempts < 20 || attempts > 40 { // one every 15 to 30 s
					t.Errorf("%d attempts in ten minutes", attempts)
				}
				if got := c.Status(); got.Failures < 10 || s.log.count(dataplane.LogUnreachable) != 1 {
					t.Errorf("status is %+v, said %d times", got, s.log.count(dataplane.LogUnreachable))
				}
				holds(t, c, newTable(t, 1, "a", "b"))
				o.doom("")
				s.network.Set("a", o)
				after(31 * time.Second) // it recovers, and is followed at once
				if s.log.count(dataplane.LogReachable) != 1 || c.Status().Failures != 0 || o.connected() != 1 {
					t.Errorf("status is %+v since %v", c.Status(), time.Since(start))
				}
				if got := s.log.count(dataplane.LogPollingBegins); got != 0 {
					t.Errorf("said %d times that streams do not work", got)
				}
			})
		})
	}
}

// TestRecheckPollsBesideAStream: a caller knows of a newer table than the stream.
func TestRecheckPollsBesideAStream(t *testing.T) {
	play(t, 1, tablesAt1(t), func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		after(10 * time.Second)
		start := time.Now()
		for range 10 {
			c.Recheck()
			synctest.Wait()
		}
		after(2 * time.Second)
		wantTimes(t, "polled", o.since(start.Add(-time.Nanosecond), routes), 1) // all of them as one
		if o.connected() != 1 || len(o.asked(watch)) != 1 {
			t.Error("the stream has ended")
		}
		newer := newTable(t, 5, "a", "b", "c")
		o.change(func() { o.get = func(w http.ResponseWriter, r *http.Request) { serveTable(w, r, newer, "") } })
		c.Recheck()
		after(2 * time.Second)
		holds(t, c, newer)
		if s.ended("lost") == 0 {
			t.Error("the stream goes on from a table that is not held any more")
		}
	})
}

// TestZoneOfAStream: another zone in the file means another stream.
func TestZoneOfAStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zone")
	write := func(zone string) {
		if err := os.WriteFile(file, []byte(zone), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("eu-1a")
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		s.cfg.ZoneFile = file
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		o := s.origins[0]
		after(time.Minute)
		write("eu-1b\n")
		after(4 * time.Second)
		var zones []string
		for _, r := range o.asked(watch) {
			zones = append(zones, r.URL.RawQuery)
		}
		if want := []string{"zone=eu-1a", "zone=eu-1b"}; !slices.Equal(zones, want) {
			t.Errorf("zones %v, want %v", zones, want)
		}
		if s.ended("zone") != 1 || o.connected() != 1 {
			t.Errorf("%d streams", o.connected())
		}
	})
}

// TestBadDeltasOverStreamsEndInPolling: a server whose deltas are all wrong is polled for full tables.
func TestBadDeltasOverStreamsEndInPolling(t *testing.T) {
	prepare := func(s *stage) {
		tablesAt1(t)(s)
		s.origins[0].distort = func(frames []frame) []frame {
			if frames[0].name == "delta" {
				frames[0].data = "{}"
			}
			return frames
		}
	}
	play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
		for i := range uint64(3) {
			next := newTable(t, i+2, "a")
			s.origins[0].set(next)
			after(10 * time.Second)
			holds(t, c, next)
		}
		if got := s.ended("rejected"); got != 2 || c.Status().Transport != "poll" {
			t.Errorf("%v streams were rejected, want 2; transport is %s", got, c.Status().Transport)
		}
		if got := s.metric("dataplane_deltas_total", "result", "failed"); got != 2 {
			t.Errorf("%v deltas failed, want 2", got)
		}
	})
}

// TestStreamInAnEncodingThatIsNone: an unknown encoding ends the stream, and nothing else.
func TestStreamInAnEncodingThatIsNone(t *testing.T) {
	for _, encoding := range []string{"gzip", "br"} {
		t.Run(encoding, func(t *testing.T) {
			prepare := func(s *stage) {
				tablesAt1(t)(s)
				s.origins[0].watch = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Encoding", encoding)
					_, _ = io.WriteString(w, "event: table\ndata: x\n\n")
					<-r.Context().Done()
				}
			}
			play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
				after(10 * time.Second)
				if s.Status(c) != "poll" || len(s.origins[0].asked(watch)) != 2 {
					t.Errorf("%d attempts", len(s.origins[0].asked(watch)))
				}
				holds(t, c, newTable(t, 1, "a", "b"))
			})
		})
	}
}

// TestStreamThatIsGarbageIsNotOneThatBroke: garbage is reported as such even if the stream ends with it, because the reason
// decides whether an operator looks at the server or at the network.
func TestStreamThatIsGarbageIsNotOneThatBroke(t *testing.T) {
	for body, want := range map[string]string{"event: table\ndata: x\n\n": "rejected", "": "broken", "\x1f\x8b": "broken"} {
		prepare := func(s *stage) {
			tablesAt1(t)(s)
			s.origins[0].watch = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				_, _ = io.WriteString(w, body)
			}
		}
		play(t, 1, prepare, func(t *testing.T, s *stage, c *dataplane.Client) {
			after(10 * time.Second)
			if n := s.ended(want); n == 0 {
				t.Errorf("no stream of %q has ended as %s", body, want)
			}
			for _, other := range []string{"rejected", "broken"} {
				if n := s.ended(other); other != want && n != 0 {
					t.Errorf("%v streams of %q have ended as %s, want %s", n, body, other, want)
				}
			}
			holds(t, c, newTable(t, 1, "a", "b"))
		})
	}
}

// Status returns the transport.
func (s *stage) Status(c *dataplane.Client) string { return c.Status().Transport }

// TestEndOfTheLoopEndsTheStream: that does not count as a failure.
func TestEndOfTheLoopEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1)
		tablesAt1(t)(s)
		c := s.client()
		stop := s.run(c)
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took != 0 || s.origins[0].connected() != 0 {
			t.Errorf("took %v, %d streams", took, s.origins[0].connected())
		}
		if got := c.Status().Servers[0]; got.Failures != 0 || s.log.count(dataplane.LogStreamEnded) != 0 {
			t.Errorf("the server has failed: %+v", got)
		}
	})
}

func TestUpdateModeIsChecked(t *testing.T) {
	cfg := dataplane.Config{URLs: []string{"http://a"}, UpdateMode: "push"}
	if _, err := dataplane.New(cfg); err == nil {
		t.Errorf("%+v is taken", cfg)
	}
}
