package poller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// once is one iteration of the loop. It gives the number of failures in a row, 0 after a success.
func (p *Poller) once(ctx context.Context, o kube.ReadOptions) int {
	start := time.Now()
	p.update(func(s *Status) { s.LastAttempt = start })
	var seq uint64
	if p.cfg.Observer != nil {
		seq = p.cfg.Observer.PollStarted()
	}
	snapshot, err := p.cfg.Source.Read(ctx, o)
	p.cfg.Metrics.duration.WithLabelValues(phaseRead).Observe(time.Since(start).Seconds())
	if err != nil {
		return p.failed(ctx, err)
	}
	at := time.Now()
	if err := p.digest(snapshot, at); err != nil {
		return p.failed(ctx, err)
	}
	p.update(func(s *Status) {
		s.LastSuccess, s.Failures, s.LastError = at, 0, ""
		s.Revision = uint64(snapshot.Revision)
	})
	p.publishing.Lock()
	defer p.publishing.Unlock()
	held := p.judge(at)
	if p.cfg.Observer != nil && p.served != nil {
		if held {
			p.cfg.Observer.PollHeld(seq, uint64(snapshot.Revision), at)
		} else {
			p.cfg.Observer.PollCompleted(seq, uint64(snapshot.Revision), at)
		}
	}
	return 0
}

// failed keeps everything as it was and says so.
func (p *Poller) failed(ctx context.Context, err error) int {
	if ctx.Err() != nil {
		return 0 // the end of the loop is no failure
	}
	err = fmt.Errorf("failed to load cluster state: %w", err)
	failures := 0
	p.update(func(s *Status) {
		s.Failures++
		s.FailedTotal++
		s.LastError = err.Error()
		failures = s.Failures
	})
	p.cfg.Metrics.polls.WithLabelValues(resultError).Inc()
	p.log.Error(LogRoutesFetchingFailed, "error", err, "failures", failures)
	return failures
}

// digest makes the candidate table of a snapshot, if it is not that of the read before.
func (p *Poller) digest(s *kube.Snapshot, at time.Time) error {
	start := time.Now()
	routes := p.cfg.Compile(s)
	p.cfg.Metrics.duration.WithLabelValues(phaseCompile).Observe(time.Since(start).Seconds())
	if p.candidate != nil && sameSlice(routes, p.compiled) {
		return nil
	}
	t, err := table.New(routes, uint64(s.Revision), at)
	if err != nil {
		return fmt.Errorf("make table: %w", err) // a bug of the compiler; the old table is better than a broken one
	}
	p.compiled, p.candidate = routes, t
	return nil
}

func sameSlice(a, b []table.Route) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// judge publishes the candidate if it is new and the guard lets it pass. It reports whether a table is held back.
func (p *Poller) judge(now time.Time) (held bool) {
	was := p.cfg.Guard.State()
	verdict := p.cfg.Guard.Judge(p.served, p.candidate, now)
	if !verdict.Publish {
		p.hold(was, verdict)
		return true
	}
	p.cfg.Metrics.held.Set(0)
	switch {
	case verdict.Reason != "":
		p.log.Warn(LogTableReleased, "accepted", false, "reason", string(verdict.Reason), "detail", verdict.Detail,
			"since", verdict.Since)
	case was.Held:
		p.log.Info(LogHoldEnded, "reason", string(was.Verdict.Reason))
	}
	if p.served != nil && p.served.Digest() == p.candidate.Digest() {
		p.cfg.Metrics.polls.WithLabelValues(resultUnchanged).Inc()
		p.log.Info(LogRoutesNoChange)
		p.initialize(now)
		return false
	}
	p.cfg.Metrics.polls.WithLabelValues(resultChanged).Inc()
	p.publish(p.candidate)
	return false
}

// hold says that a table is held back: loudly when the hold starts, and in the counters on every poll.
func (p *Poller) hold(was guard.State, v guard.Verdict) {
	p.cfg.Metrics.polls.WithLabelValues(resultHeld).Inc()
	p.cfg.Metrics.held.Set(1)
	if v.Reason == guard.Empty {
		p.cfg.Metrics.empty.Inc()
		p.update(func(s *Status) { s.EmptyTotal++ })
		p.log.Info(LogRoutesEmpty)
		if p.served == nil {
			return // nothing is lost yet: the cluster may just be new
		}
	}
	if !was.Held || was.Verdict.Reason != v.Reason {
		p.cfg.Metrics.holds.WithLabelValues(string(v.Reason)).Inc()
		p.log.Error(LogTableHeld, "reason", string(v.Reason), "detail", v.Detail, "release_at", v.ReleaseAt,
			"hash", p.candidate.Digest().String())
	}
}

// initialize notes that there is a table, once. It reports whether that is news.
func (p *Poller) initialize(now time.Time) (first bool) {
	p.update(func(s *Status) {
		if first = s.Initialized.IsZero(); first {
			s.Initialized = now
		}
	})
	return first
}

// publish hands the table on and says so.
func (p *Poller) publish(t *table.Table) {
	start := time.Now()
	before := p.served
	p.cfg.Publish(t)
	p.served = t
	p.cfg.Metrics.duration.WithLabelValues(phasePublish).Observe(time.Since(start).Seconds())
	now := time.Now()
	p.update(func(s *Status) { s.Updated = now })
	attrs := []any{"bytes", t.Bytes(), "count", t.Len(), "hash", t.Digest().String()}
	if p.initialize(now) {
		p.log.Info(LogRoutesInitialized, attrs...)
	}
	p.log.Info(LogRoutesUpdated, attrs...)
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		logChanges(p.log, before, t)
	}
}
