package publish

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// What operators decide, as reasons beside those of package guard and of reviews. It ends at a time that they chose, or when they say so.
//
// A freeze is an entry of the list itself, about all objects, those of a namespace, or one. What changes while it lasts is kept at its
// version of then, as an entry with the same reason. A pin is an entry of one object at some version. An object has the version of its
// pin, else of a freeze, else what reviews and the guard say of its newest version.
const (
	ReasonFreeze guard.Code = "freeze" // the object changed while it was frozen
	ReasonPin    guard.Code = "pin"    // an operator has chosen its version
)

// steered reports whether a reason is a decision of an operator.
func steered(r guard.Code) bool { return r == ReasonFreeze || r == ReasonPin }

// EndsSoon is how long before its end the log warns of it.
const EndsSoon = 10 * time.Minute

const kindFreeze kube.Kind = "Freeze"

// allNames is the name of the freeze of all objects, or of those of a namespace.
const allNames = "all"

// Messages of the log.
const (
	LogSteered   = "operator steers objects"
	LogSteerEnds = "freeze or pin ends soon, then the newest versions are served"
	LogSteerOver = "freeze or pin has ended"
)

// Scope says which objects a command is about: one, those of a namespace, or, as its zero value, all.
type Scope kube.Ref

// Has reports whether an object is in the scope.
func (s Scope) Has(r kube.Ref) bool {
	return (s.Namespace == "" || s.Namespace == r.Namespace) && (s.Name == "" || s.Name == r.Name && s.Kind == r.Kind)
}

// String says which objects these are, in words.
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
	scope, _, _ := strings.Cut(k.Name, declaredBy)
	if kind, name, one := strings.Cut(scope, "."); one {
		s.Kind, s.Name = kube.Kind(kind), name
	}
	return s, true
}

// Order is a decision of an operator about objects.
type Order struct {
	// Freeze keeps the objects of Scope at the versions that are served now, and Pins keeps objects at the versions that they have, which may be none.
	// Both may be set. Release ends the freezes and pins of Scope instead: those of objects in it, and freezes of a part of it.
	Freeze, Release bool
	Pins            []*Kept // as of [Pin]
	Scope           Scope
	// Until is when it ends by itself; zero means not before a release.
	Until time.Time
	// By and Why say who decided and for what reason. They are only stored.
	By, Why string
	// Declared names the entry of a ConfigMap that orders it; empty for a command.
	Declared string
}

// Pin returns the entry of an object that is to be kept at a version; nil means that it is not to be served at all. detail says which version that is.
func Pin(ref kube.Ref, version kube.Object, detail string) *Kept {
	k := keptObject(ref, version, false)
	k.Reason, k.Detail = ReasonPin, detail
	return k
}

// PinFilters returns the entry of the default filters.
func PinFilters(filters *kube.DefaultFilters, detail string) *Kept {
	return &Kept{Ref: filtersRef, DefaultFilters: filters, Reason: ReasonPin, Detail: detail}
}

// ErrNotSteered means that an order changes nothing.
var ErrNotSteered = errors.New("nothing is frozen or pinned there")

var errNothingRead = errors.New("nothing was read yet, so nobody knows what would change")

// orderDigest tells lists of freezes and pins apart, for replicas that must agree: scopes, objects, versions and ends.
func (l keptList) orderDigest() table.Digest {
	freezes, pins := l.orders()
	if len(freezes)+len(pins) == 0 {
		return table.Digest{}
	}
	h := sha256.New()
	for _, k := range slices.Concat(freezes, pins) {
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
		var declared *Kept
		rest := l.where(func(k *Kept) bool {
			s, isFreeze := FreezeOf(k)
			if k.Declared != "" { // it stays until a read no longer shows it
				if isFreeze && o.Scope.contains(s) || o.Scope.Has(k.Ref) {
					declared = k
				}
				return true
			}
			if isFreeze {
				return !o.Scope.contains(s)
			}
			return k.Reason != ReasonPin || !o.Scope.Has(k.Ref)
		})
		switch {
		case len(rest) < len(l):
			return rest, nil
		case declared != nil:
			return nil, fmt.Errorf("%w by a command: remove the entry %s of its ConfigMap", ErrNotSteered, declared.Declared)
		}
		return nil, ErrNotSteered
	}
	entries := slices.Clone(o.Pins)
	if o.Freeze {
		ref := o.Scope.freezeRef()
		if o.Declared != "" {
			ref.Name += declaredBy + o.Declared // beside the command of an operator about the same objects
		}
		entries = append(entries, &Kept{Ref: ref, Reason: ReasonFreeze, Detail: o.Scope.String()})
	}
	if len(entries) == 0 {
		return nil, ErrNotSteered
	}
	added := make(keptList, len(entries))
	for i, e := range entries {
		k := *e
		k.Declared = o.Declared
		k.By, k.Since, k.From, k.Until = cmp.Or(o.By, "operator"), now.UTC(), now.UTC(), o.Until
		if o.Why != "" {
			k.Detail += ": " + o.Why
		}
		added[i] = &k
	}
	added = added.sorted()
	return l.and(added), nil
}

