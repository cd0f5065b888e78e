package poller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*poller.Config)
		want   string
	}{
		{"no source", func(c *poller.Config) { c.Source = nil }, "Source, Compile and Publisher are required"},
		{"no compiler", func(c *poller.Config) { c.Compile = nil }, "required"},
		{"no publisher", func(c *poller.Config) { c.Publisher = nil }, "required"},
		{"negative interval", func(c *poller.Config) { c.Interval = -time.Second }, "interval -1s must be at least 1ms"},
		{"tiny interval", func(c *poller.Config) { c.Interval = time.Microsecond }, "interval 1µs must be at least 1ms"},
		{"least interval", func(c *poller.Config) { c.Interval = 1 }, "interval 1ns must be at least 1ms"},
		{"negative probe interval", func(c *poller.Config) { c.ProbeInterval = -1 }, "probe interval -1ns"},
		{"negative backoff", func(c *poller.Config) { c.MaxBackoff = -time.Second }, "max backoff -1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := newWorld(t).settings(nil).Config
			tt.change(&cfg)
			if _, err := poller.New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestReadsAtOnceAndThenEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		stop := w.run(w.poller(nil)) // the default is 3 s
		time.Sleep(10 * time.Second)
		stop()
		if diff := cmp.Diff(seconds(0, 3, 6, 9), w.readTimes()); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestSlowReadDelaysAndMissedTicksAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.took = 7 * time.Second // two ticks pass during it
		stop := w.run(w.poller(nil))
		time.Sleep(8 * time.Second) // the second read has begun
		w.change(func() { w.took = 0 })
		time.Sleep(14 * time.Second)
		stop()
		if diff := cmp.Diff(seconds(0, 7, 14, 17, 20), w.readTimes()); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestWithoutChangeNothingIsPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		stop := w.run(w.poller(nil))
		time.Sleep(4 * time.Second) // two reads that return the very same slice
		w.set("a", "b")             // the same content in a new slice, at a new revision
		time.Sleep(3 * time.Second)
		stop()
		if got := w.tables(); len(got) != 1 || w.compiles != 3 {
			t.Errorf("published %v after %d compilations, want one table of 3", got, w.compiles)
		}
	})
}

func TestKeepsTableWhileSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(nil)
		stop := w.run(p)
		time.Sleep(time.Second)
		broken := errors.New("list ingresses: connection refused")
		w.set("b")
		w.fail(broken)
		time.Sleep(time.Minute)
		s := p.Status()
		if got := w.tables(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("published %v while the source fails, want the first table only", got)
		}
		if s.Failures == 0 || s.FailedTotal != uint64(s.Failures) || s.LastError != "failed to load cluster state: "+broken.Error() {
			t.Errorf("status %+v, want the failures and the last error", s)
		}
		if want := w.start; !s.LastSuccess.Equal(want) || s.LastAttempt.Equal(want) {
			t.Errorf("last success %v, want %v; last attempt %v, want a later one", s.LastSuccess, want, s.LastAttempt)
		}
		w.fail(nil)
		w.set("a", "b")
		time.Sleep(poller.DefaultMaxBackoff)
		synctest.Wait()
		s = p.Status()
		stop()
		if got := w.tables(); !slices.Equal(got, []string{"a", "a b"}) {
			t.Errorf("published %v, want the new table after the source healed", got)
		}
		if s.Failures != 0 || s.LastError != "" || s.FailedTotal == 0 || s.Revision != 3 {
			t.Errorf("status %+v, want no failures in a row, all in total, and the new revision", s)
		}
	})
}

func TestBackoffGrowsWithJitterWithinItsBounds(t *testing.T) {
	for _, tt := range []struct {
		interval, max time.Duration
		want          [][2]time.Duration // least and most time between two reads, by failures in a row
	}{
		{3 * time.Second, 15 * time.Second, [][2]time.Duration{{3e9, 6e9}, {6e9, 12e9}, {7.5e9, 15e9}, {7.5e9, 15e9}}},
		{3 * time.Second, 0, [][2]time.Duration{{3e9, 6e9}, {6e9, 12e9}, {7.5e9, 15e9}, {7.5e9, 15e9}}}, // the default
		{time.Second, time.Second, [][2]time.Duration{{1e9, 1e9}, {1e9, 1e9}, {1e9, 1e9}}},
		{time.Minute, 0, [][2]time.Duration{{60e9, 60e9}, {60e9, 60e9}}}, // never shorter than the interval
	} {
		t.Run(fmt.Sprint(tt.interval, tt.max), func(t *testing.T) {
			seen := make([]map[time.Duration]bool, len(tt.want))
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.fail(errors.New("down"))
					stop := w.run(w.poller(func(c *settings) { c.Interval, c.MaxBackoff = tt.interval, tt.max }))
					time.Sleep(time.Duration(len(tt.want)+1) * time.Minute)
					stop()
					times := w.readTimes()
					for i, want := range tt.want {
						d := times[i+1] - times[i]
						if d < want[0] || d > want[1] {
							t.Errorf("delay %v after %d failures, want %v to %v", d, i+1, want[0], want[1])
						}
						if seen[i] == nil {
							seen[i] = make(map[time.Duration]bool)
						}
						seen[i][d] = true
					}
				})
			}
			for i, want := range tt.want {
				if want[0] != want[1] && len(seen[i]) < 2 {
					t.Errorf("the delay after %d failures is always %v, want jitter", i+1, seen[i])
				}
			}
		})
	}
}

