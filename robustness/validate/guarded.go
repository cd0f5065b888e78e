package validate

import (
	"crypto/sha256"
	"encoding/hex"
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
		if x.suspicious(shape(served), shape(s), s.revision, a.End) == nil {
			served = s
			continue
		}
		// The guard compares with what it published last. No client may have seen that, when the process was killed soon after.
		from := published{digest: served.digest, revision: served.revision, shape: shape(served), exact: true}
		for _, to := range append(x.unseen(name, served, s), published{s.digest, s.revision, a.End, shape(s), true}) {
			if !to.exact {
				from = to
				continue
			}
			if loss := x.suspicious(from.shape, to.shape, to.revision, to.at); loss != nil && !x.mayPass(name, to, loss.since) &&
				!x.repairs(before[:len(before)-1], to, shape) {
				all = append(all, Violation{NameGuarded, a.End, a.Client, s.first, fmt.Sprintf(
					"%s published table %s of revision %d after %s of revision %d without a hold or an acceptance: %s", name, short(to.digest),
					to.revision, short(from.digest), from.revision, loss.why)})
			}
			from = to
		}
		served = s
	}
	return all
}

// published is a table that a server published, whether or not a client has seen it.
type published struct {
	digest   string
	revision uint64
	at       time.Duration
	shape    *shape
	exact    bool // shape belongs to the digest; otherwise it is only what all objects have at the revision
}

// unseen returns the tables that a server published between two that clients have seen, according to its log.
func (x *Index) unseen(name string, was, is *sighting) []published {
	seen := x.h.Answers[is.first].End
	var log []history.Publication // up to the one of is
	for _, p := range x.h.Publications {
		switch {
		case p.At > seen+x.processing: // a line of the log may be read later than a client gets its table
		case p.Member == name:
			log = append(log, p)
		}
	}
	last := func(digest string, log []history.Publication) int {
		for i, p := range slices.Backward(log) {
			if p.Digest == digest {
				return i
			}
		}
		return -1
	}
	if to := last(is.digest, log); to >= 0 {
		log = log[:to]
	}
	var all []published
	for _, p := range log[last(was.digest, log)+1:] {
		text, known := x.h.Tables[p.Digest]
		if !known {
			text = x.oracle.at(x.epochAt(p.At), p.Revision)
			sum := sha256.Sum256([]byte(text))
			known = hex.EncodeToString(sum[:]) == p.Digest
		}
		// A table of the last-good file may go back behind what was served: nobody judges it.
		all = append(all, published{p.Digest, p.Revision, p.At, shapeOf(text), known && !p.Stale})
	}
	return all
}

// loss is what makes a table look like an accident.
type loss struct {
	why   string
	since time.Duration // when the source began to show it
}

// suspicious returns why a guard must hold a table of a revision that was published at a time; nil if it need not.
func (x *Index) suspicious(was, is *shape, revision uint64, at time.Duration) *loss {
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
		return &loss{fmt.Sprintf("%d of %d routes are gone", len(lost), len(was.ids)), x.crossed(lost, limit, revision, at)}
	}
	most := max(minBackendLoss-1, int(maxBackendLoss*float64(was.serving)))
	if len(drained) > most {
		return &loss{fmt.Sprintf("%d of %d routes have lost all endpoints", len(drained), was.serving), x.crossed(drained, most, revision, at)}
	}
	return nil
}

// repairs reports whether a table undoes additions within the window: nearly nothing is missing compared with a table served when
// the window may have begun.
func (x *Index) repairs(before []*sighting, p published, shape func(*sighting) *shape) bool {
	window := x.h.Run.Window
	if window == 0 {
		window = defaultWindow
	}
	from := p.at - window - x.processing
	for _, b := range slices.Backward(before) {
		was, gone := shape(b), 0
		for id := range was.ids {
			if _, ok := p.shape.ids[id]; !ok {
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
func (x *Index) crossed(ids []string, limit int, revision uint64, at time.Duration) time.Duration {
	e := x.epochAt(at)
	var when []time.Duration
	for _, id := range ids {
		var changed time.Duration
		for ref := range x.oracle.shared[id] {
			if t := e.things[ref]; t != nil {
				changed = max(changed, e.touched(t, revision))
			}
		}
		when = append(when, changed)
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
func (x *Index) mayPass(name string, p published, since time.Duration) bool {
	for _, e := range x.h.Events {
		if e.Name == "accept" && (e.Member == name || e.Member == "") && e.At <= p.at && e.At >= since {
			return true // accepted for this loss; its digest changes with every endpoint
		}
	}
	if slices.ContainsFunc(x.resets(), func(r time.Duration) bool { return r <= p.at && p.at < r+afterReset && r+time.Second >= since }) {
		since = p.at // a restore may bring any table: the guard judges it like a loss
	}
	if x.heldLongEnough(name, p.at) {
		return true
	}
	return len(p.shape.ids) > 0 && p.at-since >= x.h.Run.Hold-time.Second
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
