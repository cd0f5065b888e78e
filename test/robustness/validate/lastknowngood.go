package validate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

const (
	// starting is how long a process may take until it answers.
	starting = 10 * time.Second
	// writing is how long before the end of a process its first table may not be on disk yet: nothing waits for the disk.
	writing = 6 * time.Second
	// behind is how long the file may lag behind what was served: it is written every 30 s.
	behind = 30*time.Second + writing
)

// LastKnownGood: a member that has served a table keeps serving one, whatever happens to its sources; and after a restart,
// before it has read anything, it serves a table that it served in the last seconds.
func LastKnownGood(h *history.History) []Violation { return alone(h, (*Index).lastKnownGood) }

func (x *Index) lastKnownGood() []Violation {
	var all []Violation
	for name, m := range x.members {
		if m.Kind != history.Server && m.Kind != history.Relay && m.Kind != history.Sidecar {
			continue
		}
		answers := x.answersOf(name, func(a *history.Answer) string { return a.Server })
		all = append(all, x.goesOn(name, answers)...)
		all = append(all, x.afterRestart(name, answers)...)
	}
	return all
}

// goesOn finds answers without a table from a running member that has had one.
func (x *Index) goesOn(name string, answers []int) []Violation {
	var all []Violation
	down := x.down(name)
	since, next := time.Duration(-1), 0
	for _, i := range answers {
		a := &x.h.Answers[i]
		for ; next < len(down) && down[next].to <= a.Begin; next++ {
			if since >= 0 && since <= down[next].from && x.keepsNothing(name, since, down[next]) {
				since = -1 // it has to read one first
			}
		}
		switch {
		case has(a):
			if since < 0 {
				since = a.End
			}
			continue
		case since < 0 || a.Begin < since || a.Status == 429 || a.Outcome == history.Refused:
			continue // 429 is about the number of streams; other validators judge what a client refuses
		case a.Status == 0 && (a.Form == "event" || !strings.Contains(a.Why, "refused")) || a.Status == 200 || a.Status == 226:
			continue // slow or cut; a stream may end at any time
		case x.lostFiles(name, a.Begin):
			continue
		case slices.ContainsFunc(down, func(s span) bool { return s.meets(a.Begin, a.End) || s.meets(a.Begin-starting, a.End) }):
			continue
		case x.faultOn(a.Client, name, a.Begin-time.Second, a.End) || x.members[a.Client] != nil && x.members[a.Client].Slow:
			continue
		}
		all = append(all, Violation{NameLastKnownGood, a.End, a.Client, i, fmt.Sprintf(
			"%s has served tables since %v, and answers %d: %s", name, since.Round(time.Millisecond), a.Status, a.Why)})
	}
	return all
}

// keepsNothing reports whether a member that has served tables since a time may have none after a restart: the first one was not on disk
// yet, or the member computes its tables and reads no route server, which is what writes the file.
func (x *Index) keepsNothing(name string, since time.Duration, restart span) bool {
	if since > restart.from-writing {
		return true
	}
	mode := x.members[name].Mode
	for _, e := range x.h.Events {
		if e.Member == name && e.Name == "mode" && e.At <= restart.to+starting {
			mode = e.Args
		}
	}
	return strings.HasPrefix(mode, "False")
}

// lostFiles reports whether a member was restarted after a failure of its disk or descriptors: then it may have no table.
func (x *Index) lostFiles(name string, at time.Duration) bool {
	down := x.down(name)
	return slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool {
		return f.Link == name && (strings.Contains(f.Name, "disk") || strings.Contains(f.Name, "files")) &&
			slices.ContainsFunc(down, func(s span) bool { return s.from >= f.From && s.to <= at })
	})
}

