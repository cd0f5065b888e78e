package publish

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// ErrNotKept says that an acceptance names no object that is kept.
var ErrNotKept = errors.New("no such object is kept")

// keeps records the kept objects of the read that is served now. The caller holds mu.
func (p *Publisher) keeps(m made) {
	k := &p.keeper
	newest := k.newest
	before := k.list
	if len(m.due) > 0 {
		p.released(m.due, m.table, time.Now(), nil)
	}
	k.list, k.served = m.list, m.snapshot
	var fresh keptList
	for _, o := range m.list {
		if !before.has(o.Ref) {
			fresh = append(fresh, o)
		}
	}
	if len(fresh) > 0 {
		k.digest = m.list.digest()
		p.log.Error(LogKept, "reason", string(fresh[0].Reason), "detail", fresh[0].Detail, "count", len(fresh), "objects", fresh.names(),
			"release_at", releaseAt(fresh[0].Until), "hash", k.digest.String())
		p.cfg.Metrics.holds.WithLabelValues(string(fresh[0].Reason)).Inc()
		p.decided(DecidedHeld, newest.Table.Digest(), fresh.names(), fresh[0].Reason, guard.Acceptance{})
	}
	p.shown.Store(&shownKept{slices.Clone(m.list), k.digest, k.last})
	p.cfg.Metrics.keeps(m.list)
	if len(m.list) > 0 {
		p.held.Store(&newest)
		p.cfg.Metrics.hold(true)
	} else {
		p.guard.Keeping(time.Time{})
		*k = keeper{served: k.served, last: k.last, newest: k.newest}
		if p.cfg.Builder != nil {
			p.cfg.Builder.Forget()
		}
	}
	p.saveState(k.list)
}

// released records that kept objects are released with a table, by time or by an operator. The caller holds mu.
func (p *Publisher) released(list keptList, t *table.Table, now time.Time, a *guard.Acceptance) {
	what, by := DecidedReleased, guard.Acceptance{}
	k := &p.keeper
	k.last = &guard.Release{Digest: t.Digest(), Reason: list[0].Reason, Since: list[0].Since, At: now}
	if a != nil {
		what, by = DecidedAccepted, *a
		k.last.Accepted, k.last.By, k.last.Why = true, a.By, a.Why
	}
	p.log.Warn(LogKeptReleased, "accepted", a != nil, "by", by.By, "why", by.Why, "count", len(list), "objects", list.names())
	p.decided(what, t.Digest(), list.names(), list[0].Reason, by)
}

// acceptKept releases the kept objects that an acceptance names, and publishes the newest read without them. The caller holds mu.
func (p *Publisher) acceptKept(a guard.Acceptance, now time.Time) (*table.Table, error) {
	k := &p.keeper
	refused := guard.HeldError{Digest: k.digest, Reason: k.list[0].Reason}
	switch {
	case k.newest.Snapshot == nil:
		return nil, fmt.Errorf("%w: this process has read nothing yet, so it does not know what waits", ErrNotKept)
	case a.Digest.IsZero():
		refused.Err = guard.ErrNoDigest
		return nil, &refused
	case a.Digest != k.digest:
		refused.Err = guard.ErrNotHeld
		return nil, &refused
	}
	var chosen, rest keptList
	for _, o := range k.list {
		if a.Accepts(o.Ref) {
			chosen = append(chosen, o)
		} else {
			rest = append(rest, o)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: GET /status lists them", ErrNotKept)
	}
	newest := k.newest
	next := p.build(newest, rest)
	p.guard.Forgive(next.table)
	p.released(chosen, next.table, now, &a)
	c := newest
	c.Table, c.Snapshot = next.table, next.snapshot
	if len(next.list) == 0 {
		p.held.Store(nil)
		p.cfg.Metrics.hold(false)
	}
	p.saveState(next.list)
	p.publish(c, now, func() { p.cfg.Sink.Publish(c.Table) })
	p.keeps(next)
	return c.Table, nil
}

// shownKept is what readers see of kept objects.
type shownKept struct {
	list   keptList
	digest table.Digest
	last   *guard.Release
}

// Kept returns the objects that are kept, the newest first. The caller owns the slice, not the objects.
func (p *Publisher) Kept() []*Kept {
	shown := p.shown.Load()
	if shown == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(shown.list), newestFirst)
}

// State returns what is held: a table that the guard holds back, or objects that are kept. Then Digest names their list, and the other
// figures are those of the newest table.
func (p *Publisher) State() guard.State {
	s := p.guard.State()
	shown := p.shown.Load()
	if shown == nil {
		return s
	}
	if l := shown.last; l != nil && (s.Last == nil || l.At.After(s.Last.At)) {
		s.Last = l
	}
	kept := p.Kept()
	if len(kept) == 0 || s.Held {
		return s
	}
	s.Held, s.Digest = true, shown.digest
	s.Verdict = guard.Verdict{Reason: kept[0].Reason, Since: kept[0].Since, ReleaseAt: kept[0].Until, Detail: kept[0].Detail}
	for _, k := range kept {
		if k.Since.Before(s.Verdict.Since) {
			s.Verdict.Since = k.Since
		}
		if !k.Until.IsZero() && (s.Verdict.ReleaseAt.IsZero() || k.Until.Before(s.Verdict.ReleaseAt)) {
			s.Verdict.ReleaseAt = k.Until
		}
	}
	if c := p.held.Load(); c != nil {
		s.Revision, s.Routes, s.Bytes = c.Table.Revision(), c.Table.Len(), c.Table.Bytes()
	}
	return s
}
