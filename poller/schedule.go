package poller

import "time"

// recheckGap is the minimum time between the start of a read and one requested by [Poller.Recheck]: clients can cause rechecks,
// and must not overload the source. A failing source is not read early at all.
const recheckGap = time.Second

// schedule says when the next read is due, and how to read. It is owned by Run.
type schedule struct {
	timer      *time.Timer // fires when the read is due
	due        time.Time
	consistent bool // the read must be consistent

	started  time.Time // of the last read
	ended    time.Time // of the last read, with its table published
	failures int       // consecutive
}

// at sets when the next read is due.
func (s *schedule) at(due time.Time) {
	s.due = due
	s.timer.Reset(time.Until(due))
}

// sooner moves the next read to a time, if that is earlier.
func (s *schedule) sooner(early time.Time) {
	if early.Before(s.due) {
		s.at(early)
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
