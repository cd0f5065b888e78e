package publish

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// Kept is an entry of the list of exceptions: an Ingress, RouteGroup, Service with its endpoints, or the default filters,
// served at an earlier version than the newest one or not yet; where only tables are known, the whole table. An entry is
// immutable, so its end is fixed when it is created. The JSON form is on disk and for replicas.
type Kept struct {
	kube.Ref
	// Reason and Detail explain why; By is "guard", the reason of a review, or the operator.
	Reason guard.Code `json:"reason"`
	Detail string     `json:"detail"`
	By     string     `json:"by"`
	Since  time.Time  `json:"since"`
	// Until is when the entry expires; zero if it does not.
	Until time.Time `json:"until,omitzero"`
	// Accident is when the accident that includes this loss began; zero except for losses.
	Accident time.Time `json:"accident,omitzero"`
	// Pending means that the review of the object is not done: see [Objection].
	Pending bool `json:"pending,omitempty"`
	// Deleted means that the newest snapshot has no object with the name.
	Deleted bool `json:"deleted,omitempty"`
	// Soak is set for [ReasonCanary].
	Soak *Soak `json:"soak,omitempty"`
	// Routes stay as served, or out of the table, although only something that the object refers to has changed.
	Routes []string `json:"routes,omitempty"`

	// The served version. All are nil for an object that is not served yet, and if Routes is set.
	kube.Version
	Service *compile.KeptService `json:"service,omitempty"`
	// DefaultFilters are the served ones, for the entry of the folder with default filters.
	DefaultFilters *kube.DefaultFilters `json:"default_filters,omitempty"`
}

// keptBy is the author of the entries of the guard.
const keptBy = "guard"

// kindTable is the kind of entries that hold the whole table. There is one for each kind of reason, which is the name of the entry.
const kindTable kube.Kind = "Table"

func tableRef(reason guard.Code) kube.Ref {
	return kube.Ref{Kind: kindTable, Name: string(reason.Kind())}
}

// filtersRef names the entry of the default filters.
var filtersRef = kube.Ref{Kind: "DefaultFilters", Name: "all"}

// keptObject returns an Ingress or RouteGroup that is kept as it was; nil if it did not exist.
func keptObject(ref kube.Ref, was kube.Object, deleted bool) *Kept {
	return &Kept{Ref: ref, Deleted: deleted, Version: kube.VersionOf(was)}
}

// replaces reports whether the entry replaces the object, rather than some of its routes.
func (k *Kept) replaces() bool { return k.Object() != nil || len(k.Routes) == 0 }

// Served describes the served version of the object.
func (k *Kept) Served() string {
	switch {
	case k.Service != nil:
		return "its last endpoints"
	case k.Ref == filtersRef:
		return "as they were"
	case k.Object() == nil && k.Reason == ReasonPin:
		return "not at all"
	case len(k.Routes) > 0 && k.Object() == nil:
		return "as it was"
	case k.Object() == nil:
		return "nothing yet"
	case k.Object().Metadata().Changed != "":
		return "as of " + k.Object().Metadata().Changed
	}
	return "as it was"
}

// Waits describes the version that waits to be served.
func (k *Kept) Waits() string {
	switch {
	case k.Deleted:
		return "its deletion"
	case k.Service != nil:
		return "no endpoints"
	case len(k.Routes) > 0 && k.Object() == nil:
		return "what its services or default filters add"
	}
	return "its newest version"
}

// Keeper returns who keeps the object, and a sentence on what its team should do; both are empty for the guard.
func (k *Kept) Keeper() (who, advice string) {
	switch {
	case steered(k.Reason):
		return "an operator (" + cmp.Or(k.By, "unknown") + ")", "It is frozen or pinned on purpose: its newest version is served when that ends, or when the operators of the ingress release it (routesrv unfreeze)."
	case k.Reason == ReasonTrial:
		return "the trial of filters and predicates", "Correct the filter or predicate: the newest version is served once a proxy accepts it."
	case k.Reason == ReasonTakeover:
		return "the review of takeovers", "Take other hosts or paths, or ask the owner of the requests to allow it with the annotation routesrv.dev/allow-takeover-by."
	}
	return "", ""
}

func (k *Kept) check() error {
	valid := false
	switch {
	case k.Object() != nil:
		valid = k.Object().Ref() == k.Ref && k.Service == nil && (k.Ingress == nil || k.RouteGroup == nil)
	case k.Service != nil:
		s := k.Service
		valid = k.Kind == kube.KindService && len(s.Services) > 0 && !slices.Contains(s.Services, nil) && !slices.Contains(s.Endpoints, nil) && !slices.Contains(s.EndpointSlices, nil)
	case k.Kind == kindTable:
		valid = k.Ref == tableRef(k.Reason)
	case k.Ref == filtersRef:
		valid = true
	case k.Kind == kindFreeze:
		valid = k.Reason == ReasonFreeze
	default:
		valid = k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup
	}
	if !valid || !slices.Contains(Reasons(), k.Reason) || k.Since.IsZero() || (k.Soak != nil) != (k.Reason == ReasonCanary) {
		return fmt.Errorf("kept object %s is not valid", k.Ref)
	}
	return nil
}

// over reports whether the entry has expired.
func (k *Kept) over(now time.Time) bool { return !k.Until.IsZero() && !now.Before(k.Until) }

// Soak is the progress of a change of an object.
type Soak struct {
	// Seen identifies the newest version.
	Seen string `json:"seen"`
	// Began is when the object began to soak, perhaps with an earlier version.
	Began time.Time `json:"began"`
	// Halted is the reason why the change was halted; empty if it soaks.
	Halted string `json:"halted,omitempty"`
	// Judged means that the guard has released the change, so what it loses is not judged again.
	Judged bool `json:"judged,omitempty"`
}

// Reasons returns all reasons for keeping objects, for metrics with one series each.
func Reasons() []guard.Code {
	return append(guard.Codes(), ReasonTrial, ReasonTakeover, ReasonFreeze, ReasonPin, ReasonCanary)
}

// reviewed reports whether a reason comes from a review.
func reviewed(r guard.Code) bool { return r == ReasonTrial || r == ReasonTakeover }

// steered reports whether a reason is a decision of an operator.
func steered(r guard.Code) bool { return r == ReasonFreeze || r == ReasonPin }
