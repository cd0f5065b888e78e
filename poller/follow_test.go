package poller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/poller"
)

// following is a world that announces when there is something to read.
type following struct {
	*world
	changed chan struct{}
	err     error // of Run
	ran     chan struct{}
}

func newFollowing(t *testing.T, ids ...string) *following {
	return &following{world: newWorld(t, ids...), changed: make(chan struct{}, 1), ran: make(chan struct{})}
}

func (f *following) Run(ctx context.Context) error {
	defer close(f.ran)
	if f.err != nil {
		return f.err
	}
	<-ctx.Done()
	time.Sleep(time.Second) // it takes some time to end
	return nil
}

func (f *following) Changed() <-chan struct{} { return f.changed }

func (f *following) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *following) poller() *poller.Poller {
	return f.world.poller(func(c *settings) { c.Source = f })
}

func TestAChangeIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, "a")
		stop := w.run(w.poller())
		time.Sleep(1100 * time.Millisecond)
		w.set("a", "b")
		w.tell()
		synctest.Wait()
		if n := len(w.published); n != 2 {
			t.Errorf("%d tables are published at the moment of the change, want 2", n)
		}
		time.Sleep(5 * time.Second)
		stop()
		// From there the normal interval continues, for changes that are not announced.
		want := []time.Duration{0, 1100 * time.Millisecond, 4100 * time.Millisecond}
		if diff := cmp.Diff(want, w.readTimes()); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

// Constant changes must not use a whole processor: the loop rests for as long as it has worked.
func TestChangesWithoutEndLeaveHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, "a")
		w.took = 400 * time.Millisecond
		stop := w.run(w.poller())
		for range 395 {
			w.tell()
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		var want []time.Duration
		for at := time.Duration(0); at < 4*time.Second; at += 800 * time.Millisecond {
			want = append(want, at)
		}
		if diff := cmp.Diff(want, w.readTimes()); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

// After a failed read the loop rests; but when the source announces something, it has recovered.
func TestASourceThatIsBackIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, "a")
		w.world.fail(errors.New("planted"))
		p := w.poller()
		stop := w.run(p)
		time.Sleep(20 * time.Second)
		w.world.fail(nil)
		w.tell()
		synctest.Wait()
		if s := p.Status(); s.Failures != 0 || len(w.published) != 1 {
			t.Errorf("%d failures, %d tables, want a table at once", s.Failures, len(w.published))
		}
		stop()
	})
}

func TestRunWaitsForTheSourceToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, "a")
		stop := w.run(w.poller())
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		select {
		case <-w.ran:
		default:
			t.Error("the source still runs")
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("ended after %v, want 1s", d)
		}
	})
}

func TestASourceThatCannotFollowIsLoggedAndReadAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, "a")
		w.err = errors.New("planted")
		stop := w.run(w.poller())
		time.Sleep(4 * time.Second)
		stop()
		if n := len(w.readTimes()); n != 2 {
			t.Errorf("%d reads, want 2", n)
		}
		if n := len(w.log.find(poller.LogFollowingFailed)); n != 1 {
			t.Errorf("%d lines say that it cannot follow, want 1", n)
		}
	})
}
