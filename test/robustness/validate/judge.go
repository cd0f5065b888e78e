package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// fault is what can be wrong with a route of a table.
type fault string

const (
	missing    fault = "is missing"                 // the object had it for the whole window
	stale      fault = "is of an older state"       // from before the window
	future     fault = "is of a newer state"        // from after the revision of the table
	foreign    fault = "is of no state of anything" // no object ever had it
	torn       fault = "is of another state than the other routes of its object"
	unreadable fault = "cannot be read"
	taken      fault = "has an address that now belongs to another service"
)

// finding is an incorrect route.
type finding struct {
	fault
	ref      kube.Ref // zero if the owner is unknown
	id       string
	text     string // in the table; empty if missing
	backends bool   // only the backend differs
	delayed  bool   // it would be correct if the object was kept, which it must not be
}

func (f finding) String() string {
	what := fmt.Sprintf("route %s of %s %s", f.id, f.ref, f.fault)
	if f.ref == (kube.Ref{}) {
		what = fmt.Sprintf("route %s %s", f.id, f.fault)
	}
	if f.backends {
		what += ", only the backend differs"
	}
	if f.delayed {
		what += ", although only other objects are kept"
	}
	if f.text != "" {
		what += fmt.Sprintf(": %.300s", f.text)
	}
	return what
}

// maxFindings limits the findings about one table.
const maxFindings = 20

