package validate

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// state is an object after one change. Its number is unique in the run and serves as a key for cached results.
type state struct {
	number   int
	revision uint64
	at       time.Duration
	class    string
	object   kube.Object // nil if it was deleted, or cannot be decoded
	deleted  bool
}

// thing is one object with all its states in one epoch, ordered by revision. Before the first one it did not exist.
type thing struct {
	ref     kube.Ref
	states  []*state
	service kube.ServiceKey // of an EndpointSlice: the service that it belongs to
	ids     []string        // of an owner: all ids that it ever wants, sorted
}

// nothing is the state of an object that does not exist.
var nothing = &state{deleted: true}

// between returns the states that the object had between the revisions lo and hi.
func (t *thing) between(lo, hi uint64) []*state {
	from := sort.Search(len(t.states), func(i int) bool { return t.states[i].revision > lo })
	to := sort.Search(len(t.states), func(i int) bool { return t.states[i].revision > hi })
	if from > 0 {
		return t.states[from-1 : max(to, from)]
	}
	return append([]*state{nothing}, t.states[:to]...)
}

// at returns the state at a revision.
func (t *thing) at(revision uint64) *state {
	to := sort.Search(len(t.states), func(i int) bool { return t.states[i].revision > revision })
	if to == 0 {
		return nothing
	}
	return t.states[to-1]
}

// epoch is the life of the API between two restores.
type epoch struct {
	from     time.Duration
	things   map[kube.Ref]*thing
	owners   []*thing                     // Ingresses and RouteGroups, sorted
	services map[kube.ServiceKey][]*thing // the service and its slices
	changes  []mark                       // ordered by revision
	intent   []mark                       // only those of owners
}

// mark says when a revision was reached.
type mark struct {
	revision uint64
	at       time.Duration
}

// newest returns the highest revision at a time.
func (e *epoch) newest(at time.Duration) uint64 {
	i := sort.Search(len(e.changes), func(i int) bool { return e.changes[i].at > at })
	if i == 0 {
		return 0
	}
	return e.changes[i-1].revision
}

// born returns when the API reached a revision: the time of the last change up to it.
func (e *epoch) born(revision uint64) time.Duration {
	i := sort.Search(len(e.changes), func(i int) bool { return e.changes[i].revision > revision })
	if i == 0 {
		return e.from
	}
	return e.changes[i-1].at
}

// epochsOf splits the changes into epochs. There is at least one.
func epochsOf(changes []history.Change) []*epoch {
	now := &epoch{things: map[kube.Ref]*thing{}}
	all := []*epoch{now}
	for i := range changes {
		c := &changes[i]
		if c.Reset {
			now = now.restored(c)
			all = append(all, now)
		}
		if c.Kind != "" {
			now.add(c, i+1)
		}
	}
	for _, e := range all {
		e.finish()
	}
	return all
}

// restored returns the epoch that begins with the state at an older revision.
func (e *epoch) restored(c *history.Change) *epoch {
	next := &epoch{from: c.At, things: make(map[kube.Ref]*thing, len(e.things))}
	for ref, t := range e.things {
		kept := sort.Search(len(t.states), func(i int) bool { return t.states[i].revision > c.Revision })
		next.things[ref] = &thing{ref: ref, states: slices.Clone(t.states[:kept]), service: t.service}
	}
	for _, m := range e.changes {
		if m.revision <= c.Revision {
			next.changes = append(next.changes, m)
		}
	}
	return next
}

func (e *epoch) add(c *history.Change, number int) {
	ref := kube.Ref{Kind: kube.Kind(c.Kind), Namespace: c.Namespace, Name: c.Name}
	t := e.things[ref]
	if t == nil {
		t = &thing{ref: ref}
		e.things[ref] = t
	}
	s := &state{number: number, revision: c.Revision, at: c.At, class: c.Class, deleted: c.Object == ""}
	if !s.deleted {
		if o, err := kube.DecodeJSON(ref.Kind, []byte(c.Object)); err == nil {
			s.object = o
		}
	}
	switch o := s.object.(type) {
	case *kube.EndpointSlice:
		t.service = kube.ServiceKey{Namespace: c.Namespace, Name: o.Service}
	case *kube.Endpoints:
		t.service = kube.ServiceKey{Namespace: c.Namespace, Name: c.Name}
	case *kube.Service:
		t.service = kube.ServiceKey{Namespace: c.Namespace, Name: c.Name}
	}
	t.states = append(t.states, s)
	e.changes = append(e.changes, mark{c.Revision, c.At})
}

func (e *epoch) finish() {
	e.services = make(map[kube.ServiceKey][]*thing)
	for _, t := range e.things {
		if isOwner(t.ref.Kind) {
			e.owners = append(e.owners, t)
			for _, s := range t.states {
				e.intent = append(e.intent, mark{s.revision, s.at})
			}
		} else {
			e.services[t.service] = append(e.services[t.service], t)
		}
	}
	byRef := func(a, b *thing) int { return a.ref.Compare(b.ref) }
	slices.SortFunc(e.owners, byRef)
	for _, things := range e.services {
		slices.SortFunc(things, byRef)
	}
	slices.SortFunc(e.intent, func(a, b mark) int { return int(int64(a.revision) - int64(b.revision)) })
}

func isOwner(k kube.Kind) bool { return k == kube.KindIngress || k == kube.KindRouteGroup }

// servicesOf returns the names of the services that an object references, sorted.
func servicesOf(o kube.Object) []string {
	var names []string
	switch o := o.(type) {
	case *kube.Ingress:
		if o.Spec == nil {
			break
		}
		if o.Spec.DefaultBackend != nil {
			names = append(names, o.Spec.DefaultBackend.Service)
		}
		for _, r := range o.Spec.Rules {
			for _, p := range r.Paths {
				if p.Backend != nil {
					names = append(names, p.Backend.Service)
				}
			}
		}
		// Annotations for splitting traffic name services, too.
		for _, a := range o.Annotations {
			var weights map[string]json.RawMessage
			if strings.HasPrefix(a.Value, "{") && json.Unmarshal([]byte(a.Value), &weights) == nil {
				for name := range weights {
					names = append(names, name)
				}
			}
		}
	case *kube.RouteGroup:
		if o.Spec == nil {
			break
		}
		for _, b := range o.Spec.Backends {
			if b != nil && b.ServiceName != "" {
				names = append(names, b.ServiceName)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
