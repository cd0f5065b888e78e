package validate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/robustness/history"
)

// Limits of the guard that are not in the history: see package guard.
const (
	minBackendLoss = 20
	maxBackendLoss = 0.5
	repairShare    = 0.05
	defaultWindow  = 10 * time.Minute
)

// Guarded: no table that looks like an accident reaches a client before the hold time has passed, unless an acceptance is
// recorded, even after a restart.
func Guarded(h *history.History) []Violation { return alone(h, (*Index).guarded) }

func (x *Index) guarded() []Violation {
	if x.h.Run.MaxLoss == 0 || x.h.Run.MaxLoss == 1 {
		return nil // the rule is off
	}
	var all []Violation
	for name, m := range x.members {
		if m.Kind == history.Server {
			all = append(all, x.guardOf(name)...)
		}
	}
	return all
}

// shape holds the numbers of a table that the guard uses.
type shape struct {
	ids     map[string]bool // maps to whether the route has endpoints
	serving int             // routes with endpoints
}

func shapeOf(text string) *shape {
	s := &shape{ids: make(map[string]bool)}
	lines, err := parse(text)
	if err != nil {
		return s
	}
	for _, l := range lines {
		endpoints := strings.Contains(l.text[len(head(l.text)):], `"`)
		s.ids[l.id] = endpoints
		if endpoints {
			s.serving++
		}
	}
	return s
}

// guardOf follows the tables that a server published, as seen by its direct clients, in the order of their revisions.
func (x *Index) guardOf(name string) []Violation {
	var all []Violation
	var served *sighting
	var before []*sighting // in the order in which they were served
	shapes := make(map[string]*shape)
	shape := func(s *sighting) *shape {
		if shapes[s.digest] == nil {
			shapes[s.digest] = shapeOf(x.h.Tables[s.digest])
		}
		return shapes[s.digest]
	}
	for _, s := range x.seen() {
		a := &x.h.Answers[s.first]
		if a.Server != name || s.zone != "" {
			continue
		}
		before = append(before, s)
		if served == nil || s.revision < served.revision || s.digest == served.digest {
			if served == nil || x.h.Answers[s.first].State != wire.StateStale && s.revision >= served.revision {
				served = s
			}
			continue // a late answer, or a table from before a restore
		}
		if why, since := x.suspicious(shape(served), shape(s), s); why != "" && !x.mayPass(name, s, since) &&
			!x.repairs(before[:len(before)-1], s, shape) {
			all = append(all, Violation{NameGuarded, a.End, a.Client, s.first, fmt.Sprintf(
				"%s published table %s of revision %d after %s of revision %d without a hold or an acceptance: %s", name, short(s.digest), s.revision,
				short(served.digest), served.revision, why)})
		}
		served = s
	}
	return all
}

// suspicious returns why a guard must hold a table, and when the source began to show it; the reason is empty if it need not.
func (x *Index) suspicious(was, is *shape, s *sighting) (why string, since time.Duration) {
	var lost, drained []string
	for id, serving := range was.ids {
		now, there := is.ids[id]
		if !there {
			lost = append(lost, id)
		} else if serving && !now {
			drained = append(drained, id)
		}
	}
	limit := int(x.h.Run.MaxLoss * float64(len(was.ids)))
	if len(lost) > limit {
		return fmt.Sprintf("%d of %d routes are gone", len(lost), len(was.ids)), x.crossed(lost, limit, s)
	}
	most := max(minBackendLoss-1, int(maxBackendLoss*float64(was.serving)))
	if len(drained) > most {
		return fmt.Sprintf("%d of %d routes have lost all endpoints", len(drained), was.serving), x.crossed(drained, most, s)
	}
	return "", 0
}

// repairs reports whether a table undoes additions within the window: nearly nothing is missing compared with a table served when
// the window may have begun.
func (x *Index) repairs(before []*sighting, s *sighting, shape func(*sighting) *shape) bool {
	window := x.h.Run.Window
	if window == 0 {
		window = defaultWindow
	}
	is, from := shape(s), x.h.Answers[s.first].End-window-x.processing
	for _, b := range slices.Backward(before) {
		was, gone := shape(b), 0
		for id := range was.ids {
			if _, ok := is.ids[id]; !ok {
				gone++
			}
		}
		if len(was.ids) > 0 && float64(gone) <= repairShare*float64(len(was.ids)) {
			return true
		}
		if x.h.Answers[b.first].End < from {
			break // the table served when the window began
		}
	}
	return false
}

// crossed returns when the number of changed routes in the source last exceeded the limit.
func (x *Index) crossed(ids []string, limit int, s *sighting) time.Duration {
	e := x.epochAt(x.h.Answers[s.first].End)
	var when []time.Duration
	for _, id := range ids {
		var at time.Duration
		for ref := range x.oracle.shared[id] {
			if t := e.things[ref]; t != nil {
				at = max(at, e.touched(t, s.revision))
			}
		}
		when = append(when, at)
	}
	slices.Sort(when)
	return when[min(limit, len(when)-1)]
}

// touched returns when an object, or one of its dependencies, reached the state that it has at a revision.
func (e *epoch) touched(t *thing, revision uint64) time.Duration {
	now := t.at(revision)
	at := now.at
	if now.object == nil {
		return at
	}
	for _, name := range servicesOf(now.object) {
		for _, dep := range e.services[kube.ServiceKey{Namespace: kube.NamespaceOrDefault(t.ref.Namespace), Name: name}] {
			at = max(at, dep.at(revision).at)
		}
	}
	return at
}

// mayPass reports whether a table was accepted, or the source has shown the loss for the time of a hold.
func (x *Index) mayPass(name string, s *sighting, since time.Duration) bool {
	a := &x.h.Answers[s.first]
	for _, e := range x.h.Events {
		if e.Name == "accept" && (e.Member == name || e.Member == "") && e.At <= a.End && e.At >= since {
			return true // accepted for this loss; its digest changes with every endpoint
		}
	}
	if slices.ContainsFunc(x.resets(), func(r time.Duration) bool { return r <= a.End && a.End < r+afterReset && r+time.Second >= since }) {
		since = a.End // a restore may bring any table: the guard judges it like a loss
	}
	if x.heldLongEnough(name, a.End) {
		return true
	}
	empty := x.h.Tables[s.digest] == ""
	return !empty && a.End-since >= x.h.Run.Hold-time.Second
}

// heldLongEnough reports whether a hold has just ended after its full time, according to the server.
func (x *Index) heldLongEnough(name string, at time.Duration) bool {
	var began, ended time.Duration = -1, -1
	for _, e := range x.h.Events {
		if e.Member != name || e.At > at {
			continue
		}
		switch e.Name {
		case "held":
			if began < 0 || ended >= 0 {
				began, ended = e.At, -1
			}
		case "released":
			ended = e.At
		case "started":
			began, ended = -1, -1
		}
	}
	return began >= 0 && ended-began >= x.h.Run.Hold-time.Second && at-ended <= x.processing
}