// findings judges each sighting once, with the origin and the epoch that explain it best.
func (x *Index) findings(s *sighting) []finding {
	if x.judged == nil {
		x.judged = make(map[*sighting][]finding)
	}
	if known, ok := x.judged[s]; ok {
		return known
	}
	var best []finding
	first := true
	for i, e := range x.epochs {
		if e.from > s.last {
			continue
		}
		for _, origin := range s.origins {
			w := x.windowOf(s, origin, e)
			found := x.judge(s, e, e, w)
			if s.held && i > 0 && len(found) > 0 {
				found = x.acrossRestore(s, x.epochs[i-1], e, w, found)
			}
			if len(found) == 0 && i == 0 && s.held {
				found = x.delayed(s, origin, e, w, x.oldest(origin, e, s.revision, x.h.Answers[s.first].End), s.last)
			}
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

// acrossRestore judges a table while a server holds back the result of an etcd restore: it still serves the previous intent, with
// the backends from after the restore. It is unknown which services keep their previous backends.
func (x *Index) acrossRestore(s *sighting, before, e *epoch, w window, found []finding) []finding {
	if s.kept {
		return nil
	}
	w.intent, w.intentHi = before.newest(e.from-x.h.Run.Hold-x.reading), 1<<63-1
	if held := x.judge(s, before, e, w); len(held) < len(found) {
		return held
	}
	return found
}

// judge compares a table with the states of the objects in a window: the owners of one epoch, with the backends of another.
func (x *Index) judge(s *sighting, owners, e *epoch, w window) []finding {
	lines, err := parse(x.h.Tables[s.digest])
	if err != nil {
		return []finding{{fault: unreadable, id: "-", text: err.Error()}}
	}
	j := &judgement{oracle: x.oracle, epoch: e, window: w, zone: s.zone, lines: lines, known: make([]bool, len(lines)),
		allowed: make(map[string][]string), own: make(map[kube.Ref][]int)}
	for i, l := range lines {
		if ref, ok := x.oracle.sole[l.id]; ok {
			j.own[ref] = append(j.own[ref], i)
		}
	}
	for _, l := range x.oracle.fixed {
		j.need(kube.Ref{}, l)
	}
	for _, t := range owners.owners {
		j.owner(t)
		if len(j.found) >= maxFindings {
			return j.found
		}
	}
	j.rest()
	x.coverage.Tables++
	x.coverage.Routes += j.routes
	x.coverage.Certain += j.certain
	return j.found
}

// judgement is the comparison of one table with one window.
type judgement struct {
	oracle *oracle
	epoch  *epoch
	window
	zone    string
	lines   []line
	known   []bool              // correct lines
	allowed map[string][]string // texts of ids that several objects want
	own     map[kube.Ref][]int  // lines whose ids only this object ever wants
	found   []finding

	routes, certain int // judged routes, and those of them with only one possible text
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
	if t.reviewed() || slices.ContainsFunc(t.states, (*state).isHalted) {
		j.free(t) // Reviewed and CanaryFirst are about it
		return
	}
	w := j.window
	if j.keeping != nil && !j.mayKeep(t) {
		w.intent, w.intentHi = j.keeping.live, 0
	}
	all, ok := j.epoch.combinations(t, w)
	if !ok {
		j.free(t)
		return
	}
	own := j.own[t.ref]
	j.routes += len(own)
	if len(all) == 1 {
		j.certain += len(own)
	}
	best, fewest := 0, 1<<30
	for i, c := range all {
		// If equal, prefer the state with routes: an object with wrong routes does exist.
		if n := j.mistakes(c, own); n < fewest || n == fewest && len(j.oracle.routes(all[best], j.zone).lines) == 0 {
			best, fewest = i, n
		}
	}
	for _, c := range all {
		for _, l := range j.oracle.parted(c, j.zone).shared {
			if !slices.Contains(j.allowed[l.id], l.text) {
				j.allowed[l.id] = append(j.allowed[l.id], l.text)
			}
		}
	}
	for _, i := range own {
		j.known[i] = true
	}
	if fewest == 0 {
		return
	}
	if (j.kept || j.held && (j.lostEndpoints(all, own) || j.servicesChanged(t))) && j.keeps(w, t, own) {
		if l, is := j.reused(t, own); is {
			j.found = append(j.found, finding{fault: taken, ref: t.ref, id: l.id, text: l.text})
		}
		return
	}
	want := j.oracle.parted(all[best], j.zone).mine
	for _, l := range want {
		if _, ok := j.line(l.id); !ok {
			j.found = append(j.found, finding{fault: missing, ref: t.ref, id: l.id})
		}
	}
	for _, i := range own {
		l := j.lines[i]
		if at, ok := slices.BinarySearchFunc(want, l.id, byID); !ok || want[at].text != l.text {
			j.found = append(j.found, j.classify(t, all, finding{fault: foreign, ref: t.ref, id: l.id, text: l.text}))
		}
	}
}

// mistakes counts in how many routes of an object the table and a combination differ. Both are ordered by id.
func (j *judgement) mistakes(c combination, own []int) (n int) {
	want := j.oracle.parted(c, j.zone).mine
	for len(want) > 0 && len(own) > 0 {
		l := j.lines[own[0]]
		switch d := strings.Compare(l.id, want[0].id); {
		case d < 0:
			n, own = n+1, own[1:]
		case d > 0:
			n, want = n+j.absent(want[0]), want[1:]
		default:
			if l.text != want[0].text {
				n++
			}
			own, want = own[1:], want[1:]
		}
	}
	for _, l := range want {
		n += j.absent(l)
	}
	return n + len(own)
}

// absent returns 1 for a missing line. A line whose id was never claimed is not among the own lines, but may still exist.
func (j *judgement) absent(l line) int {
	i, ok := j.line(l.id)
	if ok && j.lines[i].text == l.text {
		j.known[i] = true
		return 0
	}
	return 1
}

// free accepts any routes of an object: too much changed in the window.
func (j *judgement) free(t *thing) {
	for _, i := range j.own[t.ref] {
		j.known[i] = true
		j.routes++
	}
	for _, id := range t.ids {
		if i, ok := j.line(id); ok && j.oracle.isShared(id) {
			j.known[i] = true
		}
	}
}

// lostEndpoints reports whether an object that exists has a route without endpoints in one of its states, or has fewer routes than in the table,
// because a service is gone.
func (j *judgement) lostEndpoints(all []combination, own []int) bool {
	return slices.ContainsFunc(all, func(c combination) bool {
		mine := j.oracle.parted(c, j.zone).mine
		return c.owner.object != nil && (len(mine) < len(own) ||
			slices.ContainsFunc(mine, func(l line) bool { return strings.Contains(l.text, `inlineContent("no endpoints")`) }))
	})
}

// keeps reports whether an object has the routes of a time at which its services had backends: they have lost all of them, and
// keep the previous ones. The table does not show which ones a service has lost.
func (j *judgement) keeps(w window, t *thing, own []int) bool {
	all, ok := j.epoch.combinations(t, window{intent: w.intent, intentHi: w.intentHi, backends: 0, hi: w.hi})
	return !ok || slices.ContainsFunc(all, func(c combination) bool { return j.mistakes(c, own) == 0 || j.shed(t, c, own) })
}

func (j *judgement) have(all []combination, l line) bool {
	return slices.ContainsFunc(all, func(c combination) bool { return slices.Contains(j.oracle.routes(c, j.zone).lines, l) })
}

// classify says when the object had such a route. If that is in the window, the route is from another state than the object's
// other routes.
func (j *judgement) classify(t *thing, now []combination, f finding) finding {
	l, intent := line{f.id, f.text}, j.intent
	if j.keeping != nil {
		intent = j.keeping.live
	}
	switch {
	case j.have(now, l):
		f.fault = torn
	case j.had(t, window{intent: j.hi, backends: j.hi, hi: 1<<63 - 1}, l):
		f.fault = future
	case j.had(t, window{intent: intent, backends: 0, hi: j.hi}, l):
		f.fault, f.backends = stale, true
	case j.had(t, window{hi: j.hi}, l):
		f.fault = stale
	case readable(f.text) != nil:
		f.fault = unreadable
	}
	return f
}

func (j *judgement) had(t *thing, w window, l line) bool {
	all, ok := j.epoch.combinations(t, w)
	return ok && j.have(all, l)
}

// rest judges the routes that nothing in the window wants, and that several objects may want at other times.
func (j *judgement) rest() {
	for i, l := range j.lines {
		if j.known[i] || slices.Contains(j.allowed[l.id], l.text) {
			continue
		}
		f := finding{fault: foreign, id: l.id, text: l.text}
		if readable(l.text) != nil {
			f.fault = unreadable
		}
		for ref := range j.oracle.shared[l.id] {
			if t := j.epoch.things[ref]; t != nil && f.fault == foreign {
				f = j.classify(t, nil, finding{fault: foreign, ref: ref, id: l.id, text: l.text})
			}
		}
		if j.found = append(j.found, f); len(j.found) >= maxFindings {
			return
		}
	}
}
