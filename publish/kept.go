package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Kept is an entry of the list of exceptions: an object that is served at an earlier version than the newest one, or not yet. The object is
// an Ingress, a RouteGroup, the default filters, or a Service with its endpoints. An entry is immutable, so its end is fixed when it is created.
// Where only tables are known, an entry holds the whole table. The list on disk and the answer to replicas use the JSON form.
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
	// Routes are the ids of routes that stay as served, or out of the table, although only something that the object refers to has
	// changed.
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

// DecodeKept reads the JSON form of kept objects. The error names the first one that is not valid.
func DecodeKept(text []byte) ([]*Kept, error) {
	var list keptList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decode kept objects: %w", err)
	}
	seen := make(map[kube.Ref]bool, len(list))
	for _, k := range list {
		switch {
		case k == nil:
			return nil, errors.New("decode kept objects: null in the list")
		case seen[k.Ref]:
			return nil, fmt.Errorf("decode kept objects: %s is listed twice", k.Ref)
		}
		seen[k.Ref] = true
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("decode kept objects: %w", err)
		}
	}
	return list.sorted(), nil
}

// ReadKept reads the list that another replica answers with. It returns an error if the list is too long, or the error of
// [DecodeKept].
func ReadKept(r io.Reader) ([]*Kept, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxKept+1))
	if err != nil {
		return nil, fmt.Errorf("read kept objects: %w", err)
	}
	if len(text) > MaxKept {
		return nil, fmt.Errorf("read kept objects: more than %d bytes", MaxKept)
	}
	return DecodeKept(text)
}

// keptList are kept objects, sorted. It is immutable.
type keptList []*Kept

func (l keptList) sorted() keptList {
	return slices.SortedFunc(slices.Values(l), func(a, b *Kept) int { return a.Ref.Compare(b.Ref) })
}

func (l keptList) find(r kube.Ref) *Kept {
	i, found := slices.BinarySearchFunc(l, r, func(k *Kept, r kube.Ref) int { return k.Ref.Compare(r) })
	if !found {
		return nil
	}
	return l[i]
}

func (l keptList) has(r kube.Ref) bool { return l.find(r) != nil }

// tables returns the entries that hold the whole table.
func (l keptList) tables() keptList {
	return l.where(func(k *Kept) bool { return k.Kind == kindTable })
}

// objects returns the entries of objects, without freezes and entries for the whole table.
func (l keptList) objects() keptList {
	return l.where(func(k *Kept) bool { return k.Kind != kindTable && k.Kind != kindFreeze })
}

// soaking returns the entries of the canary, and others the rest.
func (l keptList) soaking() keptList { return l.where(func(k *Kept) bool { return k.Soak != nil }) }
func (l keptList) others() keptList  { return l.where(func(k *Kept) bool { return k.Soak == nil }) }

// guarded returns the entries of the guard: the rules of package guard apply only to these.
func (l keptList) guarded() keptList {
	return l.where(func(k *Kept) bool { return !reviewed(k.Reason) && !steered(k.Reason) && k.Soak == nil })
}

// acceptable returns the entries that an operator can accept by the digest of the list.
func (l keptList) acceptable() keptList {
	return l.where(func(k *Kept) bool { return !k.Pending && !steered(k.Reason) && k.Soak == nil })
}

// and returns the list with more entries, which replace entries of the same objects.
func (l keptList) and(more keptList) keptList {
	if len(more) == 0 {
		return l
	}
	return slices.Concat(l.without(more), more).sorted()
}

// without returns the entries whose objects are missing in another list.
func (l keptList) without(other keptList) keptList {
	return l.where(func(k *Kept) bool { return !other.has(k.Ref) })
}

// settled returns the list without the entries whose review is not done.
func (l keptList) settled() keptList { return l.where(func(k *Kept) bool { return !k.Pending }) }

func (l keptList) where(wanted func(*Kept) bool) keptList {
	return slices.DeleteFunc(slices.Clone(l), func(k *Kept) bool { return !wanted(k) })
}

// accident returns when the current accident began: the last one, if less than a window ago; otherwise zero.
func (l keptList) accident(now time.Time, window time.Duration) (began time.Time) {
	for _, k := range l.guarded() {
		if k.Accident.After(began) && now.Sub(k.Accident) < window {
			began = k.Accident
		}
	}
	return began
}

// digest identifies the names in a list. Replicas that keep the same objects have the same digest.
func (l keptList) digest() table.Digest {
	h := sha256.New()
	for _, k := range l {
		fmt.Fprintf(h, "%s\x00", k.Ref)
	}
	return table.Digest(h.Sum(nil))
}

// names lists some of the objects, for logs.
func (l keptList) names() string {
	const some = 5
	var names []string
	for _, k := range l[:min(some, len(l))] {
		names = append(names, k.Ref.String())
	}
	text := strings.Join(names, ", ")
	if more := len(l) - some; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// apply returns the newest snapshot with the kept objects at their versions. Kept services lose addresses that now belong to
// others: the returned list has the services without them.
func (l keptList) apply(newest *kube.Snapshot) (*kube.Snapshot, keptList) {
	if len(l) == 0 {
		return newest, nil
	}
	s := *newest
	s.Ingresses = exchange(newest.Ingresses, l, func(k *Kept) *kube.Ingress { return k.Ingress })
	s.RouteGroups = exchange(newest.RouteGroups, l, func(k *Kept) *kube.RouteGroup { return k.RouteGroup })
	services := make(map[kube.ServiceKey]*compile.KeptService)
	for _, k := range l {
		if k.Ref == filtersRef {
			s.DefaultFilters = k.DefaultFilters
		}
		if k.Service != nil {
			services[kube.ServiceKey{Namespace: k.Namespace, Name: k.Name}] = k.Service
		}
	}
	backends, services := compile.KeepServices(&newest.Backends, services)
	s.Backends = *backends
	next := make(keptList, len(l))
	for i, k := range l {
		if next[i] = k; k.Service != nil {
			if now := services[kube.ServiceKey{Namespace: k.Namespace, Name: k.Name}]; now != k.Service {
				changed := *k
				changed.Service = now
				next[i] = &changed
			}
		}
	}
	return &s, next
}

// exchange replaces the kept objects of a kind in a list of objects.
func exchange[T any, P interface {
	*T
	kube.Object
}](list []P, kept keptList, version func(*Kept) P) []P {
	next := slices.DeleteFunc(slices.Clone(list), func(o P) bool { k := kept.find(o.Ref()); return k != nil && k.replaces() })
	for _, k := range kept {
		if o := version(k); o != nil {
			next = append(next, o)
		}
	}
	return next
}

// newestFirst returns all entries sorted by time, newest first, for display. The caller owns the slice.
func (l keptList) newestFirst() keptList {
	return slices.SortedFunc(slices.Values(l), func(a, b *Kept) int { return cmp.Or(b.Since.Compare(a.Since), a.Ref.Compare(b.Ref)) })
}

// times returns when the oldest entry began, and when the first one expires; zero without any.
func (l keptList) times() (since, until time.Time) {
	for _, k := range l {
		if since.IsZero() || k.Since.Before(since) {
			since = k.Since
		}
		if !k.Until.IsZero() && (until.IsZero() || k.Until.Before(until)) {
			until = k.Until
		}
	}
	return since, until
}
