package validate

import (
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// A route server that knows objects keeps only those that would be lost. All others are those of the newest read, whatever is kept.

// keeping is what is certain about a server that keeps objects.
type keeping struct {
	live  uint64 // lower limit for the intent of objects that are not kept
	from  uint64 // lower limit for the versions of those that are
	began uint64 // upper limit for the read that kept the first objects
	// many means that several objects lost requests after that: then these may be kept as well.
	many bool
}

// delayed returns the mistakes of a table without any if the objects that no server keeps must be as new as live.
func (x *Index) delayed(s *sighting, origin string, e *epoch, w window, live uint64, at time.Duration) []finding {
	if w.keeping = x.keepingOf(origin, e, w, live, at); w.keeping == nil {
		return nil
	}
	found := x.judge(s, e, e, w)
	for i := range found {
		found[i].delayed = true
	}
	return found
}

// keepingOf returns what is certain about a server at the time of an answer; nil if it may hold its whole intent.
func (x *Index) keepingOf(origin string, e *epoch, w window, live uint64, at time.Duration) *keeping {
	if m := x.members[origin]; m == nil || m.Kind != history.Server {
		return nil
	}
	whole, kept := time.Duration(-1), false
	for _, e := range x.h.Events {
		if e.Member != origin || e.At > at+x.processing {
			continue
		}
		switch e.Name {
		case "held":
			whole = e.At
		case "kept":
			kept = true
		}
	}
	var first, free *history.Answer // the first one that speaks of the hold, and the last one before
	k := &keeping{live: live}
	for _, i := range x.answersOf(origin, func(a *history.Answer) string { return a.Server }) {
		a := &x.h.Answers[i]
		switch {
		case a.End > at || !has(a):
		case a.State == "":
			first, free = nil, a
			if _, revision, ok := tag(a); ok && a.Outcome == history.Applied { // the server's own table
				k.from = x.oldest(origin, e, revision, a.End)
			}
		case first == nil && (a.State == api.StateHeld || a.State == api.StateBackendsHeld):
			first = a
		}
	}
	if !kept || first == nil || first.End < e.from || whole >= 0 && (free == nil || free.Begin <= whole) {
		return nil
	}
	k.began = e.newest(first.End)
	k.from = min(k.from, x.lostSince(origin, e, first.End))
	losers := 0
	for _, t := range e.owners {
		if x.oracle.loses(e, t, k.began, w.hi) {
			losers++
		}
	}
	k.many = losers > 1
	return k
}

// loses reports whether an object that exists at a revision lost one of its requests after that, up to another revision, or made it one
// without endpoints, as with a port that its service does not have.
func (r *oracle) loses(e *epoch, t *thing, from, to uint64) bool {
	all := t.between(from, to)
	for i := range all[1:] {
		is := r.requestsOf(e, t, all[i+1])
		for request, backed := range r.requestsOf(e, t, all[i]) {
			if still, answers := is[request]; !answers || backed && !still {
				return true
			}
		}
	}
	return false
}

// requestsOf returns what an object answers in a state if its services have endpoints, and which of it at an address.
func (r *oracle) requestsOf(e *epoch, t *thing, s *state) map[string]bool {
	if s.object == nil {
		return nil
	}
	if known, ok := r.requests[s.number]; ok {
		return known
	}
	all := make(map[string]bool)
	for _, l := range r.routes(e.full(t, s), "").lines {
		if parsed := single(l.text); parsed != nil && ownerOf(l.id) != (owner{}) {
			request := requestOf(parsed)
			all[request] = all[request] || strings.Contains(l.text[len(head(l.text)):], `"`)
		}
	}
	r.requests[s.number] = all
	return all
}

// mayKeep reports whether a server that keeps objects may keep this one: it lost requests, or its services lost endpoints.
func (j *judgement) mayKeep(t *thing) bool {
	to := j.hi
	if !j.keeping.many {
		to = min(j.hi, j.keeping.began)
	}
	return slices.ContainsFunc(t.ids, j.oracle.isShared) || j.oracle.loses(j.epoch, t, j.keeping.from, to) || j.drained(t)
}

// drained reports whether a service of an object changed or had no endpoints since before objects were kept.
func (j *judgement) drained(t *thing) bool {
	for _, s := range t.between(j.keeping.from, j.hi) {
		if s.object == nil {
			continue
		}
		for _, name := range servicesOf(s.object) {
			for _, dep := range j.epoch.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
				all := dep.between(j.keeping.from, j.hi)
				for _, d := range all {
					slice, ok := d.object.(*kube.EndpointSlice)
					switch {
					case d == nothing:
					case d.object == nil, ok && len(slice.Endpoints) == 0, isService(d.object) && len(all) > 1:
						return true
					}
				}
			}
		}
	}
	return false
}

// reused returns a route with an address that belongs to a service of another namespace, and no longer to one of its own.
func (j *judgement) reused(t *thing, own []int) (l line, is bool) {
	var mine, others map[string]bool
	for _, i := range own {
		route := single(j.lines[i].text)
		if route == nil {
			continue
		}
		for _, end := range endpointsOf(route) {
			if others == nil {
				mine, others = j.addresses(t)
			}
			if a := hostOf(end.Address); others[a] && !mine[a] {
				return j.lines[i], true
			}
		}
	}
	return line{}, false
}

// addresses returns the addresses that services of the namespace of an object have at some time of the window, and those that services of
// other namespaces have all the time.
func (j *judgement) addresses(t *thing) (mine, others map[string]bool) {
	mine, others = make(map[string]bool), make(map[string]bool)
	for key, things := range j.epoch.services {
		for _, of := range things {
			states := make(map[string]map[*state]bool) // by address
			all := of.between(j.backends, j.hi)
			for _, s := range all {
				slice, ok := s.object.(*kube.EndpointSlice)
				if !ok {
					continue
				}
				for _, e := range slice.Endpoints {
					if states[e.Address] == nil {
						states[e.Address] = make(map[*state]bool)
					}
					states[e.Address][s] = true
				}
			}
			for a, in := range states {
				if key.Namespace == kube.NamespaceOrDefault(t.ref.Namespace) {
					mine[a] = true
				} else if len(in) == len(all) {
					others[a] = true
				}
			}
		}
	}
	return mine, others
}
