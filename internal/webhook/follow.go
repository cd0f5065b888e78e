package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Messages of the log.
const (
	LogSnapshotFirst = "first snapshot taken, objects are judged against the cluster"
	LogReadFailed    = "read of the cluster failed, objects are judged against the last snapshot"
	LogReadRecovered = "read of the cluster succeeded again"
)

// follower keeps the snapshot of a judge up to date.
type follower struct {
	source   poller.Source
	judge    *Judge
	interval time.Duration
	most     time.Duration // the longest delay after a failed read
	metrics  *Metrics
	log      *slog.Logger
	recheck  chan struct{}

	failures int  // in a row
	taken    bool // at least one snapshot was taken
}

// run reads at once, at every interval, and whenever the source reports a change, until ctx ends.
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
			wait = api.Backoff(f.failures, f.interval, f.most, rand.Float64())
			changed = nil // give a failing source time to recover
		} else if source, ok := f.source.(poller.Follower); ok {
			changed = source.Changed()
		}
		timer.Reset(max(wait, 0))
	}
}

// read takes one snapshot. It turns a panic into an error: an unexpected input must not end the process.
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

// note counts the read and logs changes between success and failure.
func (f *follower) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the shutdown is not a failure
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
