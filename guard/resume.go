package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Ongoing is a hold that outlives its process: what the next process must know of it, beside the served table. The held tables are not
// part of it, because every read shows a new one. It is a value; nothing that it refers to may be changed.
type Ongoing struct {
	Reason Code      `json:"reason"` // of its last judgement
	Since  time.Time `json:"since"`
	// Kinds is when the hold first saw a table that was suspicious for a reason of each kind.
	Kinds map[Code]time.Time `json:"kinds"`
	// Lost is the reason for which the hold keeps requests, or empty. Drained is set if it keeps endpoints.
	Lost    Code `json:"lost,omitempty"`
	Drained bool `json:"drained,omitempty"`
	// Least is the fewest requests that a judgement found missing, and Returned when that number last fell, or zero.
	Least    int       `json:"least,omitempty"`
	Returned time.Time `json:"returned,omitzero"`
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
	case o.Least < 0:
		return fmt.Errorf("%d requests are missing", o.Least)
	}
	for c := range o.Kinds {
		if !known(c) {
			return fmt.Errorf("reason %q is unknown", c)
		}
	}
	return nil
}

// Ongoing returns the current hold for a process that comes after this one, or false if no table is held.
func (g *Guard) Ongoing() (Ongoing, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hold
	if h == nil {
		return Ongoing{}, false
	}
	return Ongoing{
		Reason: h.verdict.Reason, Since: h.since, Kinds: maps.Clone(h.kinds), Lost: h.lost, Drained: h.drained,
		Least: h.least, Returned: h.returned,
	}, true
}

// Resume continues a hold of an earlier process, which served the table that the next judgement gets as the served one. The hold ends
// as if that process still ran, but its time begins anew: what the file tells may be older than what was served last, and no loss may be
// released by the time of another one. Time releases it after two judgements of this process. No table can be accepted before the first one.
// Call Resume before Judge. Times after now become now: the clock was set back. The error is that of [Ongoing.Check].
func (g *Guard) Resume(o Ongoing, now time.Time) error {
	if err := o.Check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := &hold{
		since: earlier(o.Since, now), kinds: make(map[Code]time.Time, len(o.Kinds)+1), lost: o.Lost, drained: o.Drained,
		least: o.Least, returned: now,
	}
	for c := range o.Kinds {
		h.kinds[c.kind()] = now
	}
	if _, known := h.kinds[o.Reason.kind()]; !known {
		h.kinds[o.Reason.kind()] = now
	}
	h.verdict = Verdict{Reason: o.Reason, Since: h.since}
	g.hold = h
	return nil
}
