package validate

import (
	"fmt"
	"slices"

	"github.com/routesrv/routesrv/kube"
)

// What can be wrong with a route of a table.
type fault string

const (
	missing    fault = "is missing"                 // the object has had it for the whole window
	stale      fault = "is of an older state"       // of before the window
	future     fault = "is of a newer state"        // of after the revision of the table
	foreign    fault = "is of no state of anything" // no object ever had it
	unreadable fault = "cannot be read"
)

// finding is one route that is not as it must be.
type finding struct {
	fault
	ref      kube.Ref // zero if nobody knows whose it is
	id       string
	text     string // in the table; empty if it is not there
	backends bool   // only the backend differs
}

func (f finding) String() string {
	what := fmt.Sprintf("route %s of %s %s", f.id, f.ref, f.fault)
	if f.ref == (kube.Ref{}) {
		what = fmt.Sprintf("route %s %s", f.id, f.fault)
	}
	if f.backends {
		what += ", only the backend differs"
	}
	if f.text != "" {
		what += fmt.Sprintf(": %.300s", f.text)
	}
	return what
}

// maxFindings bounds what is said about one table.
const maxFindings = 20

// findings judges each sighting once: what is wrong with it for the origin and the epoch that explain it best.
func (x *Index) findings(s *sighting) []finding {
	if x.judged == nil {
		x.judged = make(map[*sighting][]finding)
	}
	if known, ok := x.judged[s]; ok {
		return known
	}
	var best []finding
	first := true
	for _, e := range x.epochs {
		if e.from > s.last {
			continue
		}
		for _, origin := range s.origins {
			found := x.judge(s, e, x.windowOf(s, origin, e))
			if first || len(found) < len(best) {
				best, first = found, false
			}
			if len(best) == 0 {
				break
			}
		}
	}
	x.judged[s] = best
	return best
}

// judge compares a table with what the objects had in a window.
func (x *Index) judge(s *sighting, e *epoch, w window) []finding {
	lines, err := parse(x.h.Tables[s.digest])
	if err != nil {
		return []finding{{fault: unreadable, id: "-", text: err.Error()}}
	}
	j := &judgement{oracle: x.oracle, epoch: e, window: w, zone: s.zone, lines: lines, known: make([]bool, len(lines)),
		allowed: make(map[string][]string)}
	for _, l := range x.oracle.fixed {
		j.need(kube.Ref{}, l)
	}
	for _, t := range e.owners {
		j.owner(t)
		if len(j.found) >= maxFindings {
			return j.found
		}
	}
	j.rest()
	return j.found
}

// judgement is the comparison of one table with one window.
type judgement struct {
	oracle *oracle
	epoch  *epoch
	window
	zone    string
	lines   []line
	known   []bool              // lines that are as they must be
	allowed map[string][]string // texts of ids that several objects want
	found   []finding
}

func (j *judgement) line(id string) (int, bool) { return slices.BinarySearchFunc(j.lines, id, byID) }

func (j *judgement) need(ref kube.Ref, l line) {
	i, ok := j.line(l.id)
	switch {
	case !ok:
		j.found = append(j.found, finding{fault: missing, ref: ref, id: l.id})
	case j.lines[i].text != l.text:
		j.found = append(j.found, finding{fault: foreign, ref: ref, id: l.id, text: j.lines[i].text})
	}
	if ok {
		j.known[i] = true
	}
}

