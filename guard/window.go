package guard

import (
	"maps"
	"strings"
	"time"

	"github.com/routesrv/routesrv/table"
)

// returnTolerance is the share of the older members that may be missing from a table that counts as a return to an earlier state:
// the cluster keeps changing during a repair.
const returnTolerance = 0.05

// change lists the names that a set loses and gains from one table to the next.
type change struct {
	gone []string // lost
	come []string // gained
	left []string // no longer in the set, but not lost either
}

// difference is what the rules about losses need to know about two tables.
type difference struct {
	routes, hosts, backends change
	endpoints               int // by how many more routes have endpoints
}

// compareTables returns the difference. It costs as much as the changed blocks, unless hosts may have changed.
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
	if hosts { // otherwise the hosts are equal, and comparing them would cost more than everything above
		d.hosts.gone, d.hosts.come = table.HostChanges(before, after)
	}
	return d
}

// move records a route that both tables have. It returns by how much the number of routes with endpoints grows: -1, 0 or 1.
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

// window remembers which members of a set were recently gained and lost. Together with the set that is served now, this is
// everything that was served within the window. Its size depends on the changes, not on the tables.
type window struct {
	span   time.Duration
	gained map[string]time.Time // members that did not exist when the window began
	lost   map[string]loss      // members that no longer exist
	young  int                  // how many of lost are young
	sweep  time.Time            // when the first entry may have expired
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
func (w *window) reset() {
	w.gained, w.lost, w.young, w.sweep = nil, nil, 0, time.Time{}
}

// since counts everything that was served within the window, and how much of it is missing after the change. size is the size of
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

// returns reports whether the change undoes additions within the window: hardly any of the members that existed when the window
// began is missing afterwards.
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

// apply records that the change was served at a time. size is the size of the set before it. Members that were added within the
// window and disappear in a return never count as lost.
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
		w.lost[strings.Clone(name)] = loss{at, young} // cloned, so that the key does not pin the route's text
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

// forgetYoung stops counting lost young members as losses.
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

// find removes a member from the lost ones and returns it.
func (w *window) find(name string) (l loss, found bool) {
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
