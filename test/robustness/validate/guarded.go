package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// Limits of the guard that are not in the history: see package guard.
const (
	minBackendLoss = 20
	maxBackendLoss = 0.5
	repairShare    = 0.05
	minKind        = 20
	kindLoss       = 0.9
	defaultWindow  = 10 * time.Minute
)

// losses are the reasons for which a hold keeps requests.
var losses = []string{"empty", "only_generated", "routes_lost", "hosts_lost", "kind_lost"}

// Guarded: no table that looks like an accident reaches a client before the hold time has passed, unless an acceptance is
// recorded, even after a restart.
func Guarded(h *history.History) []Violation { return alone(h, (*Index).guarded) }

func (x *Index) guarded() []Violation {
	if x.h.Run.MaxLoss == 0 || x.h.Run.MaxLoss == 1 {
		return nil // the rule is off
	}
	var all []Violation
	for name, m := range x.members {
		if m.Kind == history.Server {
			all = append(all, x.guardOf(name)...)
		}
	}
	return all
}

// shape holds what a table answers, which is what the guard judges.
type shape struct {
	requests map[string]*answer // by host and path
	serving  int                // requests with endpoints
	objects  map[owner]string   // Ingresses and RouteGroups, each with the id of a route
}

// answer is what a table has for a host and a path.
type answer struct {
	ids       []string
	endpoints bool
}

func shapeOf(text string) *shape {
	s := &shape{requests: make(map[string]*answer), objects: make(map[owner]string)}
	lines, err := parse(text)
	if err != nil {
		return s
	}
	for _, l := range lines {
		o := ownerOf(l.id)
		if o == (owner{}) {
			continue // nobody's, as a catch-all
		}
		s.objects[o] = l.id
		parsed, err := eskip.Parse(l.text)
		if err != nil || len(parsed) != 1 {
			continue
		}
		request := requestOf(parsed[0])
		a := s.requests[request]
		if a == nil {
			a = &answer{}
			s.requests[request] = a
		}
		a.ids = append(a.ids, l.id)
		a.endpoints = a.endpoints || strings.Contains(l.text[len(head(l.text)):], `"`)
	}
	for _, a := range s.requests {
		if a.endpoints {
			s.serving++
		}
	}
	return s
}

// owner is an object as far as the id of a route shows it.
type owner struct {
	kind            kube.Kind
	namespace, name string
}

// ownerOf returns the zero owner for catch-alls and routes that the server makes itself.
func ownerOf(id string) owner {
	id = strings.TrimPrefix(id, "clone_")
	rest, companion := strings.CutPrefix(id, "kubeew_")
	if !companion {
		rest = strings.TrimPrefix(id, "kube_")
	}
	kind := kube.KindIngress
	if inner, ok := strings.CutPrefix(rest, "rg__"); ok {
		kind, rest = kube.KindRouteGroup, strings.TrimPrefix(inner, "internal_")
	}
	parts := strings.SplitN(rest, "__", 3)
	if len(parts) < 3 || parts[0] == "" || strings.HasPrefix(rest, "_") {
		return owner{}
	}
	return owner{kind, parts[0], parts[1]}
}

// requestOf returns the hosts and the path of a route.
func requestOf(r *eskip.Route) string {
	hosts, path := slices.Clone(r.HostRegexps), slices.Concat([]string{r.Path}, r.PathRegexps)
	for _, p := range r.Predicates {
		switch p.Name {
		case "Host":
			hosts = append(hosts, fmt.Sprint(p.Args...))
		case "Path", "PathSubtree", "PathRegexp":
			path = append(path, fmt.Sprint(p.Args...))
		}
	}
	if len(hosts) == 0 && strings.Join(path, "") == "" {
		return r.Id
	}
	return strings.Join(hosts, " ") + strings.Join(path, " ")
}

