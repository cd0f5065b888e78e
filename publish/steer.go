package publish

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Reasons of operators, in addition to the reasons of package guard and of reviews. They end at a chosen time or with a release.
//
// A freeze is an entry of the list itself, about all objects, the objects of a namespace, or one. An object that changes during a
// freeze is kept at its frozen version, as an entry with the same reason. A pin is an entry of one object at some version. An
// object has the version of its pin, else of a freeze, else the version that reviews and the guard allow.
const (
	ReasonFreeze guard.Code = "freeze" // the object changed while it was frozen
	ReasonPin    guard.Code = "pin"    // an operator has chosen its version
)

// steered reports whether a reason is a decision of an operator.
func steered(r guard.Code) bool { return r == ReasonFreeze || r == ReasonPin }

const kindFreeze kube.Kind = "Freeze"

// allNames is the name of the freeze of all objects, or of all objects of a namespace.
const allNames = "all"

// Messages of the log.
const (
	LogSteered   = "operator steers objects"
	LogSteerOver = "freeze or pin has ended"
)

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
	// Freeze keeps the objects of Scope at the versions that are served now, and Pins keeps objects at the versions that they have, which may be none.
	// Both may be set. Release ends the freezes and pins of Scope instead: those of objects in it, and freezes of a part of it.
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

// Pin returns the entry that keeps an object at a version; nil means that the object is not served at all. detail describes the
// version.
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
	return d.candidateOf(s.newest), d.list
}

// candidateOf returns the candidate with the snapshot and table of the decision.
func (d *decision) candidateOf(c Candidate) Candidate {
	c.Snapshot, c.Table = d.snapshot, d.table
	return c
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

// servedVersions returns the versions of objects that are served: nil for one that is kept out. If they are unknown, they are what the list tells,
// and the newest ones of all other objects.
func (s *situation) servedVersions() map[kube.Ref]kube.Object {
	was := objectsOf(cmp.Or(s.served.Snapshot, s.newest.Snapshot))
	for _, k := range s.list.objects() {
		isKept := k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup
		if s.served.Snapshot == nil && isKept && k.replaces() || k.Reason == ReasonFreeze && isKept && k.replaces() && k.Object() == nil {
			was[k.Ref] = objectOrNil(k)
		}
	}
	return was
}

// objectOrNil returns the version of an entry; the interface is nil if there is none.
func objectOrNil(k *Kept) kube.Object {
	if o := k.Object(); o != nil {
		return o
	}
	return nil
}

// sameVersion reports whether two versions of an object, which may be nil, are the same.
func sameVersion(a, b kube.Object) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

// newPins returns the pins whose versions are not served yet.
func (s *situation) newPins(entries keptList) keptList {
	pins := entries.where(func(k *Kept) bool { return k.Reason == ReasonPin })
	if len(pins) == 0 || s.served.Snapshot == nil {
		return nil
	}
	was := objectsOf(s.served.Snapshot)
	return pins.where(func(k *Kept) bool { return k.Ref != filtersRef && !sameVersion(was[k.Ref], objectOrNil(k)) })
}

// Steer carries out an order at once, with the objects of the last read. What a pin removes is no accident, so the guard does not
// keep it; what the end of a freeze or pin would remove is judged like any change. Steer returns [ErrNotSteered], or an error if
// only tables are known or the order could not be made durable: then nothing has changed.
func (p *Publisher) Steer(o Order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy.builder == nil {
		return errors.New("only a route server that reads objects can freeze and pin them")
	}
	if o.Promote || o.Halt {
		return p.steerCanary(o)
	}
	was := p.standing.Load()
	list, err := was.list.edit(o, time.Now())
	if err != nil {
		return err
	}
	if err := p.keptFile.write(list); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	next := *was
	next.list = list
	p.show(&next)
	p.recordOrder(o)
	p.again(nil, nil)
	return nil
}

// recordOrder logs and records an order.
func (p *Publisher) recordOrder(o Order) {
	p.log.Warn(LogSteered, "release", o.Release, "freeze", o.Freeze, "pins", len(o.Pins), "scope", o.Scope.String(), "until", releaseAt(o.Until),
		"by", o.By, "why", o.Why)
	d := api.Decision{Time: time.Now().UTC().Truncate(time.Millisecond), What: api.DecidedSteered, Objects: o.words(), By: o.By, Why: o.Why}
	if t := p.Table(); t != nil {
		d.Digest = t.Digest()
	}
	p.cfg.Decided(d)
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

// Preview returns the served table, and the one that would be served after an order, unless the guard or a review keeps some of it. The error is as
// of Steer.
func (p *Publisher) Preview(o Order) (before, after *table.Table, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.situation(p.newest)
	if o.Promote || o.Halt {
		return p.previewCanary(o, &s)
	}
	if s.list, err = s.list.edit(o, s.now); err != nil {
		return nil, nil, err
	}
	if p.policy.builder == nil || p.newest.Snapshot == nil || p.Table() == nil {
		return nil, nil, errNothingRead
	}
	wanted, entries := p.policy.steer(&s)
	others := s.list.objects().where(func(k *Kept) bool { return !steered(k.Reason) && k.replaces() })
	return p.Table(), p.policy.build(&s, wanted, others.without(entries)).table, nil
}

// Orders returns the freezes and pins in force, the newest first, and a digest of them: replicas with the same ones have the same. It is zero if
// there are none. The caller owns the slice, not what it has.
func (p *Publisher) Orders() ([]*Kept, table.Digest) {
	list := p.standing.Load().list
	return list.freezesAndPins().newestFirst(), list.orderDigest()
}

// TableOf returns the table that would be served if teams had requested something else, with the backends of the last read and without what
// is kept. It returns an error if nothing was read yet, or if only tables are known.
func (p *Publisher) TableOf(intent *kube.Intent) (*table.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.newest
	if p.policy.builder == nil || c.Snapshot == nil {
		return nil, errNothingRead
	}
	snapshot := *c.Snapshot
	snapshot.Intent = *intent
	s := p.situation(c)
	return s.tableOf(c, p.policy.builder.CompileBeside(&snapshot)), nil
}
