package poller

import "time"

// recheckGap is the least time between the start of a read and one that was asked for by [Poller.Recheck]: clients can ask for
// rechecks, and they must not make the source suffer. A source that fails is not read early at all.
const recheckGap = time.Second

// schedule is when the next read is due, and how it is to be. It is owned by Run.
type schedule struct {
	timer      *time.Timer // fires when it is due
	due        time.Time
	consistent bool // it has to be

	started  time.Time // of the last read
	ended    time.Time // of the last read, table published
	failures int       // in a row
}

// at sets when the next read is due.
func (s *schedule) at(due time.Time) {
	s.due = due
	s.timer.Reset(time.Until(due))
}

// sooner makes the next read due at a time that is earlier than before, if it is.
func (s *schedule) sooner(early time.Time) {
	if early.Before(s.due) {
		s.at(early)
	}
}

// asked schedules a read for a client that has a newer table: past all caches, and soon. But a source that fails needs its
// rest, and would not give an answer any sooner.
func (s *schedule) asked() {
	s.consistent = true
	if s.failures == 0 {
		s.sooner(s.started.Add(recheckGap))
	}
}

// changed schedules a read because the source has something, or has recovered: that is worth a read at once, also one that
// failed. After a read that took long the next one waits for as long again: a cluster in which something changes all the
// time must not take all of a processor.
func (s *schedule) changed() { s.sooner(s.ended.Add(s.ended.Sub(s.started))) }
