package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// failure is why a poll changed nothing.
type failure struct {
	reason string // label of the metric
	err    error
	stack  []byte // of a panic
}

// once is one iteration of the loop. It gives the number of failures in a row, 0 after a success. If it is known already
// that the source is down there is no read.
func (p *Poller) once(ctx context.Context, o kube.ReadOptions, down error) (failures int) {
	var f *failure
	if down == nil {
		f = p.attempt(ctx, o)
	} else {
		p.update(func(s *Status) { s.LastAttempt = time.Now() })
		f = readFailure(down)
	}
	switch {
	case f == nil:
		return 0
	case f.reason == failedRead && ctx.Err() != nil:
		return 0 // the end of the loop is no failure
	}
	p.update(func(s *Status) {
		s.Failures++
		s.FailedTotal++
		s.LastError = f.err.Error()
		failures = s.Failures
	})
	p.cfg.Metrics.polls.WithLabelValues(resultError).Inc()
	p.cfg.Metrics.failures.WithLabelValues(f.reason).Inc()
	attrs := []any{"error", f.err, "reason", f.reason, "failures", failures}
	if f.stack != nil {
		attrs = append(attrs, "stack", string(f.stack))
	}
	p.log.Error(LogRoutesFetchingFailed, attrs...)
	return failures
}

// attempt reads, compiles, judges and publishes. If it fails, or panics, everything is as it was.
func (p *Poller) attempt(ctx context.Context, o kube.ReadOptions) (f *failure) {
	defer func() {
		if v := recover(); v != nil {
			f = &failure{failedPanic, fmt.Errorf("panic: %v", v), debug.Stack()}
		}
	}()
	start := time.Now()
	p.update(func(s *Status) { s.LastAttempt = start })
	var seq uint64
	if p.cfg.Observer != nil {
		seq = p.cfg.Observer.PollStarted()
	}
	snapshot, err := p.cfg.Source.Read(ctx, o)
	if err == nil && snapshot == nil {
		err = errors.New("the source gave nothing")
	}
	p.cfg.Metrics.duration.WithLabelValues(phaseRead).Observe(time.Since(start).Seconds())
	if err != nil {
		return readFailure(err)
	}
	at := time.Now()
	seen := readOf(snapshot, o, at)
	repeated := p.digest(snapshot, seen)
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.judge(snapshot, &seen, repeated)
	p.update(func(s *Status) {
		s.LastSuccess, s.Failures, s.LastError = at, 0, ""
		s.Revision = seen.Newest
	})
	if p.cfg.Observer != nil && p.served != nil {
		p.cfg.Observer.PollEnded(seq, seen)
	}
	return nil
}

func readFailure(err error) *failure {
	return &failure{reason: failedRead, err: fmt.Errorf("failed to load cluster state: %w", err)}
}

// readOf says what is known of a read. A source that tells one revision only means that all of the snapshot is of it.
func readOf(s *kube.Snapshot, o kube.ReadOptions, at time.Time) table.Read {
	return table.Read{
		Oldest: uint64(s.Revision), Newest: uint64(max(s.Revision, s.Newest)), Consistent: o.Consistent, At: at,
	}
}

// digest makes the candidate table of a snapshot. It reports whether that is the one of the read before.
//
// The revision of the table is the highest of the read: the lowest stays where it is for as long as nobody writes to one of
// the kinds, so tables with different routes would have the same.
func (p *Poller) digest(s *kube.Snapshot, seen table.Read) (repeated bool) {
	start := time.Now()
	routes := p.cfg.Compile(s)
	p.cfg.Metrics.duration.WithLabelValues(phaseCompile).Observe(time.Since(start).Seconds())
	before := p.candidate
	if before != nil && slices.Equal(routes.Blocks(), before.Routes().Blocks()) {
		return true
	}
	p.candidate = before.Next(routes, seen.Newest, seen.At)
	return before != nil && before.Equal(p.candidate)
}

// judge publishes the candidate if it is new and the guard lets it pass. It notes in seen whether a table is held back.
// Repeated says that the candidate is that of the read before.
func (p *Poller) judge(s *kube.Snapshot, seen *table.Read, repeated bool) {
	now := seen.At
	was, wasHeld := p.cfg.Guard.Held()
	verdict := p.cfg.Guard.Judge(p.served, p.candidate, now)
	unchanged := p.served != nil && p.served.Equal(p.candidate)
	if repeated && (unchanged || !verdict.Publish) {
		p.log.Info(LogRoutesNoChange)
	}
	if !verdict.Publish {
		half := p.goOn(s, *seen)
		seen.Held = true
		if half != guard.WholeTable {
			seen.Live, seen.Backends, seen.Candidate = true, half == guard.HeldBackends, p.candidate
		}
		p.hold(!wasHeld || was.Reason != verdict.Reason, verdict, p.holds(s, half))
		return
	}
	p.cfg.Metrics.held.Set(0)
	switch {
	case verdict.Reason != "":
		p.log.Warn(LogTableReleased, "accepted", false, "reason", string(verdict.Reason), "detail", verdict.Detail,
			"since", verdict.Since)
	case wasHeld && p.served != nil:
		p.log.Info(LogHoldEnded, "reason", string(was.Reason))
	}
	if !unchanged {
		p.cfg.Metrics.polls.WithLabelValues(resultChanged).Inc()
		p.publish(p.candidate, p.cfg.Publish)
		p.endHold(s)
		return
	}
	p.cfg.Metrics.polls.WithLabelValues(resultUnchanged).Inc()
	p.initialize(now)
	p.endHold(s)
}

// endHold notes that the whole snapshot is served.
func (p *Poller) endHold(s *kube.Snapshot) {
	p.servesAll(s)
	for lane := range lanes {
		if p.cfg.Halves != nil {
			p.cfg.Halves.Drop(lane)
		}
	}
}

// hold says that a table is held back: loudly when the hold is a fresh one or keeps another half, and in the counters on
// every poll.
func (p *Poller) hold(fresh bool, v guard.Verdict, before guard.Half) {
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
	half := p.halves.half
	if fresh {
		p.cfg.Metrics.holds.WithLabelValues(string(v.Reason)).Inc()
	}
	if fresh || half != before {
		p.log.Error(LogTableHeld, "reason", string(v.Reason), "detail", v.Detail, "half", string(half),
			"release_at", v.ReleaseAt, "hash", p.candidate.Digest().String())
	}
}

// initialize notes that there is a table which a read has shown, once.
func (p *Poller) initialize(now time.Time) {
	first := false
	p.update(func(s *Status) {
		if first = s.Initialized.IsZero(); first {
			s.Initialized = now
		}
	})
	if first {
		p.log.Info(LogRoutesInitialized, describe(p.served)...)
	}
}

// publish hands the table on and says so.
func (p *Poller) publish(t *table.Table, serve func(*table.Table)) {
	start := time.Now()
	before := p.served
	serve(t)
	p.served = t
	now := time.Now()
	p.cfg.Metrics.duration.WithLabelValues(phasePublish).Observe(now.Sub(start).Seconds())
	p.initialize(now)
	p.update(func(s *Status) { s.Updated = now })
	p.log.Info(LogRoutesUpdated, describe(t)...)
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		logChanges(p.log, before, t)
	}
}

// describe gives the attributes of a table for the log.
func describe(t *table.Table) []any {
	return []any{"bytes", t.Bytes(), "count", t.Len(), "hash", t.Digest().String()}
}
