package validate

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Quiet: without a change in the source the ETag does not change, and a client that names the current table is not sent it again.
func Quiet(h *history.History) []Violation { return alone(h, (*Index).quiet) }

func (x *Index) quiet() []Violation {
	return append(x.changedByItself(), x.sentAgain()...)
}

// changedByItself finds a server whose table changed although nothing else had.
func (x *Index) changedByItself() []Violation {
	type shown struct {
		digest string
		at     time.Duration // when the answer that showed it began
	}
	now := make(map[[2]string]shown)
	var all []Violation
	for _, i := range x.byEnd() {
		a := &x.h.Answers[i]
		m := x.members[a.Server]
		if !has(a) || a.Outcome != history.Applied || m == nil || m.Kind != history.Server {
			continue
		}
		key := [2]string{a.Server, fmt.Sprint(x.zone(a.Client, a.Server), x.onCanary(a))}
		was, known := now[key]
		if known && was.digest != a.Digest && was.at < a.Begin && x.still(a.Server, was.at, a.End) {
			all = append(all, Violation{NameQuiet, a.End, a.Client, i, fmt.Sprintf(
				"%s changed its table from %s to %s (ETag %s) although nothing has changed since %v", a.Server, short(was.digest), short(a.Digest),
				a.ETag, was.at.Round(time.Millisecond))})
		}
		if !known || was.at < a.Begin {
			now[key] = shown{a.Digest, a.Begin}
		}
	}
	return all
}

// still reports whether nothing happened between two times that could change the table of a server: no change, no hold that may
// have ended, no restart, and no earlier read that could have been late.
func (x *Index) still(server string, from, to time.Duration) bool {
	began := min(from-x.h.Run.Interval*2-x.reading, x.before(server, from)) - 3*x.h.Run.Soak
	for _, c := range x.h.Changes {
		if c.At >= began && c.At <= to {
			return false
		}
	}
	for _, e := range x.h.Events {
		if e.At >= began && e.At <= to && (e.Member == server || e.Member == "") {
			return false
		}
	}
	for _, s := range x.seen() {
		if s.held && x.h.Answers[s.first].Begin <= to && s.last >= began {
			return false // a hold ends by time
		}
	}
	return true
}

// sentAgain finds tables that were sent to clients that had named them.
func (x *Index) sentAgain() []Violation {
	var all []Violation
	for i := range x.h.Answers {
		a := &x.h.Answers[i]
		digest, _, ok := base(a)
		if a.Outcome != history.Applied || a.Form != "table" || !ok || digest != a.Digest {
			continue
		}
		// A body that could not be written is sent again, to any client at the same address.
		if x.brokenBefore(a.Server, a.End) {
			continue
		}
		all = append(all, Violation{NameQuiet, a.End, a.Client, i, fmt.Sprintf(
			"%s sent table %s of %d bytes to a client that had named it", a.Server, short(a.Digest), a.Body)})
	}
	return all
}

// brokenBefore reports whether a body of a server may have broken off by a time: some client got no complete answer, or a fault
// affected one.
func (x *Index) brokenBefore(server string, until time.Duration) bool {
	for i := range x.h.Answers {
		if a := &x.h.Answers[i]; a.Server == server && a.Begin <= until && a.Outcome == history.Failed {
			return true
		}
	}
	for _, f := range x.h.Faults {
		if f.From <= until && (f.Link == server || len(f.Link) > len(server) && f.Link[len(f.Link)-len(server)-1:] == ">"+server) {
			return true
		}
	}
	return false
}
