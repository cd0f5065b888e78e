package validate

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Bounded: slow or many clients do not block others, and no process exceeds its memory limit.
func Bounded(h *history.History) []Violation { return alone(h, (*Index).bounded) }

func (x *Index) bounded() []Violation {
	var all []Violation
	for i := range x.h.Answers {
		a := &x.h.Answers[i]
		m := x.members[a.Client]
		if a.End-a.Begin <= x.patience || a.Form == "event" || m == nil || m.Slow || !x.healthy(a) {
			continue
		}
		all = append(all, Violation{NameBounded, a.End, a.Client, i, fmt.Sprintf(
			"%s took %v for an answer to a healthy client (%s %s)", a.Server, (a.End - a.Begin).Round(time.Millisecond), a.Outcome, a.Why)})
	}
	said := make(map[string]bool)
	for _, s := range x.h.Samples {
		if x.h.Run.MemoryLimit == 0 || s.RSS <= x.h.Run.MemoryLimit || said[s.Member] {
			continue
		}
		said[s.Member] = true
		all = append(all, Violation{NameBounded, s.At, s.Member, -1, fmt.Sprintf(
			"%d MiB of memory, the limit is %d", s.RSS>>20, x.h.Run.MemoryLimit>>20)})
	}
	return all
}

// healthy reports whether neither a fault nor a stopped process affected an answer.
func (x *Index) healthy(a *history.Answer) bool {
	if x.faultOn(a.Client, a.Server, a.Begin, a.End) {
		return false
	}
	for _, member := range []string{a.Client, a.Server} {
		if slices.ContainsFunc(x.down(member), func(s span) bool { return s.meets(a.Begin-starting, a.End) }) {
			return false
		}
	}
	return true
}
