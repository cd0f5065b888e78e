package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// ReasonCanary means that the newest version soaks, on the canary alone, or was halted and is served to neither.
const ReasonCanary guard.Code = "canary"

const (
	byCanary = "canary" // the author of an entry that soaks
	// maxSoaks is how many soak times a constantly changing object, or a change without a verdict, waits at most.
	maxSoaks = 3
	deleted  = "deleted" // the signature of an object that does not exist
)

// CanaryConfig configures the canary of a Publisher that knows objects.
type CanaryConfig struct {
	// Sink serves the table of the canary; nil means that there is none.
	Sink Sink
	// Soak is how long a change is served to the canary alone; 0 means that nothing soaks.
	Soak time.Duration
	// Judged means that a change is promoted only once a [Verdict] allows it.
	Judged bool
	// Promoted is called with what was promoted. It must not block. It may be nil.
	Promoted func([]*Kept)
}

// Verdict is the answer of a canary query. The zero value means that there was none yet.
type Verdict struct {
	At     time.Time // when it was asked
	Firing bool      // it returned series, so nothing is promoted
	Text   string    // a description of the returned series, or the error
	Err    bool      // there was no answer
}

// answers reports whether the query has judged a change since it is on the canary.
func (v *Verdict) answers(k *Kept) bool { return !v.Err && v.At.After(k.Since) }

// aside returns the entries of the canary that the guard need not judge: halted ones, and those whose loss it judged within a
// window.
func (p *policy) aside(s *situation, wanted Candidate) keptList {
	entries := s.list.soaking()
	if p.canary.Soak == 0 || len(entries) == 0 {
		return nil
	}
	newest := found(entries, wanted.Snapshot)
	return entries.where(func(k *Kept) bool {
		settled := k.Soak.Halted != "" || k.Soak.Judged || s.now.Sub(k.Since) >= p.window
		return settled && !s.accepts(k.Ref) && k.Soak.Seen == p.seen(k, newest[k.Ref], wanted)
	})
}

// seen tells what an entry keeps back from other versions of it.
func (p *policy) seen(k *Kept, newest kube.Object, wanted Candidate) string {
	switch {
	case k.Ref == filtersRef:
		return SignatureOf(wanted.Snapshot.DefaultFilters)
	case len(k.Routes) > 0:
		routes := wanted.Table.Routes().Lookup()
		h := sha256.New()
		for _, id := range k.Routes {
			if r := routes.Get(id); r != nil {
				io.WriteString(h, withoutEndpoints(r)+"\n")
			}
		}
		return hex.EncodeToString(h.Sum(nil)[:16])
	case newest == nil:
		return deleted
	}
	return p.builder.Signature(newest)
}

// split removes soaking changes from the table of a decision. aside are its entries that the guard need not judge, due its
// ended ones.
func (p *policy) split(s *situation, d *decision, aside, due keptList) {
	list := d.list.others()
	if p.canary.Soak == 0 {
		d.list = list
		return
	}
	halted := aside.where(func(k *Kept) bool { return k.Soak.Halted != "" })
	if len(halted) < len(aside) {
		c := p.build(s, d.wanted, list.and(halted))
		d.snapshot, d.table = c.snapshot, c.table
	}
	if d.canary = d.table; s.canary != nil && s.canary.Equal(d.canary) {
		d.canary = s.canary
	}
	d.list = list
	if s.first && len(s.list.soaking()) == 0 {
		return // a first start soaks nothing
	}
	if entries := p.soaking(s, d, due); len(entries) > 0 {
		fleet := p.build(s, d.wanted, list.and(entries))
		d.snapshot, d.table, d.list = fleet.snapshot, fleet.table, fleet.list
	}
}

