package publish

import (
	"maps"
	"slices"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// The reasons of reviews, beside the codes of package guard. Time releases nothing that is kept for them.
const (
	ReasonTrial    guard.Code = "trial"    // a real proxy did not survive a filter or predicate of the object
	ReasonTakeover guard.Code = "takeover" // the object would take requests of others
)

// Objection is the reason why a route may not be published.
type Objection struct {
	Reason guard.Code // ReasonTrial or ReasonTakeover
	Detail string
	// Pending means that there is no result yet. The object waits without being counted as kept.
	Pending bool
	// Lapsed means that the review timed out: objects not kept so far are published.
	Lapsed bool
}

// MoreSerious reports whether one objection outweighs another: failed, pending, takeover, lapsed.
func (o Objection) MoreSerious(than Objection) bool {
	rank := func(o Objection) int {
		switch {
		case o.Lapsed:
			return 3
		case o.Reason == ReasonTakeover:
			return 2
		case o.Pending:
			return 1
		}
		return 0
	}
	return rank(o) < rank(than)
}

// Objections are objections to routes, by their ids.
type Objections map[string]Objection

// Add adds an objection. If a route already has one, the more serious one stays.
func (all Objections) Add(id string, o Objection) {
	if other, twice := all[id]; !twice || o.MoreSerious(other) {
		all[id] = o
	}
}

// A Review returns objections to new or changed routes of a table; the caller owns them. before may be nil. It must not
// block: a later offer asks again.
type Review func(before, after *table.Table) Objections

// objections asks the review about a table. Objects kept for a takeover are compared with the newest version of all others,
// which may have changed.
func (p *policy) objections(s *situation, wanted Candidate, base, t *table.Table) Objections {
	if p.review == nil {
		return nil
	}
	all := p.review(base, t)
	if kept := s.list.objects().where(func(k *Kept) bool { return k.Reason == ReasonTakeover && k.replaces() }); len(kept) > 0 && t == wanted.Table {
		for id, o := range p.review(p.build(s, wanted, kept).table, t) {
			all.Add(id, o)
		}
	}
	return all
}

// refuse returns entries for the changed objects to whose routes the review objects, at their served versions, and for the default filters.
func (p *policy) refuse(s *situation, wanted Candidate, base *table.Table) (refused keptList, objected bool) {
	objections := p.objections(s, wanted, base, wanted.Table)
	if len(objections) == 0 {
		return nil, false
	}
	if k := s.otherFilters(s.newest.Snapshot.DefaultFilters); k != nil { // do the served filters remove an objection?
		rest := p.objections(s, wanted, base, p.build(s, wanted, keptList{k}).table)
		caused := maps.Clone(objections)
		maps.DeleteFunc(caused, func(id string, _ Objection) bool { _, still := rest[id]; return still })
		if len(caused) > 0 {
			refused, objections = s.refuse(refused, k, mostSerious(caused)), rest
		}
	}
	served := objectsOf(s.served.Snapshot)
	for o := range wanted.Snapshot.Objects() {
		was := served[o.Ref()]
		if len(objections) == 0 {
			break
		}
		if kept := s.list.find(o.Ref()); was == nil && kept != nil {
			was = kept.Object() // this process has not served it
		}
		if was == o || s.served.Table != nil && s.served.Snapshot == nil && was == nil || s.accepts(o.Ref()) {
			continue
		}
		if found, ok := p.objectionTo(o, objections); ok {
			refused = s.refuse(refused, keptObject(o.Ref(), was, false), found)
		}
	}
	return refused.sorted(), true
}

// withhold keeps routes as served, or out, that the review rejects although only something that their objects refer to has
// changed.
func (p *policy) withhold(s *situation, d *decision, base *table.Table) {
	objections := p.objections(s, d.wanted, base, d.table)
	if len(objections) == 0 {
		return
	}
	owners := p.ownersOf(d.snapshot, slices.Collect(maps.Keys(objections)))
	held := make(map[kube.Ref]Objections)
	for id, o := range objections {
		owner, known := owners[id]
		if was := d.list.find(owner); !known || s.accepts(owner) || was != nil && (was.Reason == ReasonPin || was.By == keptBy) {
			continue // unowned, accepted, or chosen by an operator or the guard
		}
		if held[owner] == nil {
			held[owner] = make(Objections)
		}
		held[owner][id] = o
	}
	var entries keptList
	for owner, of := range held {
		refused := s.refuse(nil, &Kept{Ref: owner}, mostSerious(of))
		if len(refused) == 0 {
			continue // lapsed
		}
		k := *refused[0]
		if was := d.list.find(owner); was != nil {
			k = *was // also kept for another reason
		} else {
			k.Version = kube.Version{} // the object itself is served
		}
		k.Routes = slices.Sorted(maps.Keys(of))
		entries = append(entries, &k)
	}
	if len(entries) > 0 {
		wanted := d.wanted
		*d = p.build(s, wanted, d.list.and(entries.sorted()))
	}
}

// objectionTo removes the objections to routes of an object, and returns the most serious one.
func (p *policy) objectionTo(o kube.Object, objections Objections) (Objection, bool) {
	own := make(Objections)
	for _, r := range p.builder.RoutesOf(o) {
		if found, ok := objections[r.ID]; ok {
			own[r.ID] = found
			delete(objections, r.ID)
		}
	}
	return mostSerious(own), len(own) > 0
}

// mostSerious returns the most serious objection; among equals, the objection to the first route by id.
func mostSerious(of Objections) (worst Objection) {
	first := ""
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if o := of[id]; first == "" || o.MoreSerious(worst) {
			first, worst = id, o
		}
	}
	return worst
}

// refuse adds an entry to a list. Objects kept for the same reason stay kept until their review is done.
func (s *situation) refuse(list keptList, k *Kept, o Objection) keptList {
	was := s.list.find(k.Ref)
	same := was != nil && was.Reason == o.Reason
	switch {
	case same && !was.Pending && (o.Pending || o.Lapsed):
		return append(list, was)
	case o.Lapsed:
		return list
	}
	k.Reason, k.Detail, k.By, k.Pending = o.Reason, o.Detail, string(o.Reason), o.Pending
	if k.Since = s.now.UTC(); same && was.Pending == o.Pending {
		k.Since = was.Since
	}
	return append(list, k)
}
