package validate

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// CanaryFirst: with a canary, no route of an object is in the table of the fleet, or gone from it, before that was so in the table of the canary for the
// soak time, except for its endpoints. A version that was halted is in neither: the run says which those are, with the class of their changes.
func CanaryFirst(h *history.History) []Violation { return alone(h, (*Index).canaryFirst) }

func (x *Index) canaryFirst() (all []Violation) {
	soak := x.h.Run.Soak
	if soak == 0 {
		return nil
	}
	halted := make(map[line]*thing)
	for _, e := range x.epochs {
		for _, t := range e.owners {
			x.halt(e, t, halted)
		}
	}
	// A client asks often, so that it misses little; what it missed makes a soak look shorter.
	slack := 20*x.h.Run.Interval/10 + time.Duration(max(1, x.h.Run.Stretch)*float64(500*time.Millisecond))
	first := make(map[bool]map[string]map[string]time.Duration) // by canary, id and text: when it was first so
	for _, canary := range []bool{false, true} {
		first[canary] = make(map[string]map[string]time.Duration)
	}
	begun := make(map[bool]bool)
	last := make(map[bool]map[string]string)
	var stopped time.Duration // when an operator halted; 0 if never
	for _, e := range x.h.Events {
		if e.Name == "halt" {
			stopped = e.At
		}
	}
	for _, i := range x.byEnd() {
		a := &x.h.Answers[i]
		text, known := x.h.Tables[a.Digest]
		if !has(a) || a.Outcome != history.Applied || !known {
			continue
		}
		lines, err := parse(text)
		if err != nil {
			continue // Atomic is about that
		}
		canary := x.onCanary(a)
		report := func(id, what string) {
			all = append(all, Violation{NameCanaryFirst, a.End, a.Client, i, fmt.Sprintf("table %s from %s: route %s %s", short(a.Digest), a.Server, id, what)})
		}
		now := make(map[string]string, len(lines))
		for _, l := range lines {
			now[l.id] = head(l.text)
			if t := halted[line{l.id, head(l.text)}]; t != nil && (!canary || stopped > 0 && a.Begin > stopped+slack) {
				report(l.id, "of a halted version of "+t.ref.String())
			}
		}
		for id := range last[canary] {
			if _, there := now[id]; !there {
				now[id] = "" // gone
			}
		}
		for id, text := range now {
			texts := first[canary][id]
			if texts == nil {
				texts = make(map[string]time.Duration)
				first[canary][id] = texts
			}
			if _, before := texts[text]; !before {
				if texts[text] = a.End; !begun[canary] {
					texts[text] = -time.Hour
				}
			}
			if canary || !begun[false] || last[false][id] == text {
				continue
			}
			switch since, shown := first[true][id][text]; {
			case !shown:
				report(id, "reached the fleet, and never the canary")
			case a.End-since < soak-slack:
				report(id, fmt.Sprintf("reached the fleet %v after the canary, the soak takes %v", a.End-since, soak))
			}
		}
		begun[canary] = true
		last[canary] = now
		if len(all) > maxOfOne {
			return all
		}
	}
	return all
}

// halt adds the routes that only halted versions of an object have, without backends.
func (x *Index) halt(e *epoch, t *thing, halted map[line]*thing) {
	if !slices.ContainsFunc(t.states, (*state).isHalted) {
		return
	}
	for _, bad := range []bool{true, false} {
		for _, s := range t.states {
			if s.isHalted() != bad {
				continue
			}
			for _, l := range x.oracle.routes(e.full(t, s), "").lines {
				if l.text = head(l.text); bad && !x.oracle.isShared(l.id) {
					halted[l] = t
				} else if !bad {
					delete(halted, l)
				}
			}
		}
	}
}

func (s *state) isHalted() bool { return s.class == "halted" }