// soaking returns an entry for each object whose routes differ between canary and fleet in anything but endpoints.
func (p *policy) soaking(s *situation, d *decision, due keptList) (entries keptList) {
	list, changed := d.list, keptList(nil)
	like := list // compares all objects with the same default filters
	filters := d.wanted.Snapshot.DefaultFilters
	if k := list.find(filtersRef); k != nil {
		filters = k.DefaultFilters
	}
	if k := s.otherFilters(filters); k != nil {
		if like = list.and(keptList{k}); !list.has(filtersRef) {
			changed = keptList{k}
		}
		p.build(s, d.wanted, like) // so that the routes of all newest versions are known
	}
	was, newest := s.differing(d.wanted.Snapshot)
	for ref, old := range was {
		if now := newest[ref]; !list.has(ref) && !sameVersion(old, now) {
			changed = append(changed, keptObject(ref, old, now == nil))
		}
	}
	changed = changed.sorted()
	isKnown := func(k *Kept) bool { // the routes of its versions may be forgotten
		was := s.list.find(k.Ref)
		return was != nil && was.Soak != nil && was.replaces() && was.Soak.Seen == p.seen(k, newest[k.Ref], d.wanted)
	}
	if len(changed.where(isKnown)) < len(changed) {
		p.build(s, d.wanted, like.and(changed)) // so that the routes of the fleet's versions are known with today's endpoints
	}
	add := func(k *Kept, now kube.Object) {
		k.Soak = &Soak{Judged: due.has(k.Ref)}
		if next, over := p.age(s, k, p.seen(k, now, d.wanted)); over {
			d.promoted = append(d.promoted, next)
		} else {
			if entries = append(entries, next); now != nil {
				next.Detail = now.(kube.Routed).Metadata().Changed
			}
		}
	}
	for _, k := range changed {
		if now := newest[k.Ref]; isKnown(k) || k.Ref == filtersRef || p.changes(k.Object(), now) {
			add(k, now)
		}
	}
	others := func(ref kube.Ref) bool { return list.has(ref) || changed.has(ref) }
	for _, k := range p.changedRoutes(s, d, like.and(entries.sorted()), others) {
		add(k, nil)
	}
	d.promoted = d.promoted.sorted()
	return entries.sorted()
}

// differing returns the objects that differ between the fleet's snapshot, or else the list, and the newest one; nil for a
// missing one.
func (s *situation) differing(next *kube.Snapshot) (was, newest map[kube.Ref]kube.Object) {
	was, newest = make(map[kube.Ref]kube.Object), make(map[kube.Ref]kube.Object)
	if s.served.Snapshot == nil {
		entries := s.list.soaking()
		for _, k := range entries {
			if k.Ref != filtersRef && k.replaces() {
				was[k.Ref] = k.Object()
			}
		}
		return was, found(entries, next)
	}
	gone, fresh := s.served.Snapshot.Intent.Difference(&next.Intent)
	for o := range fresh.Objects() {
		was[o.Ref()], newest[o.Ref()] = nil, o
	}
	for o := range gone.Objects() {
		was[o.Ref()] = o
	}
	return was, newest
}

// changes reports whether two versions have different routes with the same services. A route without endpoints hides its
// filters, so then any difference counts.
func (p *policy) changes(old, now kube.Object) bool {
	var texts [2][]string
	hidden := false
	for i, o := range []kube.Object{old, now} {
		if o == nil {
			continue
		}
		for _, r := range p.builder.RoutesOf(o) {
			texts[i] = append(texts[i], r.Text)
			hidden = hidden || strings.Contains(r.Text, noEndpointsText)
		}
	}
	return !slices.Equal(texts[0], texts[1]) ||
		hidden && old != nil && now != nil && p.builder.Signature(old) != p.builder.Signature(now)
}

// noEndpointsText is in the text of routes without endpoints, which answer 502.
const noEndpointsText = `inlineContent("no endpoints")`