// contains reports whether all objects of another scope are in this one.
func (s Scope) contains(other Scope) bool {
	return s == other || s.Name == "" && (s.Namespace == "" || s.Namespace == other.Namespace)
}

// orders returns the freezes and pins of a list.
func (l keptList) orders() (freezes, pins keptList) {
	return l.where(func(k *Kept) bool { return k.Kind == kindFreeze }), l.where(func(k *Kept) bool { return k.Reason == ReasonPin })
}

// withOrders returns the list with the freezes and pins of another one.
func (l keptList) withOrders(of keptList) keptList {
	freezes, pins := of.orders()
	return l.and(freezes).and(pins.without(l))
}

// inForce takes the freezes and pins that have ended from the list, and says so. It warns of those that end soon, once. The caller holds mu.
func (p *Publisher) inForce(now time.Time) {
	var next, over, soon keptList
	for _, k := range p.keeper.list {
		isOrder := k.Kind == kindFreeze || k.Reason == ReasonPin
		switch {
		case !isOrder || k.Until.IsZero() || now.Add(EndsSoon).Before(k.Until):
		case !now.Before(k.Until):
			over = append(over, k)
			continue
		case !k.Warned && k.Until.Sub(k.Since) > EndsSoon:
			warned := *k
			warned.Warned = true
			k = &warned
			soon = append(soon, k)
		}
		next = append(next, k)
	}
	p.keeper.list = next
	if len(soon) > 0 {
		p.log.Warn(LogSteerEnds, "count", len(soon), "objects", soon.names(), "until", soon[0].Until, "by", soon[0].By)
	}
	if len(over) > 0 {
		p.log.Warn(LogSteerOver, "count", len(over), "objects", over.names(), "by", over[0].By, "detail", over[0].Detail)
		if t := p.Table(); t != nil {
			p.cfg.Decided(decisionOf(api.DecidedReleased, t, over))
		}
	}
}

// steer returns the newest read as operators want it, with the entries that make it so; list has their freezes and pins.
func (p *Publisher) steer(c Candidate, list keptList, now time.Time) (Candidate, keptList) {
	freezes, pins := list.orders()
	if len(freezes)+len(pins) == 0 {
		return c, nil
	}
	newest := objectsOf(c.Snapshot)
	var entries keptList
	for _, k := range pins {
		if deleted := k.Object() != nil && newest[k.Ref] == nil; deleted != k.Deleted {
			next := *k
			next.Deleted = deleted
			k = &next
		}
		entries = append(entries, k)
	}
	entries = append(entries, p.frozen(c, newest, list, freezes, pins, now)...).sorted()
	m := p.build(c, entries)
	c.Snapshot, c.Table = m.snapshot, m.table
	return c, m.list
}

// frozen returns the entries of objects that differ from what they were when they were frozen.
func (p *Publisher) frozen(c Candidate, newest map[kube.Ref]kube.Object, list, freezes, pins keptList, now time.Time) (entries keptList) {
	if len(freezes) == 0 {
		return nil
	}
	by := func(r kube.Ref) *Kept {
		i := slices.IndexFunc(freezes, func(k *Kept) bool { s, _ := FreezeOf(k); return s.Has(r) })
		if i < 0 || pins.has(r) {
			return nil
		}
		return freezes[i]
	}
	entry := func(freeze, k *Kept) {
		k.Reason, k.By, k.Until, k.Since, k.From = ReasonFreeze, freeze.By, freeze.Until, now.UTC(), now.UTC()
		k.Detail = "frozen: " + freeze.Detail
		if was := list.find(k.Ref); was != nil && was.Reason == ReasonFreeze {
			k.Since, k.From = was.Since, was.From
		}
		entries = append(entries, k)
	}
	was := p.lastServed(c.Snapshot, list)
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
		if k := p.servedFilters(p.snapshot(), c.Snapshot); k != nil {
			entry(freeze, k)
		}
	}
	return entries
}

