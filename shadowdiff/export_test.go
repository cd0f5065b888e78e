package shadowdiff

import "time"

// NewLimitedTracker returns a tracker of at most most differences of each kind; 0 means the default.
func NewLimitedTracker(most int) *Tracker {
	t := NewTracker(3 * time.Second)
	if most > 0 {
		t.most = most
	}
	return t
}
