package admission

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/pace"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Messages of the log.
const (
	LogSnapshotFirst = "first snapshot taken, objects are judged against the cluster"
	LogReadFailed    = "read of the cluster failed, objects are judged against the last snapshot"
	LogReadRecovered = "read of the cluster succeeded again"
)

// follower keeps the snapshot of a judge current.
type follower struct {
	source   poller.Source
	judge    *Judge
	interval time.Duration
	most     time.Duration // the longest delay after a read that failed
	metrics  *Metrics
	log      *slog.Logger
	recheck  chan struct{}

	failures int  // in a row
	taken    bool // at least one snapshot
}

// run reads at once and at every interval, and in between when the source says that it has something new, until ctx ends.
func (f *follower) run(ctx context.Context) {
	var changed <-chan struct{}
	var following sync.WaitGroup
	defer following.Wait()
	if source, ok := f.source.(poller.Follower); ok {
		changed = source.Changed()
		following.Go(func() {
			if err := source.Run(ctx); err != nil {
				f.log.Error(poller.LogFollowingFailed, "error", err)
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-changed:
		case <-f.recheck:
		}
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		f.note(ctx, f.read(ctx))
		wait := time.Until(began.Add(f.interval))
		if f.failures > 0 {
			wait = pace.Backoff(f.failures, f.interval, f.most, rand.Float64())
			changed = nil // a source that fails needs its rest
		} else if source, ok := f.source.(poller.Follower); ok {
			changed = source.Changed()
		}
		timer.Reset(max(wait, 0))
	}
}

// read takes one snapshot. A panic counts as an error: an input that nobody thought of must not end the process.
func (f *follower) read(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	s, err := f.source.Read(ctx, kube.ReadOptions{})
	if err != nil {
		return err
	}
	f.judge.Take(s)
	return nil
}

// note counts the read and says what has changed.
func (f *follower) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the end is not a failure
	}
	f.metrics.read(err)
	switch {
	case err != nil:
		if f.failures++; f.failures == 1 {
			f.log.Error(LogReadFailed, "error", err)
		}
		return
	case !f.taken:
		f.log.Info(LogSnapshotFirst)
	case f.failures > 0:
		f.log.Info(LogReadRecovered, "failures", f.failures)
	}
	f.failures, f.taken = 0, true
}