// guardOf follows the tables that a server published, as seen by its direct clients, in the order of their revisions.
func (x *Index) guardOf(name string) []Violation {
	var all []Violation
	var served *sighting
	var before []*sighting // in the order in which they were served
	shapes := make(map[string]*shape)
	shape := func(s *sighting) *shape {
		if shapes[s.digest] == nil {
			shapes[s.digest] = shapeOf(x.h.Tables[s.digest])
		}
		return shapes[s.digest]
	}
	for _, s := range x.seen() {
		a := &x.h.Answers[s.first]
		if a.Server != name || s.zone != "" {
			continue
		}
		before = append(before, s)
		if served == nil || s.revision < served.revision || s.digest == served.digest {
			if served == nil || x.h.Answers[s.first].State != api.StateStale && s.revision >= served.revision {
				served = s
			}
			continue // a late answer, or a table from before a restore
		}
		if x.suspicious(shape(served), shape(s), s.revision, a.End) == nil {
			if n := x.unreturned(name, served, s, shape(served), shape(s)); n > 0 {
				all = append(all, Violation{NameGuarded, a.End, a.Client, s.first, fmt.Sprintf(
					"%s ended a hold with table %s of revision %d although %d requests that it kept were not back", name, short(s.digest), s.revision, n)})
			}
			if n := x.dropped(name, served, s, shape(served), shape(s)); n > 0 {
				all = append(all, Violation{NameGuarded, a.End, a.Client, s.first, fmt.Sprintf(
					"%s began to keep objects with table %s of revision %d, which lacks %d requests of deleted ones", name, short(s.digest), s.revision, n)})
			}
			served = s
			continue
		}
		// The guard compares with what it published last. No client may have seen that, when the process was killed soon after.
		from := published{digest: served.digest, revision: served.revision, shape: shape(served), exact: true}
		for _, to := range append(x.unseen(name, served, s), published{s.digest, s.revision, a.End, shape(s), true}) {
			if !to.exact {
				from = to
				continue
			}
			if loss := x.suspicious(from.shape, to.shape, to.revision, to.at); loss != nil && !x.mayPass(name, to, loss.since) &&
				!x.repairs(before[:len(before)-1], to, shape) {
				all = append(all, Violation{NameGuarded, a.End, a.Client, s.first, fmt.Sprintf(
					"%s published table %s of revision %d after %s of revision %d without a hold or an acceptance: %s", name, short(to.digest),
					to.revision, short(from.digest), from.revision, loss.why)})
			}
			from = to
		}
		served = s
	}
	return all
}

// published is a table that a server published, whether or not a client has seen it.
type published struct {
	digest   string
	revision uint64
	at       time.Duration
	shape    *shape
	exact    bool // shape belongs to the digest; otherwise it is only what all objects have at the revision
}

// unseen returns the tables that a server published between two that clients have seen, according to its log.
func (x *Index) unseen(name string, was, is *sighting) []published {
	seen := x.h.Answers[is.first].End
	var log []history.Publication // up to the one of is
	for _, p := range x.h.Publications {
		switch {
		case p.At > seen+x.processing: // a line of the log may be read later than a client gets its table
		case p.Member == name:
			log = append(log, p)
		}
	}
	last := func(digest string, log []history.Publication) int {
		for i, p := range slices.Backward(log) {
			if p.Digest == digest {
				return i
			}
		}
		return -1
	}
	if to := last(is.digest, log); to >= 0 {
		log = log[:to]
	}
	var all []published
	for _, p := range log[last(was.digest, log)+1:] {
		text, known := x.h.Tables[p.Digest]
		if !known {
			text = x.oracle.at(x.epochAt(p.At), p.Revision)
			sum := sha256.Sum256([]byte(text))
			known = hex.EncodeToString(sum[:]) == p.Digest
		}
		// A table of the last-known-good file may go back behind what was served: nobody judges it.
		all = append(all, published{p.Digest, p.Revision, p.At, shapeOf(text), known && !p.Stale})
	}
	return all
}

// loss is what makes a table look like an accident.
type loss struct {
	why   string
	since time.Duration // when the source began to show it
}

