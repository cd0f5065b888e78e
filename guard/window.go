package guard

import (
	"maps"
	"time"
)

// ReturnTolerance is the share of the older members that may be missing from a table that counts as a return to an earlier state:
// the cluster keeps changing during a repair.
const ReturnTolerance = 0.05

// window remembers which members of a set were recently gained and lost. Together with the set that is served now, this is
// everything that was served within the window. Its size depends on the changes, not on the tables.
type window struct {
	gained map[member]time.Time // members that did not exist when the window began
	lost   map[member]loss      // members that no longer exist
}

// loss is a member that was lost.
type loss struct {
	at    time.Time
	young bool // it was gained within the window
}

// count says how much a table lacks.
type count struct{ missing, all int }

// beyond reports whether more than the share is missing.
func (c count) beyond(share float64) bool {
	return c.all > 0 && float64(c.missing) > share*float64(c.all)
}

// since counts everything that was served within the window, and how much of it is missing after the change. size is the size of
// the served set.
func (w *window) since(c *change, size int) count {
	missing := len(w.lost) + len(c.gone)
	for _, m := range c.come {
		if _, back := w.lost[m]; back {
			missing--
		}
	}
	return count{missing, size + len(w.lost)}
}

// older counts the members that existed when the window began, and how many of them are missing after the change: what was added
// meanwhile makes up for nothing.
func (w *window) older(c *change, size int) count {
	young := 0
	for _, l := range w.lost {
		if l.young {
			young++
		}
	}
	missing := len(w.lost) - young
	for _, m := range c.come {
		if l, back := w.lost[m]; back && !l.young {
			missing--
		}
	}
	for _, m := range c.gone {
		if _, young := w.gained[m]; !young {
			missing++
		}
	}
	return count{missing, size - len(w.gained) + len(w.lost) - young}
}

// returns reports whether the change undoes additions within the window: hardly any of the members that existed when the window
// began is missing afterwards.
func (w *window) returns(c *change, size int) bool {
	old := w.older(c, size)
	return old.all > 0 && !old.beyond(ReturnTolerance)
}

// apply records that the change was served at a time. size is the size of the set before it. Members that were added within the
// window and disappear in a return never count as lost.
func (w *window) apply(c *change, size int, at time.Time) {
	if len(c.gone) > 0 && w.returns(c, size) {
		c = w.forgetYoung(c)
	}
	for _, m := range c.left {
		delete(w.gained, m)
		delete(w.lost, m)
	}
	for _, m := range c.gone {
		_, young := w.gained[m]
		delete(w.gained, m)
		w.lost[m] = loss{at, young}
	}
	for _, m := range c.come {
		if lost, back := w.lost[m]; !back || lost.young {
			w.gained[m] = at
		}
		delete(w.lost, m)
	}
}

// forgetYoung stops counting lost young members as losses, and returns the change without those that it removes.
func (w *window) forgetYoung(c *change) *change {
	maps.DeleteFunc(w.lost, func(_ member, l loss) bool { return l.young })
	rest := *c
	rest.gone = nil
	for _, m := range c.gone {
		if _, young := w.gained[m]; young {
			delete(w.gained, m)
		} else {
			rest.gone = append(rest.gone, m)
		}
	}
	return &rest
}

// expire forgets additions and losses older than the span. During a hold, when since is not zero, it keeps the entries that were in the
// window when the hold began: otherwise the held table would pass without a release.
func (w *window) expire(span time.Duration, now, since time.Time) {
	old := func(at time.Time) bool {
		return now.Sub(at) >= span && (!at.Before(since) || since.Sub(at) >= span)
	}
	maps.DeleteFunc(w.gained, func(_ member, at time.Time) bool { return old(at) })
	maps.DeleteFunc(w.lost, func(_ member, l loss) bool { return old(l.at) })
}