// changedRoutes returns entries for unchanged objects whose routes differ from the fleet's, for example because a service was
// created.
func (p *policy) changedRoutes(s *situation, d *decision, list keptList, others func(kube.Ref) bool) (entries keptList) {
	served := s.served.Table
	if served == nil || s.first {
		return nil
	}
	t := p.build(s, d.wanted, list)
	var ids []string
	if s.recalled { // another version of this program may have printed the routes
		for _, k := range s.list.soaking() {
			ids = append(ids, k.Routes...)
		}
	} else {
		for was, now := range table.Changes(served.Routes(), t.table.Routes()) {
			if now != nil && (was == nil || withoutEndpoints(was) != withoutEndpoints(now)) && !sameUnreachable(was, now) {
				ids = append(ids, now.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	routes := make(map[kube.Ref][]string)
	for id, owner := range p.ownersOf(t.snapshot, ids) {
		if !others(owner) {
			routes[owner] = append(routes[owner], id)
		}
	}
	for _, owner := range slices.SortedFunc(maps.Keys(routes), kube.Ref.Compare) {
		entries = append(entries, &Kept{Ref: owner, Routes: slices.Sorted(slices.Values(routes[owner]))})
	}
	return entries
}

// withoutEndpoints returns the text of a route without its endpoints.
func withoutEndpoints(r *table.Route) string {
	parsed, err := r.Parse()
	if err != nil {
		return r.Text
	}
	route := *parsed
	if route.BackendType == eskip.LBBackend || route.BackendType == eskip.NetworkBackend && !route.Shunt { // a single endpoint looks like a backend
		route.BackendType, route.Backend, route.LBAlgorithm, route.LBEndpoints = eskip.LBBackend, "", "", nil
	}
	return route.String()
}

// sameUnreachable reports whether two states of a route differ only in that one has no endpoints.
func sameUnreachable(was, now *table.Route) bool {
	if was == nil || strings.Contains(was.Text, noEndpointsText) == strings.Contains(now.Text, noEndpointsText) {
		return false
	}
	old, oldErr := was.Parse()
	is, nowErr := now.Parse()
	if oldErr != nil || nowErr != nil {
		return false
	}
	return slices.EqualFunc(old.Predicates, is.Predicates, func(a, b *eskip.Predicate) bool { return a.String() == b.String() })
}

// age completes the entry of a change, which continues or begins; over means that it ends.
func (p *policy) age(s *situation, k *Kept, seen string) (next *Kept, over bool) {
	k.Reason, k.By, k.Soak.Seen = ReasonCanary, byCanary, seen
	k.Since, k.Soak.Began = s.now.UTC(), s.now.UTC()
	if was := s.list.find(k.Ref); was != nil && was.Soak != nil {
		switch {
		case was.Soak.Seen == seen:
			k.By, k.Since, k.Until = was.By, was.Since, was.Until
			soak := *was.Soak
			soak.Judged = soak.Judged || k.Soak.Judged
			k.Soak = &soak
		case was.Soak.Halted == "":
			k.Soak.Began = was.Soak.Began
		}
	}
	if k.Until.IsZero() && k.Soak.Halted == "" {
		k.Until = k.Since.Add(p.canary.Soak)
		if last := k.Soak.Began.Add(maxSoaks * p.canary.Soak); last.Before(k.Until) {
			k.Until = last
		}
	}
	for _, peer := range s.theirs[k.Ref] {
		switch {
		case peer.Soak.Seen != seen || k.Soak.Halted != "":
		case peer.Soak.Halted != "":
			k.By, k.Until, k.Soak.Halted = peer.By, time.Time{}, peer.Soak.Halted
		case peer.Since.Before(k.Since):
			k.Since, k.Until, k.Soak.Began = peer.Since, peer.Until, peer.Soak.Began
		}
	}
	return k, s.accepts(k.Ref) || p.isDue(k, s.verdict, s.now)
}

// isDue reports whether a change has soaked and may pass.
func (p *policy) isDue(k *Kept, v Verdict, now time.Time) bool {
	switch {
	case k.Soak.Halted != "" || !k.over(now):
		return false
	case !p.canary.Judged:
		return true
	case v.answers(k):
		return !v.Firing
	}
	return !now.Before(p.passes(k))
}

// passes returns when a change that no query has judged is promoted.
func (p *policy) passes(k *Kept) time.Time { return k.Since.Add(maxSoaks * p.canary.Soak) }