// suspicious returns why a guard must hold a table of a revision that was published at a time; nil if it need not.
func (x *Index) suspicious(was, is *shape, revision uint64, at time.Duration) *loss {
	var lost, drained []string
	requests := 0 // lost ones
	for request, a := range was.requests {
		now := is.requests[request]
		if now == nil {
			lost = append(lost, a.ids...)
			requests++
		} else if a.endpoints && !now.endpoints {
			drained = append(drained, a.ids[0])
		}
	}
	limit := int(x.h.Run.MaxLoss * float64(len(was.requests)))
	if requests > limit {
		return &loss{fmt.Sprintf("%d of %d requests are gone", requests, len(was.requests)), x.crossed(lost, limit, revision, at)}
	}
	for _, kind := range []kube.Kind{kube.KindIngress, kube.KindRouteGroup} {
		var gone []string
		all := 0
		for o, id := range was.objects {
			if o.kind != kind {
				continue
			}
			if all++; is.objects[o] == "" && slices.Contains(lost, id) {
				gone = append(gone, id)
			}
		}
		if all >= minKind && float64(len(gone)) >= kindLoss*float64(all) {
			return &loss{fmt.Sprintf("%d of %d objects of kind %s are gone", len(gone), all, kind), x.crossed(gone, int(kindLoss*float64(all))-1, revision, at)}
		}
	}
	most := max(minBackendLoss-1, int(maxBackendLoss*float64(was.serving)))
	if len(drained) > most {
		return &loss{fmt.Sprintf("%d of %d requests have lost all endpoints", len(drained), was.serving), x.crossed(drained, most, revision, at)}
	}
	return nil
}

// repairs reports whether a table undoes additions within the window: nearly nothing is missing compared with a table served when
// the window may have begun.
func (x *Index) repairs(before []*sighting, p published, shape func(*sighting) *shape) bool {
	window := x.h.Run.Window
	if window == 0 {
		window = defaultWindow
	}
	from := p.at - window - x.processing
	for _, b := range slices.Backward(before) {
		was, gone := shape(b), 0
		for request := range was.requests {
			if p.shape.requests[request] == nil {
				gone++
			}
		}
		if len(was.requests) > 0 && float64(gone) <= repairShare*float64(len(was.requests)) {
			return true
		}
		if x.h.Answers[b.first].End < from {
			break // the table served when the window began
		}
	}
	return false
}

// unreturned returns how many requests are missing although a hold that kept them ended: their objects did not exist since before the
// last answer that spoke of the hold, and neither time nor an operator ended it.
func (x *Index) unreturned(name string, served, s *sighting, was, is *shape) int {
	seen := x.h.Answers[s.first].End
	if !served.intentHeld && !served.stale || s.intentHeld || !s.told || len(x.unseen(name, served, s)) > 0 {
		return 0
	}
	keeps, over := false, false // whether the last hold keeps requests, and is over
	began := served.intentHeld  // whether it began before s
	for _, e := range x.h.Events {
		if e.Member != name || e.At > seen {
			continue
		}
		switch e.Name {
		case "started":
			began = served.intentHeld
		case "held", "kept":
			keeps, over = keeps && !over || slices.Contains(losses, e.Args), false
			began = began || e.At <= served.last
		case "released":
			over = true
		case "accept":
			keeps = false
		}
	}
	from := served.last - x.processing
	if !keeps || !began || x.heldLongEnough(name, seen) || slices.ContainsFunc(x.resets(), func(r time.Duration) bool { return r <= seen && from < r+afterReset }) {
		return 0
	}
	e, n := x.epochAt(seen), 0
	for request, a := range was.requests {
		if is.requests[request] != nil {
			continue
		}
		gone := len(x.oracle.shared[a.ids[0]]) > 0
		for ref := range x.oracle.shared[a.ids[0]] {
			if t := e.things[ref]; t != nil {
				now := t.at(s.revision)
				gone = gone && now.deleted && now.at < from
			}
		}
		if gone {
			n++
		}
	}
	return n
}