// lastServed returns the versions of objects that are served: nil for one that is kept out. After a restart these are what the list and the
// history tell, and for all others the newest ones.
func (p *Publisher) lastServed(newest *kube.Snapshot, list keptList) map[kube.Ref]kube.Object {
	served := p.snapshot()
	was := objectsOf(cmp.Or(served, newest))
	if served != nil { // with what is kept
		for _, k := range list.objects() {
			if k.Reason == ReasonFreeze && k.Object() == nil {
				was[k.Ref] = nil
			}
		}
		return was
	}
	if p.cfg.Changed != nil {
		maps.Copy(was, p.cfg.Changed(newest))
	}
	for _, k := range list.objects() {
		if k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup {
			was[k.Ref] = k.Object()
		}
	}
	return was
}

// sameVersion reports whether two versions of an object, which may be nil, are the same.
func sameVersion(a, b kube.Object) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

// newPins returns the pins that the last build did not have.
func (p *Publisher) newPins(entries keptList) keptList {
	return entries.where(func(k *Kept) bool {
		was := p.made.list.find(k.Ref)
		return k.Reason == ReasonPin && (was == nil || was.Reason != ReasonPin || !sameVersion(was.Object(), k.Object()))
	})
}

// Steer carries out an order at once, with the objects of the last read. What a pin takes away is no accident, so the guard does not keep it; what the
// end of a freeze or pin would take away is judged like any change. The error is [ErrNotSteered], or says that only tables are known.
func (p *Publisher) Steer(o Order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Builder == nil {
		return errors.New("only a route server that reads objects can freeze and pin them")
	}
	k := &p.keeper
	list, err := k.list.edit(o, time.Now())
	if err != nil {
		return err
	}
	k.list = list
	p.saveKept(list) // on disk before the table
	p.decide(o)
	p.showSteering()
	if p.made.newest.Snapshot == nil { // the next read has it
		return nil
	}
	m := p.keep(p.made.newest, time.Now())
	if m.list.table() != nil { // the next read judges it
		return nil
	}
	p.serve(m, func(c Candidate) {
		if served := p.Table(); served == nil || !served.Equal(c.Table) {
			p.publish(c, func() { p.cfg.Sink.Publish(c.Table) })
		}
	})
	return nil
}

// decide logs and records an order.
func (p *Publisher) decide(o Order) {
	p.log.Warn(LogSteered, "release", o.Release, "freeze", o.Freeze, "pins", len(o.Pins), "scope", o.Scope.String(), "until", releaseAt(o.Until),
		"by", o.By, "why", o.Why)
	d := api.Decision{Time: time.Now().UTC().Truncate(time.Millisecond), What: api.DecidedSteered, Objects: o.words(), By: o.By, Why: o.Why}
	if t := p.Table(); t != nil {
		d.Digest = t.Digest()
	}
	p.cfg.Decided(d)
}

// words says what an order is about.
func (o Order) words() string {
	switch {
	case o.Release:
		return "release of " + o.Scope.String()
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
	now := time.Now()
	list, err := p.keeper.list.edit(o, now)
	switch {
	case err != nil:
		return nil, nil, err
	case p.cfg.Builder == nil || p.made.newest.Snapshot == nil || p.Table() == nil:
		return nil, nil, errNothingRead
	}
	c, entries := p.steer(p.made.newest, list, now)
	others := list.objects().where(func(k *Kept) bool { return !steered(k.Reason) })
	return p.Table(), p.build(c, others.without(entries)).table, nil
}

// Orders returns the freezes and pins in force, the newest first, and a digest of them: replicas with the same ones have the same. It is zero if
// there are none. The caller owns the slice, not what it has.
func (p *Publisher) Orders() ([]*Kept, table.Digest) {
	list := p.shown.Load().list
	freezes, pins := list.orders()
	return slices.Concat(freezes, pins).newestFirst(), list.orderDigest()
}

// showSteering shows readers the freezes and pins. The caller holds mu.
func (p *Publisher) showSteering() {
	p.show()
	p.cfg.Metrics.keeps(p.keeper.list)
}

// TableOf returns the table that would be served if teams had requested something else, with the backends of the last read and without what
// is kept. The error says that nothing was read yet, or that only tables are known.
func (p *Publisher) TableOf(intent *kube.Intent) (*table.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.made.newest
	if p.cfg.Builder == nil || c.Snapshot == nil {
		return nil, errNothingRead
	}
	s := *c.Snapshot
	s.Intent = *intent
	return p.tableOf(p.cfg.Builder.CompileBeside(&s), c), nil
}
