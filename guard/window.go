package guard

import (
	"maps"
	"strings"
	"time"
)

// ReturnTolerance is the share of the older members that may be missing from a table that counts as a return to an earlier state:
// the cluster keeps changing during a repair.
const ReturnTolerance = 0.05

// window remembers which members of a set were recently gained and lost. Together with the set that is served now, this is
// everything that was served within the window. Its size depends on the changes, not on the tables.
type window[K comparable] struct {
	span   time.Duration
	gained map[K]time.Time // members that did not exist when the window began
	lost   map[K]loss      // members that no longer exist
	young  int             // how many of lost are young
	sweep  time.Time       // when the first entry may have expired
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

// reset forgets everything: the next table is compared only with what is served now.
func (w *window[K]) reset() {
	w.gained, w.lost, w.young, w.sweep = nil, nil, 0, time.Time{}
}

// since counts everything that was served within the window, and how much of it is missing after the change. size is the size of
// the served set.
func (w *window[K]) since(c change[K], size int) count {
	missing := len(w.lost) + len(c.gone)
	for _, name := range c.come {
		if _, back := w.lost[name]; back {
			missing--
		}
	}
	return count{missing, size + len(w.lost)}
}

// older counts the members that existed when the window began, and how many of them are missing after the change: what was added
// meanwhile makes up for nothing.
func (w *window[K]) older(c change[K], size int) count {
	missing := len(w.lost) - w.young
	for _, name := range c.come {
		if l, back := w.lost[name]; back && !l.young {
			missing--
		}
	}
	for _, name := range c.gone {
		if _, young := w.gained[name]; !young {
			missing++
		}
	}
	return count{missing, size - len(w.gained) + len(w.lost) - w.young}
}

// returns reports whether the change undoes additions within the window: hardly any of the members that existed when the window
// began is missing afterwards.
func (w *window[K]) returns(c change[K], size int) bool {
	old := w.older(c, size)
	return old.all > 0 && !old.beyond(ReturnTolerance)
}

// apply records that the change was served at a time. size is the size of the set before it. Members that were added within the
// window and disappear in a return never count as lost.
func (w *window[K]) apply(c change[K], size int, at time.Time) {
	if len(c.gone)+len(c.come)+len(c.left) == 0 {
		return
	}
	if w.gained == nil {
		w.gained, w.lost = make(map[K]time.Time), make(map[K]loss)
	}
	if len(w.gained)+len(w.lost) == 0 {
		w.sweep = at.Add(w.span)
	}
	if len(c.gone) > 0 && len(w.gained)+w.young > 0 && w.returns(c, size) {
		w.forgetYoung(&c)
	}
	for _, name := range c.left {
		delete(w.gained, name)
		w.find(name)
	}
	for _, name := range c.gone {
		_, young := w.gained[name]
		delete(w.gained, name)
		w.lost[w.owned(name)] = loss{at, young}
		if young {
			w.young++
		}
	}
	for _, name := range c.come {
		if lost, back := w.find(name); !back || lost.young {
			w.gained[w.owned(name)] = at
		}
	}
}

// forgetYoung stops counting lost young members as losses.
func (w *window[K]) forgetYoung(c *change[K]) {
	if w.young > 0 {
		maps.DeleteFunc(w.lost, func(_ K, l loss) bool { return l.young })
		w.young = 0
	}
	var old []K
	for _, name := range c.gone {
		if _, young := w.gained[name]; young {
			delete(w.gained, name)
		} else {
			old = append(old, name)
		}
	}
	c.gone = old
}

// owned returns a name that does not pin the text of a route.
func (w *window[K]) owned(name K) K {
	if s, ok := any(name).(string); ok {
		return any(strings.Clone(s)).(K)
	}
	return name
}

// find removes a member from the lost ones and returns it.
func (w *window[K]) find(name K) (l loss, found bool) {
	if l, found = w.lost[name]; found {
		delete(w.lost, name)
		if l.young {
			w.young--
		}
	}
	return l, found
}

// expire forgets additions and losses older than the window. It runs at most about 16 times per window, so an entry may stay for
// a sixteenth of the window too long. During a hold, when since is not zero, it keeps the entries that were in the window when
// the hold began: otherwise the held table would pass without a release.
func (w *window[K]) expire(now, since time.Time) {
	if len(w.gained)+len(w.lost) == 0 || now.Before(w.sweep) {
		return
	}
	old := func(at time.Time) bool {
		return now.Sub(at) >= w.span && (!at.Before(since) || since.Sub(at) >= w.span)
	}
	first := now
	maps.DeleteFunc(w.gained, func(_ K, at time.Time) bool {
		if old(at) {
			return true
		}
		first = earlier(first, at)
		return false
	})
	maps.DeleteFunc(w.lost, func(_ K, l loss) bool {
		if old(l.at) {
			if l.young {
				w.young--
			}
			return true
		}
		first = earlier(first, l.at)
		return false
	})
	w.sweep = first.Add(w.span)
	if least := now.Add(w.span / 16); w.sweep.Before(least) {
		w.sweep = least
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
