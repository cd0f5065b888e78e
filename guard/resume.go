package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ongoing is a hold that outlives its process: what the next process must know of it, beside the served table. The held tables are not
// part of it, because every read shows a new one. It is a value; nothing that it refers to may be changed.
type Ongoing struct {
	Reason Code      `json:"reason"` // of its last judgement
	Since  time.Time `json:"since"`
	// Lost is the reason for which the hold keeps requests, or empty. Drained is set if it keeps endpoints.
	Lost    Code `json:"lost,omitempty"`
	Drained bool `json:"drained,omitempty"`
}

// Check returns an error for a value that no Guard has made.
func (o Ongoing) Check() error {
	known := func(c Code) bool { return slices.Contains(Codes(), c) }
	switch {
	case !known(o.Reason):
		return fmt.Errorf("reason %q is unknown", o.Reason)
	case o.Since.IsZero():
		return errors.New("no time at which the hold began")
	case o.Lost != "" && !(known(o.Lost) && o.Lost.loses()):
		return fmt.Errorf("reason %q loses no requests", o.Lost)
	default:
		return nil
	}
}

// Ongoing returns the current hold for a process that comes after this one, or false if no table is held.
func (g *Guard) Ongoing() (Ongoing, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hold
	if h == nil {
		return Ongoing{}, false
	}
	return Ongoing{Reason: h.verdict.Reason, Since: h.since, Lost: h.lost, Drained: h.drained}, true
}

// Resume continues a hold of an earlier process, which served the table that the next judgement gets as the served one. The hold ends
// as if that process still ran, but its time starts again with that judgement: the file that tells of it may be older than what was
// served last, and the time of one loss must not release another. No table can be accepted before the first judgement. Call Resume
// before Judge. A time after now becomes now: the clock was set back. The error is that of [Ongoing.Check].
func (g *Guard) Resume(o Ongoing, now time.Time) error {
	if err := o.Check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	since := earlier(o.Since, now)
	g.hold = &hold{
		since: since, kinds: make(map[Code]time.Time), lost: o.Lost, drained: o.Drained,
		verdict: Verdict{Reason: o.Reason, Since: since},
	}
	return nil
}
