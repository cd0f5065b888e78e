package publish

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

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

func (l keptList) others() keptList { return l.where(func(k *Kept) bool { return k.Soak == nil }) }

// guarded returns the entries of the guard: the rules of package guard apply only to these.
func (l keptList) guarded() keptList {
	return l.where(func(k *Kept) bool { return !reviewed(k.Reason) && !steered(k.Reason) && k.Soak == nil })
}

// acceptable returns the entries that an operator can accept by the digest of the list.
func (l keptList) acceptable() keptList {
	return l.where(func(k *Kept) bool { return !k.Pending && !steered(k.Reason) && k.Soak == nil })
}

// freezesAndPins returns the freezes and pins in the list.
func (l keptList) freezesAndPins() keptList {
	return l.where(func(k *Kept) bool { return k.Kind == kindFreeze || k.Reason == ReasonPin })
}

// inForce returns the list without the freezes and pins that have ended, and these.
func (l keptList) inForce(now time.Time) (list, over keptList) {
	over = l.freezesAndPins().where(func(k *Kept) bool { return k.over(now) })
	if len(over) == 0 {
		return l, nil
	}
	return l.without(over), over
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

// orderDigest identifies a list of freezes and pins by scopes, objects, versions and ends, so that replicas can compare.
func (l keptList) orderDigest() table.Digest {
	orders := l.freezesAndPins()
	if len(orders) == 0 {
		return table.Digest{}
	}
	h := sha256.New()
	for _, k := range orders {
		changed := ""
		if o := k.Object(); o != nil {
			changed = o.Metadata().Changed
		}
		fmt.Fprintf(h, "%s\x00%v\x00%s\x00%d\x00", k.Ref, k.Object() != nil, changed, k.Until.Unix())
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

// apply returns the newest snapshot with the kept objects at their versions, and the list without addresses that now belong
// to others.
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

// foremost returns the entry that represents several entries for the whole table: one that does not expire, or else the newest.
func (l keptList) foremost() *Kept {
	return slices.MaxFunc(l, func(a, b *Kept) int {
		rank := func(k *Kept) int {
			if k.Reason.Endless() {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since))
	})
}

// end returns when all entries have expired; zero if one of them never expires.
func (l keptList) end() (end time.Time) {
	for _, k := range l {
		if k.Until.IsZero() {
			return time.Time{}
		}
		if k.Until.After(end) {
			end = k.Until
		}
	}
	return end
}

// judged returns the list with all soaking entries marked as judged by the guard.
func (l keptList) judged() keptList {
	l = slices.Clone(l)
	for i, k := range l {
		if k.Soak != nil && !k.Soak.Judged {
			next, soak := *k, *k.Soak
			soak.Judged, next.Soak = true, &soak
			l[i] = &next
		}
	}
	return l
}
