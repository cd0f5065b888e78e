package poller

import (
	"math/rand/v2"
	"time"
)

// recheckGap is the minimum time between the start of a read and one requested by [Poller.Recheck]: clients can cause rechecks,
// and must not overload the source. A failing source is not read early at all.
const recheckGap = time.Second

// schedule says when the next read is due, and how to read. It is owned by Run.
//
// While reads fail they come after a growing delay, because they may be expensive. Probes are cheap and come often: one that succeeds
// triggers a read at once. If that read fails nevertheless, reads return to their delay until a probe has failed, because the cause is
// something that a probe cannot see.
type schedule struct {
	timer      *time.Timer // fires when a read or a probe is due
	due        time.Time   // when the next read is due
	probe      time.Time   // when the next probe is due; zero for none
	trusted    bool        // a successful probe triggers a read
	consistent bool        // the read must be consistent

	started  time.Time // of the last read
	ended    time.Time // of the last read, with its table published
	failures int       // consecutive
}

// wake sets the timer.
func (s *schedule) wake() {
	next := s.due
	if !s.probe.IsZero() && s.probe.Before(next) {
		next = s.probe
	}
	s.timer.Reset(time.Until(next))
}

// sooner moves the next read to a time, if that is earlier.
func (s *schedule) sooner(early time.Time) {
	if early.Before(s.due) {
		s.due = early
	}
}

// asked schedules a soon and consistent read for a client that has a newer table. It does not speed up a failing source, which
// needs time to recover and would not answer sooner.
func (s *schedule) asked() {
	s.consistent = true
	if s.failures == 0 {
		s.sooner(s.started.Add(recheckGap))
	}
}

// changed schedules a read at once because the source has changed or recovered, even after a failure. After a long read, the next
// one waits as long as that read took, so that a cluster with constant changes does not use a whole CPU.
func (s *schedule) changed() { s.sooner(s.ended.Add(s.ended.Sub(s.started))) }

// probed records the result of a probe. It reports whether to read now.
func (s *schedule) probed(down error, interval time.Duration) bool {
	now := time.Now()
	// With jitter, so that replicas do not stay in step.
	s.probe = now.Add(interval - interval/5 + time.Duration(rand.Int64N(int64(interval/5)+1)))
	s.trusted = s.trusted || down != nil
	switch {
	case !now.Before(s.due):
		return true
	case down != nil || !s.trusted:
		return false
	}
	s.trusted = false
	return true
}
