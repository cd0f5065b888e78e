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

// Kept is an object that is served at an earlier version than the newest one: an Ingress, a RouteGroup, or a Service with its endpoints.
// Where only tables are known, it is the whole table. It is immutable. The state file, and replicas among each other, use its JSON form.
type Kept struct {
	kube.Ref
	// Reason and Detail say why; By says who keeps it: "guard", the reason of a review, or the operator.
	Reason guard.Code `json:"reason"`
	Detail string     `json:"detail"`
	By     string     `json:"by"`
	Since  time.Time  `json:"since"`
	// Pending means that its review is not done yet, and that the object is not kept for anything so far: see [Objection].
	Pending bool `json:"pending,omitempty"`
	// From is when its time began: with Since, or when something last came back, which Returned then says.
	From     time.Time `json:"from"`
	Returned bool      `json:"returned,omitempty"`
	// Until is when time releases it; zero if time does not.
	Until time.Time `json:"until,omitzero"`
	// Warned means that the log has told that a freeze or pin ends soon.
	Warned bool `json:"warned,omitempty"`
	// Declared names the entry of the ConfigMap that orders it; empty for the command of an operator.
	Declared string `json:"declared,omitempty"`
	// Deleted means that the newest snapshot has no object with the name.
	Deleted bool `json:"deleted,omitempty"`

	// What is served. All are nil for an object that is not served yet.
	kube.Version
	Service *compile.KeptService `json:"service,omitempty"`
	// DefaultFilters are the served ones, for the entry of the folder with default filters.
	DefaultFilters *kube.DefaultFilters `json:"default_filters,omitempty"`

	// Endless means that the newest table had no routes of objects when the object was kept: time releases it only when nearly all is back.
	Endless bool `json:"endless,omitempty"`

	// Only for the whole table: the kinds of all reasons so far, and the least that was missing for these ([guard.Loss.Missing]).
	Reasons []guard.Code `json:"reasons,omitempty"`
	Missing int          `json:"missing,omitempty"`
}

// keptBy is who keeps objects.
const keptBy = "guard"

// tableRef names the entry of the whole table. No object has this kind.
var tableRef = kube.Ref{Kind: "Table", Name: "all"}

// filtersRef names the entry of the default filters.
var filtersRef = kube.Ref{Kind: "DefaultFilters", Name: "all"}

// keptObject returns an Ingress or RouteGroup that is kept as it was; nil if it did not exist.
func keptObject(ref kube.Ref, was kube.Object, deleted bool) *Kept {
	return &Kept{Ref: ref, Deleted: deleted, Version: kube.VersionOf(was)}
}

// Served says what is served of the object, in words.
func (k *Kept) Served() string {
	switch {
	case k.Service != nil:
		return "its last endpoints"
	case k.Ref == filtersRef:
		return "as they were"
	case k.Object() == nil && k.Reason == ReasonPin:
		return "not at all"
	case k.Object() == nil:
		return "nothing yet"
	case k.Object().Metadata().Changed != "":
		return "as of " + k.Object().Metadata().Changed
	}
	return "as it was"
}

// Waits says what waits to be served, in words.
func (k *Kept) Waits() string {
	switch {
	case k.Deleted:
		return "its deletion"
	case k.Service != nil:
		return "no endpoints"
	}
	return "its newest version"
}

func (k *Kept) check() error {
	valid := false
	switch {
	case k.Object() != nil:
		valid = k.Object().Ref() == k.Ref && k.Service == nil && (k.Ingress == nil || k.RouteGroup == nil)
	case k.Service != nil:
		s := k.Service
		valid = k.Kind == kube.KindService && len(s.Services) > 0 && !slices.Contains(s.Services, nil) && !slices.Contains(s.Endpoints, nil) && !slices.Contains(s.EndpointSlices, nil)
	case k.Ref == tableRef:
		valid = len(k.Reasons) > 0
	case k.Ref == filtersRef:
		valid = true
	case k.Kind == kindFreeze:
		valid = k.Reason == ReasonFreeze
	default:
		valid = k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup
	}
	if !valid || !slices.Contains(Reasons(), k.Reason) || k.Since.IsZero() {
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

// ReadKept reads the list that another replica answers with. The error says that it is too long, or as of [DecodeKept].
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

// table returns the entry of the whole table, or nil.
func (l keptList) table() *Kept { return l.find(tableRef) }

// objects returns the list without the entries of the whole table and of freezes.
func (l keptList) objects() keptList {
	return l.where(func(k *Kept) bool { return k.Ref != tableRef && k.Kind != kindFreeze })
}

// guarded returns the entries that the guard keeps: the rules of package guard are about these alone.
func (l keptList) guarded() keptList {
	return l.where(func(k *Kept) bool { return !reviewed(k.Reason) && !steered(k.Reason) })
}

// waiting returns the entries that an operator can accept.
func (l keptList) waiting() keptList {
	return l.where(func(k *Kept) bool { return !k.Pending && !steered(k.Reason) })
}

// and returns the list with more entries, which replace those of the same objects.
func (l keptList) and(more keptList) keptList {
	return slices.Concat(l.without(more), more).sorted()
}

// without returns the entries of a list whose objects another one lacks.
func (l keptList) without(other keptList) keptList {
	return l.where(func(k *Kept) bool { return !other.has(k.Ref) })
}

// settled returns the entries that are kept for a reason, without those that only wait for their review.
func (l keptList) settled() keptList { return l.where(func(k *Kept) bool { return !k.Pending }) }

func (l keptList) where(wanted func(*Kept) bool) keptList {
	return slices.DeleteFunc(slices.Clone(l), func(k *Kept) bool { return !wanted(k) })
}

// with returns the list with the entry of the whole table, or without one if it is nil.
func (l keptList) with(table *Kept) keptList {
	if table == nil {
		return l.where(func(k *Kept) bool { return k.Ref != tableRef })
	}
	return l.and(keptList{table})
}

// digest identifies the names in a list. Replicas that keep the same objects have the same digest.
func (l keptList) digest() table.Digest {
	h := sha256.New()
	for _, k := range l {
		fmt.Fprintf(h, "%s\x00", k.Ref)
	}
	return table.Digest(h.Sum(nil))
}

// held says for the guard what the list holds back.
func (l keptList) held() guard.Held {
	since, _ := l.guarded().times()
	return guard.Held{Objects: len(l.objects().guarded()) > 0, Since: since}
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

// apply returns the newest snapshot with the kept objects at their versions. Kept services lose the addresses that by now belong to
// others: the returned list has the services without these addresses.
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
	next := slices.DeleteFunc(slices.Clone(list), func(o P) bool { return kept.has(o.Ref()) })
	for _, k := range kept {
		if o := version(k); o != nil {
			next = append(next, o)
		}
	}
	return next
}

// newestFirst returns the entries in the order of when they were kept, for what is shown of all. The caller owns the slice.
func (l keptList) newestFirst() keptList {
	return slices.SortedFunc(slices.Values(l), func(a, b *Kept) int { return cmp.Or(b.Since.Compare(a.Since), a.Ref.Compare(b.Ref)) })
}

// times returns when the oldest entry began, and when time releases the first one; zero without any.
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