// owner finds the state of an object that the table shows.
func (j *judgement) owner(t *thing) {
	all, ok := j.epoch.combinations(t, j.window)
	if !ok {
		j.free(t)
		return
	}
	// The fewest mistakes, and of equal ones the most routes: a state may have those of another and more.
	best, fewest, most := 0, 1<<30, 0
	for i, c := range all {
		wrong, n := j.wrong(c), len(j.oracle.routes(c, j.zone))
		if wrong < fewest || wrong == fewest && n > most {
			best, fewest, most = i, wrong, n
		}
	}
	for _, c := range all {
		for _, l := range j.oracle.routes(c, j.zone) {
			if j.oracle.isShared(l.id) && !slices.Contains(j.allowed[l.id], l.text) {
				j.allowed[l.id] = append(j.allowed[l.id], l.text)
			}
		}
	}
	for _, l := range j.oracle.routes(all[best], j.zone) {
		if j.oracle.isShared(l.id) {
			continue
		}
		i, ok := j.line(l.id)
		switch {
		case !ok:
			j.found = append(j.found, j.classify(t, finding{fault: missing, ref: t.ref, id: l.id}, l))
		case j.lines[i].text != l.text:
			if !j.keeps(t, j.lines[i]) {
				j.found = append(j.found, j.classify(t, finding{fault: foreign, ref: t.ref, id: l.id, text: j.lines[i].text}, l))
			}
		}
		if ok {
			j.known[i] = true
		}
	}
}

// wrong counts the routes of a combination that the table does not have as they are.
func (j *judgement) wrong(c combination) (n int) {
	for _, l := range j.oracle.routes(c, j.zone) {
		if j.oracle.isShared(l.id) {
			continue
		}
		if i, ok := j.line(l.id); !ok || j.lines[i].text != l.text {
			n++
		}
	}
	return n
}

// free lets the routes of an object be any that it ever had: too much changed in the window.
func (j *judgement) free(t *thing) {
	for _, s := range t.states {
		if s.object == nil {
			continue
		}
		for _, l := range j.oracle.routes(j.epoch.full(t, s), "") {
			if i, ok := j.line(l.id); ok {
				j.known[i] = true
			}
		}
	}
}

// keeps reports whether a route has the backends that its services had before they lost all of them.
func (j *judgement) keeps(t *thing, l line) bool {
	if !j.kept {
		return false
	}
	all, ok := j.epoch.combinations(t, window{intent: j.intent, backends: 0, hi: j.hi})
	return !ok || j.have(all, l)
}

func (j *judgement) have(all []combination, l line) bool {
	return slices.ContainsFunc(all, func(c combination) bool { return slices.Contains(j.oracle.routes(c, j.zone), l) })
}

// classify says when the object looked like that. Want is what it has in the state that fits best.
func (j *judgement) classify(t *thing, f finding, want line) finding {
	f.backends = f.text != "" && head(f.text) == head(want.text)
	const forever = 1<<63 - 1
	for _, try := range []struct {
		fault
		window
	}{
		{future, window{intent: j.hi, backends: j.hi, hi: forever}},
		{stale, window{intent: 0, backends: 0, hi: j.hi}},
	} {
		all, ok := j.epoch.combinations(t, try.window)
		switch {
		case !ok:
			// too much to try: it says nothing
		case f.text != "" && j.have(all, line{f.id, f.text}):
			f.fault = try.fault
			return f
		case f.text == "" && try.fault == stale && !j.hasAny(t) && slices.ContainsFunc(all, func(c combination) bool { return len(j.oracle.routes(c, "")) == 0 }):
			f.fault = stale
			return f
		}
	}
	return f
}

// hasAny reports whether the table has a route of the object, in whatever state.
func (j *judgement) hasAny(t *thing) bool {
	for _, s := range t.states {
		if s.object == nil {
			continue
		}
		for _, l := range j.oracle.routes(j.epoch.full(t, s), "") {
			if _, ok := j.line(l.id); ok && !j.oracle.isShared(l.id) {
				return true
			}
		}
	}
	return false
}

// rest judges the routes that nothing in the window wants.
func (j *judgement) rest() {
	for i, l := range j.lines {
		if j.known[i] || slices.Contains(j.allowed[l.id], l.text) {
			continue
		}
		f := finding{fault: foreign, id: l.id, text: l.text}
		for ref := range j.oracle.shared[l.id] {
			t := j.epoch.things[ref]
			if t == nil {
				continue
			}
			if got := j.classify(t, finding{fault: foreign, ref: ref, id: l.id, text: l.text}, l); f.fault == foreign {
				got.backends = false
				f = got
			}
		}
		if err := readable(l.text); err != nil {
			f.fault = unreadable
		}
		if j.found = append(j.found, f); len(j.found) >= maxFindings {
			return
		}
	}
}
