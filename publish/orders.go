package publish

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
)

// Reasons of operators, which end at a chosen time or with a release. A freeze is an entry about all objects, the objects of a
// namespace, or one; an object that changes meanwhile gets its own entry with the same reason. A pin is an entry of one
// object.
const (
	ReasonFreeze guard.Code = "freeze" // the object changed while it was frozen
	ReasonPin    guard.Code = "pin"    // an operator has chosen its version
)

const kindFreeze kube.Kind = "Freeze"

// allNames is the name of the freeze of all objects, or of all objects of a namespace.
const allNames = "all"

// Scope selects the objects of a command: one, a namespace's, or, as its zero value, all.
type Scope kube.Ref

// Has reports whether an object is in the scope.
func (s Scope) Has(r kube.Ref) bool {
	return (s.Namespace == "" || s.Namespace == r.Namespace) && (s.Name == "" || s.Name == r.Name && s.Kind == r.Kind)
}

// String describes the objects.
func (s Scope) String() string {
	switch {
	case s.Name != "":
		return kube.Ref(s).String()
	case s.Namespace != "":
		return "namespace " + s.Namespace
	}
	return "all objects"
}

// freezeRef names the entry of a freeze. No kind has a dot in its name.
func (s Scope) freezeRef() kube.Ref {
	r := kube.Ref{Kind: kindFreeze, Namespace: s.Namespace, Name: allNames}
	if s.Name != "" {
		r.Name = string(s.Kind) + "." + s.Name
	}
	return r
}

// FreezeOf returns the objects that an entry of the list freezes, if it is the entry of a freeze.
func FreezeOf(k *Kept) (s Scope, isFreeze bool) {
	if k.Kind != kindFreeze {
		return Scope{}, false
	}
	s = Scope{Namespace: k.Namespace}
	if kind, name, one := strings.Cut(k.Name, "."); one {
		s.Kind, s.Name = kube.Kind(kind), name
	}
	return s, true
}

// Order is a decision of an operator about objects.
type Order struct {
	// Freeze keeps the objects of Scope as they are served now, and Pins keeps objects at other versions, perhaps none.
	// Release ends the freezes and pins of objects in Scope instead.
	Freeze, Release bool
	// Promote publishes soaking and halted changes in Scope, and Halt halts soaking ones.
	Promote, Halt bool
	Pins          []*Kept // as of [Pin]
	Scope         Scope
	// Until is when it expires; zero means that it lasts until a release.
	Until time.Time
	// By and Why record who decided, and the reason. They are only stored.
	By, Why string
}

// Pin returns the entry that keeps an object at a version, which detail describes; nil means that it is not served at all.
func Pin(ref kube.Ref, version kube.Object, detail string) *Kept {
	k := keptObject(ref, version, false)
	k.Reason, k.Detail = ReasonPin, detail
	return k
}

// PinFilters returns the entry of the default filters.
func PinFilters(filters *kube.DefaultFilters, detail string) *Kept {
	return &Kept{Ref: filtersRef, DefaultFilters: filters, Reason: ReasonPin, Detail: detail}
}

// ErrNotSteered and ErrNotSoaking mean that an order changes nothing.
var (
	ErrNotSteered = errors.New("nothing is frozen or pinned there")
	ErrNotSoaking = errors.New("nothing soaks there")
)

var errNothingRead = errors.New("no data yet; try again once the route server is ready")

// edit returns the list after an order.
func (l keptList) edit(o Order, now time.Time) (keptList, error) {
	if o.Release {
		rest := l.where(func(k *Kept) bool {
			if s, isFreeze := FreezeOf(k); isFreeze {
				return !o.Scope.contains(s)
			}
			return k.Reason != ReasonPin || !o.Scope.Has(k.Ref)
		})
		if len(rest) == len(l) {
			return nil, ErrNotSteered
		}
		return rest, nil
	}
	entries := slices.Clone(o.Pins)
	if o.Freeze {
		entries = append(entries, &Kept{Ref: o.Scope.freezeRef(), Reason: ReasonFreeze, Detail: o.Scope.String()})
	}
	if len(entries) == 0 {
		return nil, ErrNotSteered
	}
	added := make(keptList, len(entries))
	for i, e := range entries {
		k := *e
		k.By, k.Since, k.Until = cmp.Or(o.By, "operator"), now.UTC(), o.Until
		if o.Why != "" {
			k.Detail += ": " + o.Why
		}
		added[i] = &k
	}
	return l.and(added.sorted()), nil
}