// A read from a server that does not answer fails at its deadline, which is longer than the delay; the pause must follow all the
// same.
func TestReadThatFailsSlowlyIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.took = 30 * time.Second
		w.fail(errors.New("no answer"))
		stop := w.run(w.poller(nil))
		time.Sleep(5 * time.Minute)
		stop()
		times := w.readTimes()
		for i := range times[1:] {
			if rest := times[i+1] - times[i] - w.took; rest < poller.DefaultInterval {
				t.Errorf("read %d comes %v after the one before has failed, want at least %v", i+1, rest, poller.DefaultInterval)
			}
		}
	})
}

func TestRhythmReturnsAtOnceWhenSourceHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.fail(errors.New("down"))
		stop := w.run(w.poller(nil))
		time.Sleep(5 * time.Minute)
		failed := len(w.readTimes())
		w.fail(nil)
		time.Sleep(time.Minute)
		w.fail(errors.New("down again")) // and the backoff starts again
		time.Sleep(10 * time.Second)
		stop()
		times := w.readTimes()[failed:]
		for i := range 15 {
			if d := times[i+1] - times[i]; d != poller.DefaultInterval {
				t.Errorf("read %d after the recovery comes after %v, want %v", i+1, d, poller.DefaultInterval)
			}
		}
		if n := len(times); n < 16 {
			t.Fatalf("%d reads, want at least 16", n)
		}
	})
}

func TestNextAttemptIsWhenTheNextReadStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(nil)
		stop := w.run(p)
		defer stop()
		for range 20 {
			synctest.Wait()
			next := p.Status().NextAttempt
			time.Sleep(time.Until(next))
			synctest.Wait()
			if got := p.Status().LastAttempt; !got.Equal(next) {
				t.Fatalf("read at %v, announced for %v", got, next)
			}
			w.fail(errors.New("down"))
		}
	})
}

func TestRunEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.took = time.Hour
		stop := w.run(w.poller(nil))
		time.Sleep(time.Second)
		stop() // in the middle of a read, which fails because of it
		if got := time.Since(w.start); got != time.Second {
			t.Errorf("Run went on for %v after the cancel", got-time.Second)
		}
		want := []string{"INFO starting polling", "INFO polling stopped"}
		if diff := cmp.Diff(want, w.log.lines()); diff != "" {
			t.Errorf("the end of the loop is no failure, log (-want +got):\n%s", diff)
		}
	})
}

func TestRunWithContextThatHasEndedReadsNothing(t *testing.T) {
	for range 20 { // both the context and the first tick are ready
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.poller(nil).Run(ctx); err != nil || len(w.reads) != 0 {
				t.Errorf("error %v after %d reads, want none of both", err, len(w.reads))
			}
		})
	}
}

func TestReadThatCompletesDuringShutdownIsPublishedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		w.took, w.deaf = time.Second, true
		stop := w.run(w.poller(nil))
		time.Sleep(time.Millisecond)
		stop()
		want := []string{"started 1", "publish a b", "completed 1 at 1"}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestTableIsThatOfItsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.revision = 41
		w.took = 2 * time.Second
		stop := w.run(w.poller(nil))
		time.Sleep(2500 * time.Millisecond)
		stop()
		got := w.published[0]
		if want := w.start.Add(w.took); got.Revision() != 41 || !got.Time().Equal(want) {
			t.Errorf("table of revision %d and time %v, want 41 and %v", got.Revision(), got.Time(), want)
		}
	})
}

// A kind that nobody writes to keeps its revision, while the table changes with the other kinds.
func TestTablesAreOrderedByTheHighestRevisionOfTheirReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.oldest, w.revision = 5, 50
		p := w.poller(nil)
		stop := w.run(p)
		polled(0)
		w.set("a", "b")
		polled(3 * time.Second)
		w.set("a", "b", "c")
		w.change(func() { w.oldest, w.revision = 7, 0 }) // a source that reports only one revision
		polled(3 * time.Second)
		stop()
		want := []string{
			"started 1", "publish a", "completed 1 at 50", "started 2", "publish a b", "completed 2 at 51",
			"started 3", "publish a b c", "completed 3 at 7",
		}
		if diff := cmp.Diff(want, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		for i, want := range []uint64{50, 51, 7} {
			if got := w.published[i].Revision(); got != want {
				t.Errorf("table %d has revision %d, want %d", i, got, want)
			}
		}
		if got := p.Status().Revision; got != 7 {
			t.Errorf("status has revision %d, want 7", got)
		}
	})
}

func TestServedTableIsNotPublishedAgainButConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		p := w.poller(func(c *settings) { c.Served = tableOf(t, "a", "b") })
		stop := w.run(p)
		time.Sleep(time.Second)
		s := p.Status()
		stop()
		if diff := cmp.Diff([]string{"started 1", "completed 1 at 1"}, w.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if s.Initialized.IsZero() || !s.Updated.IsZero() {
			t.Errorf("status %+v, want an initialized table that was not updated", s)
		}
		want := []string{"INFO " + publish.LogFileLoaded, "INFO starting polling", "INFO routes initialized", "INFO polling stopped"}
		if diff := cmp.Diff(want, w.log.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func seconds(n ...int) []time.Duration {
	var ds []time.Duration
	for _, s := range n {
		ds = append(ds, time.Duration(s)*time.Second)
	}
	return ds
}