// afterRestart checks what a member serves after a restart while none of its sources answers.
func (x *Index) afterRestart(name string, answers []int) []Violation {
	var all []Violation
	for _, stop := range x.down(name) {
		until := x.cutOffUntil(name, stop.to)
		var before []int
		for _, i := range answers {
			if a := &x.h.Answers[i]; has(a) && a.Begin <= stop.from {
				before = append(before, i)
			}
		}
		if len(before) == 0 || until <= stop.to {
			continue
		}
		// A table served shortly before may not be on disk yet; then the previous ones are allowed, too.
		allowed := make(map[string]bool)
		since := stop.from
		disk := slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool { return f.Link == name && strings.Contains(f.Name, "disk") })
		for k := len(before) - 1; k >= 0; k-- {
			a := &x.h.Answers[before[k]]
			allowed[a.Digest] = true
			since = a.End
			if a.End < stop.from-behind && !disk && !x.proves(name) {
				break
			}
		}
		for _, p := range x.h.Publications { // no client need have seen what it published just before it ended
			if p.Member == name && p.At >= since && p.At < stop.to {
				allowed[p.Digest] = true
			}
		}
		served := 0
		for _, i := range answers {
			a := &x.h.Answers[i]
			if a.Begin < stop.to || a.End > until {
				continue
			}
			if a.Outcome == history.Applied || a.Outcome == history.Unchanged {
				served++
			}
			if a.Outcome == history.Applied && !x.allows(allowed, a, before) {
				all = append(all, Violation{NameLastKnownGood, a.End, a.Client, i, fmt.Sprintf(
					"after a restart and without anything to read %s serves table %s, which it did not serve before", name, short(a.Digest))})
				break
			}
			if a.Begin > stop.to+starting && served == 0 && a.Outcome == history.Failed && !x.faultOn(a.Client, name, a.Begin-time.Second, a.End) {
				all = append(all, Violation{NameLastKnownGood, a.End, a.Client, i, fmt.Sprintf(
					"after a restart and without anything to read %s has no table: status %d", name, a.Status)})
				break
			}
		}
	}
	return all
}

// proves reports whether a member has a proxy that must live with a table first: it may then serve an older one. Proven is about that.
func (x *Index) proves(name string) bool {
	return slices.ContainsFunc(x.h.Run.Members, func(m history.Member) bool { return m.Mortal && slices.Contains(m.Upstreams, name) })
}

// allows reports whether a table may be served after a restart: it was served before, for this zone or another.
func (x *Index) allows(allowed map[string]bool, a *history.Answer, before []int) bool {
	if allowed[a.Digest] {
		return true
	}
	zone := x.zone(a.Client, a.Server)
	return zone != "" && !slices.ContainsFunc(before, func(i int) bool { return x.zone(x.h.Answers[i].Client, x.h.Answers[i].Server) == zone })
}

// cutOffUntil returns until when, beginning at a time, nothing that a member reads can have answered: all its sources are down,
// or behind a fault that lets nothing pass.
func (x *Index) cutOffUntil(name string, from time.Duration) time.Duration {
	m := x.members[name]
	asked := m.Upstreams
	if m.Kind == history.Server {
		asked = []string{"api"}
	} else if x.computes(m) {
		asked = append(slices.Clone(asked), "api")
	}
	until := x.h.Run.Duration
	if until == 0 {
		until = 1 << 62
	}
	for _, up := range asked {
		until = min(until, x.silentUntil(name, up, from))
	}
	return until
}

// computes reports whether a data plane was ever in a mode in which it reads the API.
func (x *Index) computes(m *history.Member) bool {
	reads := func(mode string) bool { return strings.HasPrefix(mode, "False") || strings.HasPrefix(mode, "Pre") }
	return reads(m.Mode) || slices.ContainsFunc(x.h.Events, func(e history.Event) bool {
		return e.Member == m.Name && e.Name == "mode" && reads(e.Args)
	})
}

// silentUntil returns until when a source does not answer.
func (x *Index) silentUntil(name, up string, from time.Duration) time.Duration {
	end := from
	for again := true; again; {
		again = false
		all := x.down(up)
		for _, f := range x.h.Faults {
			if (f.Link == name+">"+up || f.Link == up) && (strings.Contains(f.Name, "refuse") || f.Name == "outage" || f.Name == "partition") {
				all = append(all, span{f.From, f.To})
			}
		}
		for _, s := range all {
			if s.from <= end && s.to > end {
				end, again = s.to, true
			}
		}
	}
	return end
}
