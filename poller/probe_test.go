package poller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// probed is a source that can be probed.
type probed struct {
	poller.Source
	err    atomic.Pointer[error]
	probes atomic.Int64
	reads  atomic.Int64
}

func (p *probed) Probe(context.Context) error {
	p.probes.Add(1)
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *probed) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	p.reads.Add(1)
	return p.Source.Read(ctx, o)
}

// probing runs a poller with a source that can be probed and has been read once.
func probing(t *testing.T, f func(w *world, p *poller.Poller, source *probed)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		source := &probed{}
		p := w.poller(func(c *settings) {
			source.Source = c.Source
			c.Source, c.ProbeInterval = source, time.Second
		})
		stop := w.run(p)
		polled(time.Second)
		f(w, p, source)
		stop()
	})
}

func TestASourceThatIsDownIsProbedAndNotRead(t *testing.T) {
	probing(t, func(w *world, p *poller.Poller, source *probed) {
		down := errors.New("down")
		w.fail(down)
		source.err.Store(&down)
		before := source.reads.Load()
		polled(10 * time.Minute)
		if n := source.reads.Load() - before; n != 1 {
			t.Errorf("%d reads, want the one that has found out", n)
		}
		if n := source.probes.Load(); n < 550 || n > 850 {
			t.Errorf("%d probes in ten minutes", n)
		}
		if s := p.Status(); s.Failures < 30 || s.LastError == "" || time.Since(s.LastAttempt) > 20*time.Second {
			t.Errorf("status %+v does not show that it is down", s)
		}
		w.fail(nil)
		source.err.Store(nil)
		w.set("a", "b", "c", "d")
		polled(time.Second + time.Millisecond)
		if got := w.tables(); len(got) != 2 {
			t.Errorf("published %v, want the new table within a second", got)
		}
		if n := source.probes.Load(); n == 0 || p.Status().Failures != 0 {
			t.Errorf("status %+v", p.Status())
		}
		probes := source.probes.Load()
		polled(time.Minute)
		if n := source.probes.Load() - probes; n != 0 {
			t.Errorf("%d probes of a source that works", n)
		}
	})
}

// A problem that a probe cannot see must not make reads come without a delay.
func TestAProbeThatSucceedsForNothingIsWorthOneRead(t *testing.T) {
	probing(t, func(w *world, p *poller.Poller, source *probed) {
		w.fail(errors.New("a list is broken"))
		before := source.reads.Load()
		polled(10 * time.Minute)
		// At most one read every 7.5 s, a few at first while the delay grows, and one early.
		if n := source.reads.Load() - before; n > 85 {
			t.Errorf("%d reads in ten minutes", n)
		}
	})
}
