package poller_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/poller"
)

func TestRecheckReadsSoonAndConsistentlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(nil)
		stop := w.run(p)
		time.Sleep(3200 * time.Millisecond) // 0.2 s after the second read
		for range 100 {
			p.Recheck() // they count as one
		}
		time.Sleep(5 * time.Second)
		stop()
		want := []read{{0, false}, {3 * time.Second, false}, {4 * time.Second, true}, {7 * time.Second, false}}
		if diff := cmp.Diff(want, w.reads, cmp.AllowUnexported(read{})); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestRecheckLongAfterAReadIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(nil)
		stop := w.run(p)
		time.Sleep(2 * time.Second)
		p.Recheck()
		synctest.Wait()
		stop()
		want := []read{{0, false}, {2 * time.Second, true}}
		if diff := cmp.Diff(want, w.reads, cmp.AllowUnexported(read{})); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestRechecksWithoutEndGiveOneReadASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(nil)
		stop := w.run(p)
		for range 1000 {
			p.Recheck()
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		if diff := cmp.Diff(seconds(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), w.readTimes()[:10]); diff != "" || len(w.reads) > 11 {
			t.Errorf("%d reads in 10 s (-want +got):\n%s", len(w.reads), diff)
		}
	})
}

func TestRecheckDuringAReadIsAnsweredByALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.took = 2 * time.Second
		p := w.poller(nil)
		stop := w.run(p)
		time.Sleep(time.Second)
		p.Recheck() // the client's table may be newer than what this read has already seen
		time.Sleep(2500 * time.Millisecond)
		stop()
		want := []read{{0, false}, {2 * time.Second, true}}
		if diff := cmp.Diff(want, w.reads, cmp.AllowUnexported(read{})); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestRecheckDoesNotDelayAPollThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		p := w.poller(func(c *settings) { c.Interval = 500 * time.Millisecond })
		stop := w.run(p)
		time.Sleep(100 * time.Millisecond)
		p.Recheck()
		time.Sleep(500 * time.Millisecond)
		stop()
		want := []read{{0, false}, {500 * time.Millisecond, true}}
		if diff := cmp.Diff(want, w.reads, cmp.AllowUnexported(read{})); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

// Both are due when a read ends that took longer than the interval. The next read must serve both, or the client waits for
// another read, and the source is read twice.
func TestRecheckThatMeetsAPollThatIsDueMakesItConsistent(t *testing.T) {
	for range 10 { // the choice between two ready channels is random
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a")
			w.took = 4 * time.Second
			p := w.poller(nil)
			stop := w.run(p)
			time.Sleep(3500 * time.Millisecond)
			p.Recheck()
			time.Sleep(5 * time.Second)
			stop()
			want := []read{{0, false}, {4 * time.Second, true}, {8 * time.Second, false}}
			if diff := cmp.Diff(want, w.reads, cmp.AllowUnexported(read{})); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRechecksLeaveAFailingSourceItsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.fail(errors.New("down"))
		p := w.poller(nil)
		stop := w.run(p)
		for range 600 {
			p.Recheck()
			time.Sleep(100 * time.Millisecond)
		}
		times := w.readTimes()
		for i := range times[1:] {
			if d := times[i+1] - times[i]; d < poller.DefaultInterval {
				t.Errorf("read %d comes %v after one that failed, want at least %v", i+1, d, poller.DefaultInterval)
			}
		}
		failed := len(times)
		w.fail(nil)
		time.Sleep(20 * time.Second)
		stop()
		if !w.reads[failed].consistent {
			t.Error("the first read that succeeds is not consistent, as was asked for")
		}
		if w.reads[failed+1].consistent {
			t.Error("the read after it is consistent, which nobody has asked for any more")
		}
	})
}
