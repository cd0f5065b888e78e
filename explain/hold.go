package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Hold is a hold of the guard: proxies get what is served, and the newest read waits.
type Hold struct {
	Reason string     `json:"reason"` // code of the guard
	Detail string     `json:"detail"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"release_at,omitempty"` // the earliest end; nil if time does not end it
	// By says who keeps it, and Do what its team should do, in a sentence. Empty mean the guard.
	By string `json:"-"`
	Do string `json:"-"`
	// Snapshot is what the served table is compiled from, with Options; nil if only the table is known, as after a restart.
	Snapshot *kube.Snapshot `json:"-"`
	Options  rules.Options  `json:"-"`
}

// What the newest read shows of an object that is served in an earlier state, as in Object.Newest.
const (
	NewestDeleted   = "deleted"
	NewestChanged   = "changed"
	NewestEndpoints = "without_endpoints"
)

// held explains what is served during a hold. It reports whether the query is about something that is served.
func (x *explainer) held(q Query) bool {
	if x.Hold.Snapshot == nil {
		return x.heldTable(q)
	}
	refs := x.servedOf(q)
	if len(refs) == 0 {
		return false
	}
	c, err := compile.New(x.Hold.Options)
	if err != nil {
		return false // unexpected: the newest read is compiled with the same options
	}
	x.result, x.fromServed = c.Compile(neighbours(x.Hold.Snapshot, refs)), true
	x.snapshot = x.result.Snapshot
	x.owners = nil // they are of the other snapshot
	x.query(q)
	for i := range x.out.Objects {
		x.compare(&x.out.Objects[i])
	}
	x.tellHold()
	return true
}

// servedOf returns the objects of the served snapshot that a query is about.
func (x *explainer) servedOf(q Query) []kube.Ref {
	s := x.Hold.Snapshot
	switch {
	case q.Route != "":
		return NewOwners(nil, s).Candidates(q.Route)
	case q.Host == "":
		ref := q.ref()
		for o := range s.Objects() {
			known := o.Ref()
			if known.Kind == ref.Kind && known.Name == ref.Name && kube.NamespaceOrDefault(known.Namespace) == ref.Namespace {
				return []kube.Ref{known}
			}
		}
		return spelt(ref, s)
	}
	var found []kube.Ref
	for o := range s.Objects() {
		if slices.ContainsFunc(o.Hosts(), func(h string) bool { return strings.EqualFold(h, q.Host) }) {
			found = append(found, o.Ref())
		}
	}
	return found
}

// neighbours returns the part of a snapshot that decides about some objects: those that share a host with them, and what is in the
// namespaces of all of these.
func neighbours(s *kube.Snapshot, refs []kube.Ref) *kube.Snapshot {
	hosts := make(map[string]bool)
	asked := func(r kube.Ref) bool { return slices.Contains(refs, r) }
	for o := range s.Objects() {
		if asked(o.Ref()) {
			for _, h := range o.Hosts() {
				hosts[h] = true
			}
		}
	}
	namespaces := make(map[string]bool)
	part := *s
	near := func(o kube.Routed, r kube.Ref) bool {
		if !asked(r) && !slices.ContainsFunc(o.Hosts(), func(h string) bool { return hosts[h] }) {
			return false
		}
		namespaces[kube.NamespaceOrDefault(r.Namespace)] = true
		return true
	}
	part.Ingresses = filter(s.Ingresses, func(o *kube.Ingress) bool { return near(o, o.Ref()) })
	part.RouteGroups = filter(s.RouteGroups, func(o *kube.RouteGroup) bool { return near(o, o.Ref()) })
	in := func(namespace string) bool { return namespaces[kube.NamespaceOrDefault(namespace)] }
	part.Services = filter(s.Services, func(o *kube.Service) bool { return in(o.Namespace) })
	part.Endpoints = filter(s.Endpoints, func(o *kube.Endpoints) bool { return in(o.Namespace) })
	part.EndpointSlices = filter(s.EndpointSlices, func(o *kube.EndpointSlice) bool { return in(o.Namespace) })
	return &part
}