// dropped returns how many requests of deleted objects are missing in the table with which a server began to keep objects because
// requests would be lost: it keeps all of these. 0 if the table before is not certain.
func (x *Index) dropped(name string, served, s *sighting, was, is *shape) (n int) {
	from, to := x.h.Answers[served.first].End, x.h.Answers[s.first].End+x.processing
	if served.intentHeld || !s.intentHeld || len(x.epochs) > 1 || len(x.unseen(name, served, s)) > 0 {
		return 0
	}
	e, began := x.epochs[0], false
	for _, event := range x.h.Events {
		switch {
		case event.Member != name || event.At < from || event.At > to:
		case event.Name == "kept":
			began = began || slices.Contains(losses, event.Args) && x.madeBy(name, e, s.revision, event.At)
		default:
			return 0 // something else happened, such as a restart
		}
	}
	for request, a := range was.requests {
		if began && is.requests[request] == nil && !slices.ContainsFunc(a.ids, func(id string) bool { return !x.deletedAlone(e, id, served.revision, s.revision) }) {
			n++
		}
	}
	return n
}

// madeBy reports whether what a server logged is about the table of a revision: it has read nothing after that.
func (x *Index) madeBy(name string, e *epoch, revision uint64, logged time.Duration) bool {
	of := x.readOf(name, e, revision, logged)
	return of != nil && !slices.ContainsFunc(x.reads[name], func(r *read) bool { return r.to > of.to && r.to <= logged })
}

// deletedAlone reports whether the object of a route existed at a revision, and no longer exists at a later one, without a change of its services.
func (x *Index) deletedAlone(e *epoch, id string, from, to uint64) bool {
	t := e.things[x.oracle.sole[id]]
	if t == nil || t.at(from).object == nil || !t.at(to).deleted {
		return false
	}
	for _, name := range servicesOf(t.at(from).object) {
		for _, dep := range e.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
			if len(dep.between(from, to)) > 1 {
				return false
			}
		}
	}
	return true
}

// crossed returns when the number of changed routes in the source last exceeded the limit.
func (x *Index) crossed(ids []string, limit int, revision uint64, at time.Duration) time.Duration {
	e := x.epochAt(at)
	var when []time.Duration
	for _, id := range ids {
		var changed time.Duration
		for ref := range x.oracle.shared[id] {
			if t := e.things[ref]; t != nil {
				changed = max(changed, e.touched(t, revision))
			}
		}
		when = append(when, changed)
	}
	slices.Sort(when)
	return when[min(limit, len(when)-1)]
}

// touched returns when an object, or one of its dependencies, reached the state that it has at a revision.
func (e *epoch) touched(t *thing, revision uint64) time.Duration {
	now := t.at(revision)
	at := now.at
	if now.object == nil {
		return at
	}
	for _, name := range servicesOf(now.object) {
		for _, dep := range e.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
			at = max(at, dep.at(revision).at)
		}
	}
	return at
}

// mayPass reports whether a table was accepted, or the source has shown the loss for the time of a hold.
func (x *Index) mayPass(name string, p published, since time.Duration) bool {
	for _, e := range x.h.Events {
		if e.Name == "accept" && (e.Member == name || e.Member == "") && e.At <= p.at && e.At >= since {
			return true // accepted for this loss; its digest changes with every endpoint
		}
	}
	if slices.ContainsFunc(x.resets(), func(r time.Duration) bool { return r <= p.at && p.at < r+afterReset && r+time.Second >= since }) {
		since = p.at // a restore may bring any table: the guard judges it like a loss
	}
	if x.heldLongEnough(name, p.at) {
		return true
	}
	return len(p.shape.requests) > 0 && p.at-since >= x.h.Run.Hold-time.Second
}

// heldLongEnough reports whether a hold has just ended after its full time, according to the server.
func (x *Index) heldLongEnough(name string, at time.Duration) bool {
	var began, ended time.Duration = -1, -1
	for _, e := range x.h.Events {
		if e.Member != name || e.At > at {
			continue
		}
		switch e.Name {
		case "held", "kept", "resumed":
			if began < 0 || ended >= 0 {
				began, ended = e.At, -1
			}
		case "released":
			ended = e.At
		}
	}
	return began >= 0 && ended-began >= x.h.Run.Hold-time.Second && at-ended <= x.processing
}