// contains reports whether all objects of another scope are in this one.
func (s Scope) contains(other Scope) bool {
	return s == other || s.Name == "" && (s.Namespace == "" || s.Namespace == other.Namespace)
}

// steer returns the newest read as operators want it, with the entries that make it so.
func (p *policy) steer(s *situation) (Candidate, keptList) {
	orders := s.list.freezesAndPins()
	if len(orders) == 0 {
		return s.newest, nil
	}
	newest := objectsOf(s.newest.Snapshot)
	var entries keptList
	for _, k := range orders {
		if k.Kind == kindFreeze {
			continue
		}
		if deleted := k.Object() != nil && newest[k.Ref] == nil; deleted != k.Deleted {
			next := *k
			next.Deleted = deleted
			k = &next
		}
		entries = append(entries, k)
	}
	entries = append(entries, s.frozen(newest, orders)...).sorted()
	d := p.build(s, s.newest, entries)
	wanted := s.newest
	wanted.Snapshot, wanted.Table = d.snapshot, d.table
	return wanted, d.list
}

// frozen returns the entries of objects that differ from what they were when they were frozen.
func (s *situation) frozen(newest map[kube.Ref]kube.Object, orders keptList) (entries keptList) {
	freezes := orders.where(func(k *Kept) bool { return k.Kind == kindFreeze })
	if len(freezes) == 0 {
		return nil
	}
	by := func(r kube.Ref) *Kept {
		i := slices.IndexFunc(freezes, func(k *Kept) bool { scope, _ := FreezeOf(k); return scope.Has(r) })
		if i < 0 || orders.has(r) {
			return nil
		}
		return freezes[i]
	}
	entry := func(freeze, k *Kept) {
		k.Reason, k.By, k.Until, k.Since = ReasonFreeze, freeze.By, freeze.Until, s.now.UTC()
		k.Detail = "frozen: " + freeze.Detail
		if was := s.list.find(k.Ref); was != nil && was.Reason == ReasonFreeze {
			k.Since = was.Since
		}
		entries = append(entries, k)
	}
	was := s.servedVersions()
	for ref := range newest {
		if _, known := was[ref]; !known {
			was[ref] = nil
		}
	}
	for ref, version := range was {
		if freeze := by(ref); freeze != nil && !sameVersion(version, newest[ref]) {
			entry(freeze, keptObject(ref, version, newest[ref] == nil))
		}
	}
	if freeze := by(filtersRef); freeze != nil {
		if k := s.otherFilters(s.newest.Snapshot.DefaultFilters); k != nil {
			entry(freeze, k)
		}
	}
	return entries
}

// servedVersions returns the served versions of objects, nil for one that is kept out; if they are unknown, as the list and
// the newest read tell.
func (s *situation) servedVersions() map[kube.Ref]kube.Object {
	was := objectsOf(cmp.Or(s.served.Snapshot, s.newest.Snapshot))
	for _, k := range s.list.objects() {
		isKept := k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup
		if s.served.Snapshot == nil && isKept && k.replaces() || k.Reason == ReasonFreeze && isKept && k.replaces() && k.Object() == nil {
			was[k.Ref] = k.Object()
		}
	}
	return was
}

// newPins returns the pins whose versions are not served yet.
func (s *situation) newPins(entries keptList) keptList {
	pins := entries.where(func(k *Kept) bool { return k.Reason == ReasonPin })
	if len(pins) == 0 || s.served.Snapshot == nil {
		return nil
	}
	was := objectsOf(s.served.Snapshot)
	return pins.where(func(k *Kept) bool { return k.Ref != filtersRef && !sameVersion(was[k.Ref], k.Object()) })
}

// words describes an order.
func (o Order) words() string {
	switch {
	case o.Release:
		return "release of " + o.Scope.String()
	case o.Promote:
		return "promotion of " + o.Scope.String()
	case o.Halt:
		return "halt of " + o.Scope.String()
	case len(o.Pins) == 0:
		return "freeze of " + o.Scope.String()
	}
	return fmt.Sprintf("roll back of %s, %d pinned", o.Scope, len(o.Pins))
}
