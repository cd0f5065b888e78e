package validate

import (
	"fmt"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Complete: no table is published from a partial read. It includes every route that its object had during the whole read, and
// each half is as new as the read.
func Complete(h *history.History) []Violation { return alone(h, (*Index).complete) }

func (x *Index) complete() []Violation {
	all := x.fromFindings(NameComplete, func(s *sighting, f finding) bool {
		return !f.delayed && (f.fault == missing || f.fault == torn || f.fault == stale && !(f.backends && s.held))
	})
	for _, s := range x.seen() {
		if x.exact(s) && len(x.findings(s)) == 0 && !x.known(s) {
			a := &x.h.Answers[s.first]
			all = append(all, Violation{NameComplete, a.End, a.Client, s.first, fmt.Sprintf(
				"table %s of revision %d from %s is not what a complete read has shown", short(s.digest), s.revision, a.Server)})
		}
	}
	return all
}

// Isolated: an invalid object affects only itself. Every line can be parsed separately, and is a route of an object that may have
// it; while there are invalid objects, all others keep their routes.
func Isolated(h *history.History) []Violation { return alone(h, (*Index).isolated) }

func (x *Index) isolated() []Violation {
	return x.fromFindings(NameIsolated, func(s *sighting, f finding) bool {
		switch {
		case f.delayed:
			return false
		case f.fault == foreign, f.fault == unreadable:
			return true
		case f.fault == missing:
			return x.hasInvalid(s, f)
		}
		return false
	})
}

// hasInvalid reports whether another object was invalid when a table was first received.
func (x *Index) hasInvalid(s *sighting, f finding) bool {
	at := x.h.Answers[s.first].End
	e := x.epochAt(at)
	now := e.newest(at)
	for _, t := range e.owners {
		if o := t.at(now); t.ref != f.ref && !o.deleted && (o.class == "invalid" || o.class == "poison") {
			return true
		}
	}
	return false
}

// fromFindings returns a violation for the first relevant finding of each table.
func (x *Index) fromFindings(name string, counts func(*sighting, finding) bool) []Violation {
	var all []Violation
	for _, s := range x.seen() {
		var found []finding
		for _, f := range x.findings(s) {
			if counts(s, f) {
				found = append(found, f)
			}
		}
		if len(found) == 0 {
			continue
		}
		a := &x.h.Answers[s.first]
		text := fmt.Sprintf("table %s of revision %d from %s: %s", short(s.digest), s.revision, a.Server, found[0])
		if n := len(found); n > 1 {
			text += fmt.Sprintf(" (and %d more)", n-1)
		}
		all = append(all, Violation{name, a.End, a.Client, s.first, text})
	}
	return all
}
