package publish

import (
	"maps"
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// The reasons of reviews, beside the codes of package guard. Time releases nothing that is kept for them.
const (
	ReasonTrial    guard.Code = "trial"    // a real proxy did not survive a filter or predicate of the object
	ReasonTakeover guard.Code = "takeover" // the object would take requests of others
)

// Reasons returns everything that objects are kept for, for metrics with a series for each.
func Reasons() []guard.Code {
	return append(guard.Codes(), ReasonTrial, ReasonTakeover, ReasonFreeze, ReasonPin)
}

// reviewed reports whether a reason is one of a review.
func reviewed(r guard.Code) bool { return r == ReasonTrial || r == ReasonTakeover }

// Objection says why a route may not be published.
type Objection struct {
	Reason guard.Code // ReasonTrial or ReasonTakeover
	Detail string
	// Pending means that nobody knows yet. The object waits without being counted as kept.
	Pending bool
	// Lapsed means that nobody could find out in time: what is not kept so far is published.
	Lapsed bool
}

// MoreSerious reports whether one objection outweighs another: a trial that failed outweighs one that is pending, that a takeover, and
// that a trial that lapsed.
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

// Add adds an objection. Of two to one route the more serious one stays.
func (all Objections) Add(id string, o Objection) {
	if other, twice := all[id]; !twice || o.MoreSerious(other) {
		all[id] = o
	}
}

// A Review returns objections to routes of a table; the caller owns them. before is the served table, or that of a replica, or nil. It must not
// wait: a later offer asks again.
type Review func(before, after *table.Table) Objections

// review returns the objects of the newest read that may not be served as they are, at their served versions. One whose served version
// nobody knows, because it is new or this process is, is left out.
func (p *Publisher) review(c Candidate, base *table.Table, now time.Time) (refused keptList) {
	if p.cfg.Review == nil {
		return nil
	}
	from := p.snapshot()
	if e := p.earlier; e != nil {
		base, from, p.earlier = e.Table, e.Snapshot, nil
	}
	objections := p.cfg.Review(base, c.Table)
	if kept := p.keeper.list.objects().where(func(k *Kept) bool { return k.Reason == ReasonTakeover }); len(kept) > 0 {
		// The objects that it would take from may have changed as well. So what counts is what it takes from their newest versions.
		for id, o := range p.cfg.Review(p.build(c, kept).table, c.Table) {
			objections.Add(id, o)
		}
	}
	if len(objections) == 0 {
		return nil
	}
	if k := p.servedFilters(from, c.Snapshot); k != nil && p.keeper.list.has(filtersRef) { // without them, is there still an objection?
		rest := p.cfg.Review(base, p.build(c, keptList{k}).table)
		if maps.DeleteFunc(objections, func(id string, _ Objection) bool { _, still := rest[id]; return still }); len(objections) > 0 {
			refused = p.refuse(refused, k, mostSerious(objections), now)
		}
		objections = rest
	}
	served := objectsOf(from)
	look := func(changed bool) {
		for o := range c.Snapshot.Objects() {
			was := served[o.Ref()]
			if len(objections) == 0 || (was != o) != changed {
				continue
			}
			if found, ok := p.objectionTo(o, objections); ok && changed {
				if kept := p.keeper.list.find(o.Ref()); was == nil && kept != nil {
					was = kept.Object() // this process has not read it
				}
				refused = p.refuse(refused, keptObject(o.Ref(), was, false), found, now)
			}
		}
	}
	look(true)
	if len(objections) > 0 && !slices.ContainsFunc(refused, func(k *Kept) bool { return k.Ref == filtersRef }) { // an unchanged object got other default filters
		rest := mostSerious(objections)
		look(false)
		if k := p.servedFilters(from, c.Snapshot); k != nil {
			refused = p.refuse(refused, k, rest, now)
		}
	}
	return refused.sorted()
}

// Reconsider makes the next offer ask the review about all that came after an earlier served table, and keep objects at their versions of then.
// Only its table and its intent are needed.
func (p *Publisher) Reconsider(earlier *Served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.earlier = earlier
}

// objectionTo takes the objections to routes of an object, and returns the most serious one.
func (p *Publisher) objectionTo(o kube.Object, objections Objections) (Objection, bool) {
	own := make(Objections)
	for _, r := range p.cfg.Builder.RoutesOf(o) {
		if found, ok := objections[r.ID]; ok {
			own[r.ID] = found
			delete(objections, r.ID)
		}
	}
	return mostSerious(own), len(own) > 0
}

// mostSerious returns the most serious objection, of several the one of the first route by id.
func mostSerious(of Objections) (worst Objection) {
	first := ""
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if o := of[id]; first == "" || o.MoreSerious(worst) {
			first, worst = id, o
		}
	}
	return worst
}

// servedFilters returns the entry of the served default filters, if the newest ones are others; nil if not, or if this process does not know the
// served ones.
func (p *Publisher) servedFilters(served, newest *kube.Snapshot) *Kept {
	k := &Kept{Ref: filtersRef}
	if served != nil {
		k.DefaultFilters = served.DefaultFilters
	} else if was := p.keeper.list.find(filtersRef); was != nil {
		k.DefaultFilters = was.DefaultFilters
	} else {
		return nil
	}
	if k.DefaultFilters == newest.DefaultFilters {
		return nil
	}
	return k
}

// refuse adds an entry to a list. What was kept for the same reason stays so until its review is done.
func (p *Publisher) refuse(list keptList, k *Kept, o Objection, now time.Time) keptList {
	was := p.keeper.list.find(k.Ref)
	same := was != nil && was.Reason == o.Reason
	switch {
	case same && !was.Pending && (o.Pending || o.Lapsed):
		return append(list, was)
	case o.Lapsed:
		return list
	}
	k.Reason, k.Detail, k.By, k.Pending = o.Reason, o.Detail, string(o.Reason), o.Pending
	if k.Since = now.UTC(); same && was.Pending == o.Pending {
		k.Since = was.Since
	}
	k.From = k.Since
	return append(list, k)
}

// logReviewed logs what a review begins and ends to keep. The caller holds mu.
func (p *Publisher) logReviewed(before, after keptList) {
	ended := before.where(func(k *Kept) bool { return reviewed(k.Reason) && !k.Pending && !after.has(k.Ref) })
	if len(ended) > 0 {
		p.log.Info(LogKeptBack, "count", len(ended), "objects", ended.names(), "kept", len(after.settled()))
	}
	waiting := after.where(func(k *Kept) bool { return k.Pending && !before.has(k.Ref) })
	if len(waiting) > 0 {
		p.log.Info(LogReviewed, "count", len(waiting), "objects", waiting.names(), "detail", waiting[0].Detail)
	}
}

// freshIn returns the entries of a list that are kept now and were not before, or only waited.
func freshIn(before, after keptList) keptList {
	return after.objects().settled().with(after.table()).where(func(k *Kept) bool {
		was := before.find(k.Ref)
		return was == nil || was.Pending || reviewed(was.Reason) != reviewed(k.Reason) || steered(was.Reason) != steered(k.Reason)
	})
}

// byReason groups entries for what is told once for each reason, in the order of the list.
func byReason(list keptList) (groups []keptList) {
	for _, k := range list {
		i := slices.IndexFunc(groups, func(g keptList) bool { return g[0].Reason == k.Reason })
		if i < 0 {
			i = len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], k)
	}
	return groups
}