func filter[T any](all []T, keep func(T) bool) (kept []T) {
	for _, o := range all {
		if keep(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

// compare sets what the newest read shows of an object that is served.
func (x *explainer) compare(o *Object) {
	now, ok := x.Result.Inspect(o.Owner)
	was, _ := x.result.Inspect(o.Owner)
	switch {
	case !ok:
		o.Newest = NewestDeleted
	case now.Object != was.Object:
		o.Newest = NewestChanged
	default:
		for i := range now.Services {
			s := &now.Services[i]
			if ready, _ := s.Readiness(); ready == 0 && slices.ContainsFunc(o.Services, func(k Service) bool {
				return k.Namespace == s.Key.Namespace && k.Name == s.Key.Name && k.Ready > 0
			}) {
				o.Newest = NewestEndpoints
			}
		}
	}
}

// tellHold adds to the cause that an object is kept, and to the advice what ends that.
func (x *explainer) tellHold() {
	x.out.Hold = x.Hold
	var kept []string
	state := ""
	for _, o := range x.out.Objects {
		if o.Newest != "" {
			kept = append(kept, o.Owner.String())
			state = o.Newest
		}
	}
	if len(kept) == 0 {
		return
	}
	what := "The newest read of the cluster no longer shows " + short(kept, 3)
	advice := "Apply it again if it was deleted by mistake."
	switch {
	case len(kept) > 1:
		what, advice = "The newest read of the cluster shows another state of "+short(kept, 3), ""
	case state == NewestChanged:
		what, advice = "The newest read of the cluster shows a later version, which waits", ""
	case state == NewestEndpoints:
		what, advice = "In the newest read of the cluster its services have no ready pods, and their last addresses are kept", ""
	}
	x.out.Cause += " " + what + ": " + x.Hold.text() + "."
	x.out.Advice = strings.TrimSpace(x.out.Advice + " " + advice + " " + x.Hold.advice())
	if x.out.Result == "fine" || x.out.Result == rules.Info.String() {
		x.out.Result = rules.Warning.String()
	}
}

// text says why the guard holds, and since when.
func (h *Hold) text() string {
	text := fmt.Sprintf("%s holds it back since %s (%s: %s)", cmp.Or(h.By, "the guard"), h.Since.UTC().Format(time.RFC3339), h.Reason, h.Detail)
	if h.Until != nil {
		text += fmt.Sprintf(", until %s at the earliest", h.Until.UTC().Format(time.RFC3339))
	}
	return text
}

// advice says what ends a hold.
func (h *Hold) advice() string {
	if h.Do != "" {
		return h.Do
	}
	if h.Until == nil {
		return "If the change is intended, ask the operators of the ingress to accept it (routesrv accept): time does not end this hold."
	}
	return "If the change is intended, wait for that time, or ask the operators of the ingress to accept it (routesrv accept)."
}

// heldTable explains an object that the newest read does not show, from the ids of the served table alone.
func (x *explainer) heldTable(q Query) bool {
	if q.Name == "" || !x.HasServed {
		return false
	}
	if _, ok := x.result.Inspect(q.ref()); ok {
		return false
	}
	id := routeid.Ingress(q.Namespace, q.Name, "", "", "")
	if q.Kind == kube.KindRouteGroup {
		id = routeid.RouteGroup(q.Namespace, q.Name, "all", 0, 0, false)
	}
	owner, routes := routeid.ObjectOf(id), 0
	for r := range x.Served.All() {
		if routeid.ObjectOf(r.ID) == owner {
			routes++
		}
	}
	if routes == 0 {
		return false
	}
	x.out.Hold, x.out.Result = x.Hold, rules.Warning.String()
	x.out.Cause = fmt.Sprintf("%s is served by its ids (%s), and the newest read of the cluster does not show it: %s.", q.ref(), shadowdiff.Plural(routes, "route"), x.Hold.text())
	x.out.Advice = "Only the table is known, so nothing else can be said about the object. Apply it again if it was deleted by mistake. " + x.Hold.advice()
	return true
}
