package validate

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Reviewed: what a review refuses reaches no client before an acceptance. The run says which versions of objects those are, with the class of
// their changes, so the validator finds neither takeovers nor bad texts as the programs do.
func Reviewed(h *history.History) []Violation { return alone(h, (*Index).reviewed) }

func (x *Index) reviewed() []Violation {
	refused := make(map[line]*thing)
	for _, e := range x.epochs {
		for _, t := range e.owners {
			x.refuse(e, t, refused)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	var all []Violation
	for _, s := range x.seen() {
		a := &x.h.Answers[s.first]
		if slices.ContainsFunc(x.h.Events, func(e history.Event) bool { return e.Name == "accept" && e.At <= a.End }) {
			continue
		}
		lines, err := parse(x.h.Tables[s.digest])
		if err != nil {
			continue // Atomic is about that
		}
		for _, l := range lines {
			if t := refused[l]; t != nil {
				all = append(all, Violation{NameReviewed, a.End, a.Client, s.first, fmt.Sprintf(
					"table %s of revision %d from %s has route %s of a version of %s that a review refuses", short(s.digest), s.revision, a.Server, l.id, t.ref)})
				break
			}
		}
	}
	return all
}

// refuse adds the routes that only refused versions of an object have.
func (x *Index) refuse(e *epoch, t *thing, refused map[line]*thing) {
	if !t.reviewed() {
		return
	}
	for _, bad := range []bool{true, false} {
		for _, s := range t.states {
			if s.isRefused() != bad {
				continue
			}
			for _, l := range x.oracle.routes(e.full(t, s), "").lines {
				if bad && !x.oracle.isShared(l.id) { // else another object may have it, as with the catch-all of a host
					refused[l] = t
				} else if !bad {
					delete(refused, l)
				}
			}
		}
	}
}

// reviewed reports whether a review refuses a version of an object. Then the object may be kept at an earlier one.
func (t *thing) reviewed() bool {
	return slices.ContainsFunc(t.states, (*state).isRefused)
}

func (s *state) isRefused() bool { return s.class == "refused" }
