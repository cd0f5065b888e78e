package guard

import (
	"maps"
	"strings"
	"time"

	"github.com/routesrv/routesrv/table"
)

// returnTolerance is the share of the older members that a table may lack and still count as a return to what was served
// before: the cluster goes on changing while somebody repairs it.
const returnTolerance = 0.05

// change is what a set of names loses and gains from one table to the next.
type change struct {
	gone []string // lost
	come []string // gained
	left []string // neither in the set any more nor lost
}

// difference is what the rules about losses need to know of two tables.
type difference struct {
	routes, hosts, backends change
	endpoints               int // how many more routes have endpoints
}

// compareTables finds the difference. It costs what the changed blocks cost, unless hosts may have changed.
func compareTables(before, after *table.Table) (d difference) {
	hosts := false
	for was, is := range table.Changes(before.Routes(), after.Routes()) {
		hosts = hosts || was == nil || is == nil || was.Hosts != is.Hosts
		switch {
		case was == nil:
			d.routes.come = append(d.routes.come, is.ID)
			if backendOf(is) == endpointsBackend {
				d.backends.come = append(d.backends.come, is.ID)
				d.endpoints++
			}
		case is == nil:
			d.routes.gone = append(d.routes.gone, was.ID)
			d.backends.left = append(d.backends.left, was.ID)
			if backendOf(was) == endpointsBackend {
				d.endpoints--
			}
		default:
			d.endpoints += d.backends.move(was, is)
		}
	}
	if hosts { // else they are the same, and comparing them costs more than all of the above
		d.hosts.gone, d.hosts.come = table.HostChanges(before, after)
	}
	return d
}

// move notes a route that both tables have, and returns how many more of the two have endpoints now: -1, 0 or 1.
func (c *change) move(was, is *table.Route) (more int) {
	had, has := backendOf(was), backendOf(is)
	switch {
	case had == has:
	case has == endpointsBackend:
		c.come = append(c.come, is.ID)
		more = 1
	case had == endpointsBackend && has == shuntBackend:
		c.gone = append(c.gone, is.ID)
		more = -1
	case had == endpointsBackend:
		c.left = append(c.left, is.ID)
		more = -1
	case has == otherBackend:
		c.left = append(c.left, is.ID)
	}
	return more
}

// window remembers which members of a set were gained and lost lately: together with the set that is served now, that is
// everything that was served within the window. Its size is that of the changes and not that of the tables.
type window struct {
	span   time.Duration
	gained map[string]time.Time // members that were not there when the window began
	lost   map[string]loss      // members that are not there now
	young  int                  // how many of lost are young
	sweep  time.Time            // when the first entry may have expired
}

// loss is a member that was lost.
type loss struct {
	at    time.Time
	young bool // it had been gained within the window
}

// count is what a table lacks.
type count struct{ missing, all int }

// beyond reports whether more than the share is missing.
func (c count) beyond(share float64) bool {
	return c.all > 0 && float64(c.missing) > share*float64(c.all)
}

// reset forgets everything: what is served now is all that a next table is compared with.
func (w *window) reset() {
	w.gained, w.lost, w.young, w.sweep = nil, nil, 0, time.Time{}
}

// since counts what was served at some time within the window, and what of it the change leaves missing; size is that of
// the served set.
func (w *window) since(c change, size int) count {
	missing := len(w.lost) + len(c.gone)
	for _, name := range c.come {
		if _, back := w.lost[name]; back {
			missing--
		}
	}
	return count{missing, size + len(w.lost)}
}

// returns reports whether the change undoes what came within the window: of the members that were there when it began
// hardly any is missing afterwards.
func (w *window) returns(c change, size int) bool {
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
	old := count{missing, size - len(w.gained) + len(w.lost) - w.young}
	return old.all > 0 && !old.beyond(returnTolerance)
}

// apply notes that the change was served at a time; size is that of the set before it. What came within the window and
// goes by a return never counts as lost.
func (w *window) apply(c change, size int, at time.Time) {
	if len(c.gone)+len(c.come)+len(c.left) == 0 {
		return
	}
	if w.gained == nil {
		w.gained, w.lost = make(map[string]time.Time), make(map[string]loss)
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
		w.lost[strings.Clone(name)] = loss{at, young} // the clone does not pin the route's text
		if young {
			w.young++
		}
	}
	for _, name := range c.come {
		if lost, back := w.find(name); !back || lost.young {
			w.gained[strings.Clone(name)] = at
		}
	}
}

// forgetYoung makes a loss of young members no loss.
func (w *window) forgetYoung(c *change) {
	if w.young > 0 {
		maps.DeleteFunc(w.lost, func(_ string, l loss) bool { return l.young })
		w.young = 0
	}
	var old []string
	for _, name := range c.gone {
		if _, young := w.gained[name]; young {
			delete(w.gained, name)
		} else {
			old = append(old, name)
		}
	}
	c.gone = old
}

// find takes a member out of those that are lost.
func (w *window) find(name string) (l loss, found bool) {
	if l, found = w.lost[name]; found {
		delete(w.lost, name)
		if l.young {
			w.young--
		}
	}
	return l, found
}

// expire forgets what came and went before the window. It looks at everything some 16 times for each window at most, so
// that an entry may stay for a sixteenth of the window too long. While a hold lasts, since when is not zero, the entries that
// were in the window when it began stay: what is held for them would pass otherwise, although nobody let it go.
func (w *window) expire(now, since time.Time) {
	if len(w.gained)+len(w.lost) == 0 || now.Before(w.sweep) {
		return
	}
	old := func(at time.Time) bool {
		return now.Sub(at) >= w.span && (!at.Before(since) || since.Sub(at) >= w.span)
	}
	first := now
	maps.DeleteFunc(w.gained, func(_ string, at time.Time) bool {
		if old(at) {
			return true
		}
		first = earlier(first, at)
		return false
	})
	maps.DeleteFunc(w.lost, func(_ string, l loss) bool {
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
