package webhook

import (
	"context"
	"fmt"
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

// follow keeps the snapshot of the judge up to date until ctx ends: it reads at once, at every interval, and whenever the source reports a
// change.
func (s *Server) follow(ctx context.Context) {
	var changed <-chan struct{}
	var following sync.WaitGroup
	defer following.Wait()
	source, follows := s.cfg.Source.(poller.Follower)
	if follows {
		following.Go(func() {
			if err := source.Run(ctx); err != nil {
				s.log.Error(poller.LogFollowingFailed, "error", err)
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-changed:
		case <-s.recheck:
		}
		began, first := time.Now(), !s.judge.Ready()
		err := s.read(ctx)
		if ctx.Err() != nil {
			return // the shutdown is not a failure
		}
		s.metrics.read(err)
		if err == nil {
			if first {
				s.log.Info(LogSnapshotFirst)
			} else if failures > 0 {
				s.log.Info(LogReadRecovered, "failures", failures)
			}
			if failures = 0; follows {
				changed = source.Changed()
			}
			timer.Reset(time.Until(began.Add(s.cfg.Interval)))
			continue
		}
		if failures++; failures == 1 {
			s.log.Error(LogReadFailed, "error", err)
		}
		changed = nil // give a failing source time to recover
		timer.Reset(api.Backoff(failures, s.cfg.Interval, s.cfg.MaxBackoff, rand.Float64()))
	}
}

// read takes one snapshot. It turns a panic into an error: an unexpected input must not end the process.
func (s *Server) read(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	snapshot, err := s.cfg.Source.Read(ctx, kube.ReadOptions{})
	if err == nil {
		s.judge.Take(snapshot)
	}
	return err
}
